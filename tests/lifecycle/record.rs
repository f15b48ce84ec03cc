//! The record, and what a person is told at the end.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    time::{Duration, Instant},
};

use gig_audit::Event;
use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Way,
    http_origin::{HttpOrigin, greet},
    network::{Side, text},
    place,
};
use rustix::process::Signal;

use super::{verify, without_room};

const HOST: &str = "api.example.com";

#[test]
fn a_runs_record_is_a_whole_chain() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let file = lab.fresh_path("record.jsonl");
    let run = lab.gig().recording_to(&file).allow(HOST).sh(
        "curl -sS https://api.example.com/a/b?secret=query; curl -sS https://evil.example.net/; true",
    );
    assert_eq!(run.audit.of(Event::SandboxStart).count(), 1, "{run}");
    assert_eq!(run.audit.of(Event::SandboxExit).count(), 1, "{run}");
    let request = run
        .audit
        .of(Event::Request)
        .find(|e| e.host.as_deref() == Some(HOST));
    let request = request.unwrap_or_else(|| panic!("a request; {run}"));
    assert_eq!(request.path.as_deref(), Some("/a/b"), "{run}");
    assert_eq!(request.method.as_deref(), Some("GET"), "{run}");
    assert!(
        !run.audit.to_string().contains("secret=query"),
        "a query is never recorded; {run}"
    );
    let response = run
        .audit
        .of(Event::Response)
        .find(|e| e.status == Some(200));
    let response = response.unwrap_or_else(|| panic!("an outcome; {run}"));
    assert!(response.bytes_in.is_some_and(|n| n >= 22), "{run}");
    let (status, text) = verify(&file);
    assert_eq!(status, 0, "{text}");
}

