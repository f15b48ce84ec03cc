//! TLS by file: what a browser and programs get from the real program that speaks it itself.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use gig_tests::lab::{
    authority::{Authority, Leaf},
    openid_provider::OpenIdProvider,
    place,
};
use serde_json::json;

use super::{Appliance, Ask, PASSWORD, PATIENCE, command};
use crate::answer;

const NAME: &str = "gig.example";

/// A certificate for the appliance, where it reads it.
struct Files {
    folder: tempfile::TempDir,
    /// Who runs gig, where that is somebody else than this test.
    user: Option<u32>,
}

impl Files {
    fn new(user: Option<u32>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("others may pass");
        Self { folder, user }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn words(&self) -> Vec<String> {
        let [certificate, key] = ["chain.pem", "key.pem"].map(|name| self.path(name));
        let words = ["--tls-cert".into(), certificate, "--tls-key".into(), key];
        let words = words.map(|word: PathBuf| word.display().to_string());
        words.to_vec()
    }

    /// As an ACME client leaves it: the certificate first, then the key.
    fn put(&self, leaf: &Leaf) {
        for (name, text) in [("chain.pem", &leaf.certificate), ("key.pem", &leaf.key)] {
            fs::write(self.path(name), text).expect("a file");
            self.mode(name, 0o600);
            chown(self.path(name), self.user, None).expect("its owner");
        }
    }

    fn mode(&self, name: &str, mode: u32) {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.path(name), mode).expect("its mode");
    }

    fn root(&self, name: &str, authority: &Authority) -> PathBuf {
        fs::write(self.path(name), authority.pem()).expect("a file");
        self.path(name)
    }

    /// An appliance that shows it, run by `user`.
    fn appliance(&self, more: &[&str], environment: &[(&str, &str)]) -> Appliance {
        let folder = tempfile::tempdir().expect("a folder");
        let words = self.words();
        let words = words.iter().map(String::as_str).chain(more.iter().copied());
        let words: Vec<&str> = words.collect();
        let Some(user) = self.user else {
            return Appliance::start_with(folder, &words, None, environment);
        };
        chown(folder.path(), Some(user), Some(user)).expect("a folder of theirs");
        let plain = command(&folder, None);
        let mut command = Command::new("setpriv");
        command
            .args([format!("--reuid={user}"), format!("--regid={user}")])
            .arg("--clear-groups")
            .arg(plain.get_program());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .envs(environment.iter().copied())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(&words);
        Appliance::of(command, folder, None)
    }
}

