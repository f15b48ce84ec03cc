//! Who takes records: a collector that is strict about OTLP, and rsyslog.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::PATIENCE;

/// Takes one request with logs and gives an answer; what was asked.
pub(super) fn collect(listener: &TcpListener, status: &str, body: &str) -> Value {
    let request = take(listener, "/v1/logs", (status, body));
    check(&request);
    request
}

/// Takes one request to `path` and gives an answer; what was asked.
pub(crate) fn take(listener: &TcpListener, path: &str, (status, body): (&str, &str)) -> Value {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_ascii_lowercase());
    }
    assert_eq!(head[0], format!("post {path} http/1.1"));
    for field in [
        "content-type: application/json",
        "authorization: bearer t0ken",
    ] {
        assert!(head.iter().any(|line| line == field), "{head:?}");
    }
    let length = head
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut octets = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut octets).unwrap();
    let mut stream: TcpStream = reader.into_inner();
    let answer = format!(
        "HTTP/1.1 {status}\r\nretry-after: 0\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).unwrap();
    serde_json::from_slice(&octets).unwrap()
}

/// What `opentelemetry.proto.collector.logs.v1` takes, and nothing else.
fn check(request: &Value) {
    let only = |value: &Value, fields: &[&str]| {
        for name in value.as_object().unwrap().keys() {
            assert!(fields.contains(&name.as_str()), "{name} in {value}");
        }
    };
    let attributes = |list: &Value| {
        for attribute in list.as_array().unwrap() {
            only(attribute, &["key", "value"]);
            assert!(!attribute["key"].as_str().unwrap().is_empty());
            let kinds = attribute["value"].as_object().unwrap();
            assert_eq!(kinds.len(), 1, "{attribute}");
            for (kind, value) in kinds {
                let right = match kind.as_str() {
                    "stringValue" => value.is_string(),
                    // 64 bits are texts in this encoding.
                    "intValue" => value
                        .as_str()
                        .is_some_and(|text| text.parse::<i64>().is_ok()),
                    "arrayValue" => value["values"].is_array(),
                    _ => false,
                };
                assert!(right, "{attribute}");
            }
        }
    };
    only(request, &["resourceLogs"]);
    for resource in request["resourceLogs"].as_array().unwrap() {
        only(resource, &["resource", "scopeLogs", "schemaUrl"]);
        attributes(&resource["resource"]["attributes"]);
        for scope in resource["scopeLogs"].as_array().unwrap() {
            only(scope, &["scope", "logRecords", "schemaUrl"]);
            for record in scope["logRecords"].as_array().unwrap() {
                let fields = [
                    "timeUnixNano",
                    "observedTimeUnixNano",
                    "severityNumber",
                    "severityText",
                    "eventName",
                    "body",
                    "attributes",
                    "traceId",
                    "spanId",
                ];
                only(record, &fields);
                for time in ["timeUnixNano", "observedTimeUnixNano"] {
                    assert!(record[time].as_str().unwrap().parse::<u64>().unwrap() > 0);
                }
                assert!((1..=24).contains(&record["severityNumber"].as_u64().unwrap()));
                for (id, length) in [("traceId", 32), ("spanId", 16)] {
                    let id = record.get(id).map(|id| id.as_str().unwrap().len());
                    assert!(id.is_none_or(|id| id == length), "{record}");
                }
                assert!(record["body"]["stringValue"].is_string());
                attributes(&record["attributes"]);
            }
        }
    }
}

/// A receiver as companies run it.
pub(super) struct Rsyslog {
    child: Child,
    pub(super) port: u16,
    received: PathBuf,
}

impl Rsyslog {
    pub(super) fn start(place: &Path, tls: Option<&rcgen::CertifiedKey<rcgen::KeyPair>>) -> Self {
        let at = |name: &str| place.join(name).display().to_string();
        let mut config = format!("global(workDirectory=\"{}\"", place.display());
        let mut driver = "";
        if let Some(certified) = tls {
            fs::write(at("cert.pem"), certified.cert.pem()).unwrap();
            fs::write(at("key.pem"), certified.signing_key.serialize_pem()).unwrap();
            config += &format!(
                " defaultNetstreamDriver=\"gtls\" defaultNetstreamDriverCAFile=\"{cert}\"
                 defaultNetstreamDriverCertFile=\"{cert}\" defaultNetstreamDriverKeyFile=\"{}\"",
                at("key.pem"),
                cert = at("cert.pem"),
            );
            driver = " streamDriver.name=\"gtls\" streamDriver.mode=\"1\" streamDriver.authMode=\"anon\"";
        }
        config += &format!(
            ")\nmodule(load=\"imtcp\"{driver})\n\
             template(name=\"all\" type=\"string\" \
             string=\"%pri%|%protocol-version%|%hostname%|%app-name%|%msgid%|%structured-data%|%msg%\\n\")\n\
             ruleset(name=\"keep\") {{ action(type=\"omfile\" file=\"{}\" template=\"all\") }}\n\
             input(type=\"imtcp\" port=\"0\" address=\"127.0.0.1\" listenPortFileName=\"{}\" ruleset=\"keep\")\n",
            at("received"),
            at("port"),
        );
        fs::write(at("rsyslog.conf"), config).unwrap();
        // Under another name, where no machine's AppArmor says what it may read. Written by a process of
        // its own: what another test starts meanwhile would hold it open for writing.
        let copied = Command::new("cp")
            .args(["/usr/sbin/rsyslogd", &at("rsyslogd")])
            .status();
        assert!(copied.expect("cp").success(), "rsyslogd");
        let child = Command::new(at("rsyslogd"))
            .args(["-n", "-f", &at("rsyslog.conf"), "-i", &at("pid")])
            .stderr(Stdio::null())
            .spawn()
            .expect("rsyslogd");
        let port = eventually(|| fs::read_to_string(at("port")).ok()?.trim().parse().ok());
        Self {
            child,
            port,
            received: place.join("received"),
        }
    }

    /// What it kept, once it is so many lines.
    pub(super) fn lines(&self, count: usize) -> Vec<String> {
        eventually(|| {
            let text = fs::read_to_string(&self.received).ok()?;
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            (lines.len() >= count && text.ends_with('\n')).then_some(lines)
        })
    }
}

impl Drop for Rsyslog {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

pub(super) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}