/// Who holds the record's file open could open it anew and empty it.
#[test]
fn a_program_cannot_empty_its_own_record() {
    let lab = Lab::new();
    let file = lab.fresh_path("told.jsonl");
    let run = |script: &str| {
        let mut command = lab.network.command(Side::Host, "sh");
        command.args(["-c", script]).arg(place::gig()).arg(&file);
        command.output().expect("a shell")
    };
    let output = run(
        "exec \"$0\" run --audit - -- sh -c 'echo told >&2; (true > /proc/self/fd/2) 2>/dev/null; echo more >&2' 2> \"$1\"",
    );
    let told = fs::read_to_string(&file).expect("the record");
    assert!(output.status.success(), "{output:?}: {told}");
    for word in ["\"sandbox.start\"", "\"sandbox.exit\"", "told\n", "more\n"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    fs::write(&file, "").expect("an empty file");
    let output = run("exec \"$0\" run --audit \"$1\" -- true 2>> \"$1\"");
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let told = fs::read_to_string(&file).expect("words");
    assert!(told.contains("standard error is the audit file"), "{told}");
}

#[test]
fn a_record_that_somebody_empties_meanwhile_is_told_of_at_once() {
    let lab = Lab::new();
    let file = lab.fresh_path("emptied.jsonl");
    let script = "{ until [ -s \"$1\" ]; do sleep 0.1; done; : > \"$1\"; echo go; } |
        \"$0\" run --audit \"$1\" -- sh -c 'read go; getent hosts denied.example.net; true'";
    let mut command = lab.network.command(Side::Host, "sh");
    command.args(["-c", script]).arg(place::gig()).arg(&file);
    let output = command.output().expect("a shell");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(
        told.contains("the file lost ") && told.contains("audit.gap"),
        "{told}"
    );
    let (status, text) = verify(&file);
    assert_eq!(status, 1, "{text}");
}

#[test]
fn a_standard_error_that_swallows_is_no_place_for_a_record() {
    let lab = Lab::new();
    for gone in ["2> /dev/null", "2>&-"] {
        let script = format!("exec \"$0\" run --audit - -- echo started {gone}");
        let mut command = lab.network.command(Side::Host, "sh");
        command.args(["-c", &script]).arg(place::gig());
        let output = command.output().expect("a shell");
        assert_eq!(output.status.code(), Some(125), "{gone}: {output:?}");
        assert!(output.stdout.is_empty(), "{gone}: {output:?}");
    }
}

#[test]
fn what_a_program_makes_has_the_callers_file_mask() {
    let lab = Lab::new();
    let folder = lab.home().join("made");
    fs::create_dir_all(&folder).expect("a folder");
    for (mask, mode) in [("077", 0o600), ("002", 0o664)] {
        let script = format!(
            "umask {mask}; exec \"$0\" run --audit - --rw \"$1:/made\" -- sh -c 'echo x >/made/{mask}'"
        );
        let mut command = lab.network.command(Side::Host, "sh");
        command.args(["-c", &script]).arg(place::gig()).arg(&folder);
        let output = command.output().expect("a shell");
        assert!(output.status.success(), "{output:?}");
        let made = fs::metadata(folder.join(mask)).expect("the file");
        assert_eq!(made.permissions().mode() & 0o777, mode, "{mask}");
    }
}

/// Arguments may hold secrets: they are counted.
#[test]
fn a_start_says_what_ran_and_by_which_document() {
    let lab = Lab::new();
    let document = "version: 1\nname: reading\n";
    let subject = lab.gig().policy(document);
    let run = subject.run(["sh", "-c", "exit 0"]).success();
    let start = run.audit.of(Event::SandboxStart).next().expect("a start");
    assert_eq!(
        start.subject.as_deref(),
        Some("sh with 2 arguments"),
        "{run}"
    );
    assert_eq!(start.policy.as_deref(), Some("reading"), "{run}");
    let mut findings = start.findings.iter();
    let digest = findings.find_map(|one| one.strip_prefix("policy document: sha256:"));
    let file = lab.file("document", document);
    let sum = Command::new("sha256sum").arg(file).output();
    let sum = String::from_utf8(sum.expect("sha256sum").stdout).expect("text");
    assert_eq!(digest, sum.split(' ').next(), "{run}");
    assert!(!format!("{start:?}").contains("exit 0"), "{run}");
}

/// Whatever of it this host gives: each layer of the wall is told, once.
#[test]
fn a_start_reports_every_layer_once() {
    let lab = Lab::new();
    for options in [&[][..], &["--network", "disconnected"]] {
        let run = lab.gig().option(options).run(["true"]).success();
        let starts: Vec<_> = run.audit.of(Event::SandboxStart).collect();
        assert_eq!(starts.len(), 1, "{run}");
        let told = starts[0].findings.iter();
        let mut told: Vec<_> = told
            .map(|finding| {
                let (name, state) = finding.split_once(": ").expect("a layer and its state");
                let known = ["enforced", "partial (missing: ", "off ("];
                assert!(
                    known.iter().any(|word| state.starts_with(word)),
                    "{finding}"
                );
                name.to_owned()
            })
            .collect();
        told.sort();
        assert_eq!(told, LAYERS, "{run}");
    }
}

const LAYERS: [&str; 9] = [
    "capabilities",
    "cgroup",
    "landlock",
    "mounts",
    "namespaces",
    "network",
    "rlimits",
    "seccomp",
    "user",
];

/// No file may grow beyond some megabytes: as on a disk that is full, but for this gig alone.
#[test]
fn a_file_without_room_refuses_egress_and_says_so() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let file = lab.fresh_path("record.jsonl");
    let path = "x".repeat(7000);
    let asked = 800;
    let script = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}\\n' 'https://api.example.com/{path}[1-{asked}]' | sort | uniq -c"
    );
    let gig = lab.gig().recording_to(&file).allow(HOST);
    let output = without_room(&lab, &gig.command(["sh", "-c", &script]));
    let said = format!("{output:?}");
    let counts = String::from_utf8_lossy(&output.stdout).into_owned();
    let with = |status: &str| -> usize {
        let line = counts
            .lines()
            .find(|line| line.trim_end().ends_with(status));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    assert!(with("200") > 0 && with("200") < asked, "{said}");
    assert_eq!(
        origin.requests().len(),
        with("200"),
        "what was refused did not go; {said}"
    );
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("record"), "{said}");
    let lines = told.lines().filter(|line| line.contains("record")).count();
    assert!(lines < 20, "not a line for each request; {said}");
    let (status, text) = verify(&file);
    assert_eq!(status, 0, "{text}");
    // There is room again.
    let run = lab.gig().recording_to(&file).allow(HOST);
    let run = run.run(["curl", "-sS", "--fail", "https://api.example.com/"]);
    let _run = run.success();
    let (status, text) = verify(&file);
    assert_eq!(status, 0, "{text}");
}