/// What curl makes of a path of the console: head and body, or nothing and its exit status.
fn curl(appliance: &Appliance, root: &PathBuf, path: &str, words: &[&str]) -> Output {
    let port = appliance.address.rsplit(':').next().expect("a port");
    Command::new("curl")
        .args([
            "-sS",
            "-i",
            "--max-time",
            "20",
            "--noproxy",
            "*",
            "--cacert",
        ])
        .arg(root)
        .args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")])
        .args(words)
        .arg(format!("https://{NAME}:{port}{path}"))
        .output()
        .expect("curl")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The users to try it as: this one, and somebody who is not root.
fn users() -> Vec<Option<u32>> {
    match rustix::process::geteuid().is_root() {
        true => vec![None, Some(54_321)],
        false => vec![None],
    }
}

#[test]
fn people_and_programs_come_by_the_files_certificate_and_in_no_other_way() {
    for user in users() {
        let (files, authority) = (Files::new(user), Authority::new());
        files.put(&authority.leaf(&[NAME, "127.0.0.1"]));
        let root = files.root("root.pem", &authority);
        let appliance = files.appliance(&[], &[]);
        let port = appliance.address.rsplit(':').next().expect("a port");
        let own = format!("https://{NAME}:{port}");
        let said = appliance.said();
        assert!(said.contains(&format!("{own}/setup/")), "{said}");
        assert!(said.contains("listening on https://"), "{said}");

        let link = appliance.setup_link();
        let password = PASSWORD.replace(' ', "+");
        let form = format!("name=ana&password={password}&again={password}");
        let send = |origin: &str| {
            let origin = format!("Origin: {origin}");
            text(&curl(
                &appliance,
                &root,
                &link,
                &["-H", &origin, "-d", &form],
            ))
        };
        let foreign = send(&own.replace("https", "http"));
        assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
        let made = send(&own);
        assert!(made.starts_with("HTTP/1.1 303"), "{made}");
        assert!(made.contains("__Host-gig=ses_"), "{made}");
        assert!(made.contains("; Secure"), "{made}");
        assert!(
            made.contains("strict-transport-security: max-age="),
            "{made}"
        );

        for (most, passes) in [("1.1", false), ("1.2", true), ("1.3", true)] {
            let asked = curl(&appliance, &root, "/healthz", &["--tls-max", most]);
            assert_eq!(asked.status.success(), passes, "{most}: {asked:?}");
        }
        let mut plain = TcpStream::connect(&appliance.address).expect("connect");
        let ask = format!("GET /sign-in HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
        plain.write_all(ask.as_bytes()).expect("it listens");
        let mut answer = Vec::new();
        let _reset = plain.read_to_end(&mut answer);
        assert!(!answer.windows(4).any(|four| four == b"HTTP"), "{answer:?}");
        // An alert at most.
        assert!(answer.len() < 16, "{answer:?}");
    }
}

#[test]
fn streams_and_attachments_pass_by_tls() {
    let (files, authority) = (Files::new(None), Authority::new());
    files.put(&authority.leaf(&["127.0.0.1"]));
    let root = files.root("root.pem", &authority);
    let appliance = files.appliance(&[], &[]);
    let url = format!("https://{}", appliance.address);
    assert!(appliance.said().contains(&format!("{url}/setup/")));
    let token = appliance.token("admin");
    let bearer = format!("Authorization: Bearer {token}");
    let mut watching = Command::new("curl")
        .args(["-sSNi", "--max-time", "60", "--noproxy", "*", "--cacert"])
        .arg(&root)
        .args(["-H", &bearer, &format!("{url}/api/v1/events")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl");
    let mut heard = watching.stdout.take().expect("its words");
    let mut stream = String::new();
    let mut until = |what: &str| {
        let mut some = [0; 4096];
        while !stream.contains(what) {
            let read = heard.read(&mut some).expect("its words");
            assert_ne!(read, 0, "no {what}: {stream}");
            stream += &String::from_utf8_lossy(&some[..read]);
        }
    };
    until("text/event-stream");

    let added = appliance.gig(&["server", "add", "echo", "--", "/bin/cat"], "");
    assert_eq!(added.status, 0, "{added:?}");
    until("admin");
    watching.kill().expect("end it");
    watching.wait().expect("its end");

    let root = root.display().to_string();
    let mut client = command(&appliance.folder, None);
    client.env("GIG_TOKEN", &token);
    client.args(["mcp", "echo", "--url", &url, "--ca", &root]);
    let attached = answer(client, "passed by TLS\n");
    assert_eq!(
        (attached.status, &*attached.output),
        (0, "passed by TLS\n"),
        "{attached:?}"
    );
}

#[test]
fn a_sign_on_comes_back_by_tls() {
    let (files, authority) = (Files::new(None), Authority::new());
    files.put(&authority.leaf(&[NAME]));
    let root = files.root("root.pem", &authority);
    let provider = OpenIdProvider::start("RS256", "{}");
    let open = ["--outbound-private", "127.0.0.0/8"];
    let appliance = files.appliance(&open, &provider.environment());
    let port = appliance.address.rsplit(':').next().expect("a port");
    let claims = json!({"sub": "u-17", "preferred_username": "eva", "groups": ["writers"]});
    let told = Ask::new("POST", "/_next").json(&claims);
    assert_eq!(told.send_to(provider.address()).status, 200);
    let jar = files.path("jar").display().to_string();
    // curl keeps a `__Host-` cookie only if it was set by TLS, with Secure.
    let words = ["-L", "-c", &jar, "-b", &jar];
    let done = text(&curl(
        &appliance,
        &root,
        "/sign-in/oidc?next=/people",
        &words,
    ));
    let back = format!("https://{NAME}:{port}/sign-in/oidc/callback?");
    assert!(done.contains(&format!("ocation: {back}")), "{done}");
    assert!(done.contains("__Host-gig=ses_"), "{done}");
    // The page that they wanted, for who they are.
    let page = done.rsplit("HTTP/1.1 ").next().expect("an answer");
    assert!(page.starts_with("200") && page.contains("eva"), "{page}");
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart_and_a_broken_one_is_not() {
    let files = Files::new(None);
    let (first, second) = (Authority::new(), Authority::new());
    let (old, new) = (
        files.root("old.pem", &first),
        files.root("new.pem", &second),
    );
    files.put(&first.leaf(&[NAME]));
    let appliance = files.appliance(&[], &[]);
    let is_shown = |root: &PathBuf| curl(&appliance, root, "/healthz", &[]).status.success();
    assert!(is_shown(&old) && !is_shown(&new));
    let leaf = second.leaf(&[NAME]);
    // Half of it: the key that is there belongs to the former certificate.
    fs::write(files.path("chain.pem"), &leaf.certificate).expect("a file");
    appliance.until("it says why", |one| {
        one.said().contains("is not that of the certificate")
    });
    assert!(appliance.said().contains("the former one is shown on"));
    assert!(is_shown(&old) && !is_shown(&new));
    files.put(&leaf);
    let shows_it = |_: &Appliance| is_shown(&new);
    appliance.until("it shows the new one", shows_it);
    assert!(!is_shown(&old));
    // A key that others can read from now on is not taken, and what is shown stays.
    files.mode("key.pem", 0o644);
    appliance.until("it says so", |one| one.said().contains("others can use"));
    assert!(is_shown(&new));
}

#[test]
fn a_slow_handshake_is_cut_and_keeps_nobody_waiting() {
    let (files, authority) = (Files::new(None), Authority::new());
    files.put(&authority.leaf(&[NAME]));
    let root = files.root("root.pem", &authority);
    let appliance = files.appliance(&[], &[]);
    let begun = Instant::now();
    let slow: Vec<TcpStream> = (0..100)
        .map(|n| {
            let mut stream = TcpStream::connect(&appliance.address).expect("connect");
            // Some say nothing, some begin a ClientHello and never end it.
            if n % 2 == 0 {
                stream.write_all(&[22, 3, 1, 2, 0, 1]).expect("it listens");
            }
            stream
        })
        .collect();
    let served = curl(&appliance, &root, "/healthz", &[]);
    assert!(served.status.success(), "{served:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    for mut stream in slow {
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let mut rest = Vec::new();
        // Cut: an end or a reset, and no deadline of ours.
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
}

/// A server that is shown the folder of the certificate.
#[test]
fn the_certificates_key_is_shown_to_no_sandbox() {
    let (files, authority) = (Files::new(None), Authority::new());
    files.put(&authority.leaf(&[NAME]));
    let appliance = files.appliance(&[], &[]);
    let folder = files.folder.path().to_str().expect("UTF-8");
    // A sandbox with an id of its own: nothing but gig keeps it out.
    files.mode("key.pem", 0o644);
    for (name, at) in [("look", folder), ("elsewhere", "/shown/there")] {
        let look = format!("cd {at} && cat chain.pem; cat key.pem; echo looked");
        let shown = format!("{folder}:{at}");
        let shown = if at == folder { folder } else { &shown };
        let add = [
            "server", "add", name, "--ro", shown, "--", "sh", "-c", &look,
        ];
        let added = appliance.gig(&add, "");
        assert_eq!(added.status, 0, "{added:?}");
        let sandbox = appliance.run(name);
        appliance.until("it has ended", |one| one.ended(&sandbox).is_some());
        let log = appliance.gig(&["logs", &sandbox], "");
        assert!(log.output.contains("BEGIN CERTIFICATE"), "{log:?}");
        assert!(log.output.contains("looked"), "{log:?}");
        assert!(!log.output.contains("PRIVATE KEY"), "{log:?}");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_refuses_the_start() {
    let (files, authority) = (Files::new(None), Authority::new());
    let refused = |more: &[&str], said: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut serve = command(&folder, None);
        serve.args(["serve", "--listen", "0.0.0.0:0"]).args(more);
        let answer = answer(serve, "");
        assert_eq!(answer.status, 125, "{answer:?}");
        for said in said {
            assert!(answer.errors.contains(said), "no {said}: {answer:?}");
        }
    };
    let words = files.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    refused(&words, &["cannot read", "chain.pem"]);
    let (leaf, other) = (authority.leaf(&[NAME]), authority.leaf(&[NAME]));
    files.put(&leaf);
    files.mode("key.pem", 0o640);
    refused(
        &words,
        &["others can use the private key", "key.pem", "chmod 600"],
    );
    files.put(&Leaf {
        certificate: leaf.certificate,
        key: other.key,
    });
    refused(
        &words,
        &["is not that of the certificate", "key.pem", "chain.pem"],
    );
    // A wildcard says not where: by 0.0.0.0 nobody could sign in.
    files.put(&authority.leaf(&["*.gig.example"]));
    refused(&words, &["names no host", "GIG_PUBLIC_URL=https://"]);
    refused(&[], &["in clear text", "--tls-cert"]);
    let clear = [&words[..], &["--public-url", "http://localhost:1"]].concat();
    refused(&clear, &["GIG_PUBLIC_URL is in clear text"]);
    // One without the other is no TLS.
    let mut half = Command::new(place::gig());
    half.args(["serve", "--tls-cert", "chain.pem"]);
    let half = answer(half, "");
    assert!(
        half.status != 0 && half.errors.contains("--tls-key"),
        "{half:?}"
    );
}