#[test]
fn a_changed_or_missing_record_is_found() {
    let lab = Lab::new();
    let file = lab.fresh_path("record.jsonl");
    let run = lab.gig().recording_to(&file).going(Way::Straight);
    let _run = run.sh("curl -sS https://a.example.net/; curl -sS https://b.example.net/; true");
    let whole = fs::read_to_string(&file).expect("the record");
    let lines: Vec<&str> = whole.lines().collect();
    assert!(lines.len() >= 4, "{whole}");
    let changed = whole.replace("a.example.net", "x.example.net");
    let without_one = [&lines[..1], &lines[2..]].concat().join("\n") + "\n";
    let swapped = [&lines[..1], &lines[2..3], &lines[1..2], &lines[3..]]
        .concat()
        .join("\n")
        + "\n";
    for broken in [changed, without_one, swapped] {
        fs::write(&file, broken).expect("write");
        let (status, text) = verify(&file);
        assert_eq!(status, 1, "{text}");
    }
}

#[test]
fn two_runs_append_to_one_chain() {
    let lab = Lab::new();
    let file = lab.fresh_path("record.jsonl");
    let first = lab.gig().recording_to(&file).run(["true"]).success();
    let second = lab.gig().recording_to(&file).run(["true"]).success();
    assert!(second.audit.records().len() > first.audit.records().len());
    let (status, text) = verify(&file);
    assert_eq!(status, 0, "{text}");
}

/// What the program does is not recorded, so that it does not begin; that nothing more goes out when the room ends
/// later is `a_file_without_room_refuses_egress_and_says_so`.
#[test]
fn a_record_that_cannot_be_written_refuses_the_start() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let run = lab.gig().recording_to("/dev/full".as_ref()).allow(HOST);
    let run = run.sh("echo STARTED; curl -sS -m 60 -i https://api.example.com/; true");
    assert!(!run.text().contains("STARTED"), "{run}");
    assert_eq!(origin.raw().wire_octets(), 0, "{run}");
    let _run = run
        .exits(125)
        .complains("refusing to start the program")
        .complains("cannot write the record in /dev/full: No space left on device");
}

#[test]
fn the_summary_names_what_was_denied_and_the_option_that_allows_it() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .allow(HOST)
        .sh("curl -sS https://evil.example.net:8443/ 2>/dev/null; true")
        .success();
    let _run = run
        .complains("evil.example.net")
        .complains("--allow evil.example.net");
}

/// The options that a summary prints.
fn printed(run: &Finished) -> Vec<String> {
    let text = run.error_text();
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2);
    let options = pairs.filter(|pair| ["--allow", "--allow-private"].contains(&pair[0]));
    options
        .flatten()
        .map(|word| (*word).to_owned())
        .collect::<Vec<_>>()
}

/// Each time round the run is given what the last one printed; the last one prints nothing.
#[test]
fn what_the_summary_prints_can_be_given_as_it_stands() {
    let lab = Lab::new();
    let listener = lab
        .network
        .listen(Side::Host, SocketAddr::from(([127, 0, 0, 1], 5432)));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            // One that asks first, as databases do.
            let mut asked = [0; 8];
            if stream.read_exact(&mut asked).is_ok() {
                stream.write_all(b"answered").ok();
            }
        }
    });
    let place = "db.example.com:5432:127.0.0.1:5432";
    let script = "import socket\n\
        s = socket.create_connection(('db.example.com', 5432), 20)\n\
        s.sendall(b'\\0\\0\\0\\x08\\x04\\xd2\\x16\\x2f'); print(s.recv(8).decode())";
    // A name alone tells no port: for all but the web it has to be filled in.
    let run = |options: &[String]| {
        let subject = lab.gig().option(["--resolve", place]).option(options);
        subject.going(Way::Straight).python(script)
    };
    let named = run(&[]);
    let _named = named.clone().complains("--allow tcp:db.example.com:PORT");
    let mut options: Vec<String> = printed(&named).into_iter().take(2).collect();
    assert_eq!(options, ["--allow", "db.example.com"], "{named}");
    // The port and what is spoken there, then where it is.
    for round in ["tcp:db.example.com:5432", "127.0.0.1"] {
        let next = run(&options);
        let more = printed(&next);
        assert_eq!(more.last().map(String::as_str), Some(round), "{next}");
        options.extend(more);
    }
    let _last = run(&options).success().says("answered");
}

/// What gig opens it cannot let pass as it is too: the new option takes the place of the one that has it opened.
#[test]
fn what_the_summary_prints_for_tls_that_gig_cannot_open_can_be_given() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = "import socket, ssl\n\
        context = ssl.create_default_context()\n\
        context.set_alpn_protocols(['imap'])\n\
        s = socket.create_connection(('api.example.com', 443), 20)\n\
        context.wrap_socket(s, server_hostname='api.example.com')";
    let opened = lab.gig().allow(HOST).python(script).exits(1);
    assert_eq!(origin.raw().wire_octets(), 0, "{opened}");
    let opened = opened.complains(&format!(
        "--allow tcp:{HOST}:443 (in place of --allow {HOST})"
    ));
    let rule = format!("--allow {HOST}");
    let mut refused = opened.audit.denials(DenyReason::UnsupportedProtocol);
    let told = refused.find_map(|entry| entry.rule.as_deref());
    assert_eq!(told, Some(rule.as_str()), "{opened}");
    // It gets to the origin, which speaks no such protocol either.
    let passed = lab.gig().allow(&format!("tcp:{HOST}:443")).python(script);
    assert!(origin.raw().wire_octets() > 0, "{passed}");
}

/// A document's rule is mended in the document, where the option would be refused.
#[test]
fn what_a_summary_says_of_a_document_is_written_there() {
    let lab = Lab::new();
    let tls = lab.leaf(HOST).server_config(&["http/1.1"]);
    let listener = lab
        .network
        .listen(Side::Host, SocketAddr::from(([127, 0, 0, 1], 8443)));
    let origin = HttpOrigin::start(listener, Some(tls), greet);
    let run = |document: &str| {
        let subject = lab.gig().policy(document);
        let subject = subject.option(["--resolve", "api.example.com:443:127.0.0.1:8443"]);
        subject.run([
            "curl",
            "-sS",
            "-X",
            "PUT",
            "--fail",
            "https://api.example.com/a",
        ])
    };
    let start = "version: 1\negress:\n  - host: api.example.com\n";
    let closed = run(start);
    let error = closed.error_text();
    let line = error
        .lines()
        .find_map(|line| line.split_once("under the host: "));
    let (_, line) = line.unwrap_or_else(|| panic!("{closed}"));
    let open = format!("{start}    {line}\n");
    let _run = run(&open).success();
    let narrow = run(&format!("{open}    rules: [{{methods: [GET]}}]\n"));
    let error = narrow.error_text();
    let rule = error.lines().find_map(|line| line.split_once(".yaml: "));
    let (_, rule) = rule.unwrap_or_else(|| panic!("{narrow}"));
    let _run = run(&format!("{open}    rules: [{{methods: [GET]}}, {rule}]\n")).success();
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn quiet_runs_have_no_summary() {
    let lab = Lab::new();
    let run = lab.gig().option(["--quiet"]);
    let run = run
        .sh("curl -sS https://evil.example.net/ 2>/dev/null; true")
        .success();
    assert_eq!(run.error_text(), "", "{run}");
}

#[test]
fn observe_mode_records_what_it_would_have_denied() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    for way in Way::BOTH {
        let run = lab.gig().option(["--observe"]).going(way);
        let run = run
            .run(["curl", "-sS", "--fail", "https://api.example.com/"])
            .success();
        let would = run
            .audit
            .of(Event::Request)
            .any(|entry| entry.verdict == Some(gig_audit::VerdictWord::WouldDeny));
        assert!(would, "{run}");
    }
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn records_go_to_standard_error_when_asked() {
    let lab = Lab::new();
    let run = lab.gig().recording_to("-".as_ref()).run(["true"]).success();
    let _run = run
        .complains("\"sandbox.start\"")
        .complains("\"sandbox.exit\"");
    let _used = text(lab.root_file());
}

/// What leaves in the middle of a body is on record by then, in each kind of record.
#[test]
fn a_gig_that_is_killed_in_the_middle_of_a_body_has_recorded_which_secret_went_there() {
    const VALUE: &str = "real-value-7Qx2mZ0pLr";
    let script = "import http.client, os, time\n\
        c = http.client.HTTPSConnection('api.example.com', timeout=90)\n\
        c.putrequest('POST', '/upload')\n\
        c.putheader('Transfer-Encoding', 'chunked')\n\
        c.putheader('Content-Type', 'text/plain')\n\
        c.endheaders()\n\
        for text in ['before ', os.environ['TOKEN'] + '.']:\n\
        \x20c.send(b'%x\\r\\n%s\\r\\n' % (len(text), text.encode()))\n\
        print('sent', flush=True)\n\
        time.sleep(600)";
    for kind in ["jsonl", "db"] {
        let lab = Lab::new();
        let origin = lab.https(HOST, greet);
        let file = lab.fresh_path(&format!("record.{kind}"));
        let subject = lab.gig().allow(HOST).host_env("TOKEN", VALUE);
        let subject = subject.option(["--secret", "TOKEN@api.example.com"]);
        let live = subject.recording_to(&file).start(["python3", "-c", script]);
        let begun = Instant::now();
        while !origin.raw().text().contains(VALUE) {
            let late = begun.elapsed() > Duration::from_secs(120);
            assert!(!late, "{}: {}", origin.raw().text(), live.output_so_far());
            std::thread::sleep(Duration::from_millis(5));
        }
        live.signal(Signal::KILL);
        let killed = live.finish(Duration::from_secs(20));
        assert_eq!(killed.status, 137, "{killed}");
        let search = |more: &[&str]| {
            let mut search = Command::new(place::gig());
            search.args(["audit", "search", "--json", "--secret", "TOKEN"]);
            let found = search.args(more).arg(&file).output().expect("gig");
            String::from_utf8_lossy(&found.stdout).into_owned()
        };
        let used = search(&["--event", "secret.use", "--host", HOST]);
        assert!(used.contains("secret TOKEN version "), "{kind}: {used}");
        assert!(used.contains("/upload"), "{kind}: {used}");
        let outcomes = search(&["--event", "response"]);
        assert!(outcomes.contains("\"records\": []"), "{kind}: {outcomes}");
        assert!(!search(&[]).contains(VALUE), "{kind}");
        let (status, text) = verify(&file);
        assert_eq!(status, 0, "{text}");
    }
}
