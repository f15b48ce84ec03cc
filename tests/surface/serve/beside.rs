//! Beside an appliance: a gig of the same user that knows nothing of it, and what of it no option of that one
//! opens or shows; what the appliance shows of itself on purpose.

use std::{fs, io::Write as _, net::TcpListener, os::unix::fs::PermissionsExt as _, thread};

use serde_json::Value;

use super::{Appliance, command};
use crate::{Answer, answer};

/// `gig run`, with a data directory that is not the appliance's.
fn stranger(options: &[&str], program: &[&str]) -> Answer {
    let own = tempfile::tempdir().expect("a folder");
    let mut stranger = command(&own, None);
    stranger.args(["run", "--quiet"]).args(options).arg("--");
    stranger.args(program);
    answer(stranger, "")
}

#[test]
fn the_console_of_another_gig_is_opened_by_no_option() {
    let appliance = Appliance::start();
    let neighbour = TcpListener::bind("127.0.0.1:0").expect("listen");
    let open = neighbour.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in neighbour.incoming().flatten() {
            let mut stream = stream;
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nopen";
            let _gone = stream.write_all(answer.as_bytes());
            // What is closed with something unread is reset.
            let _rest = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let ask = |port: &str| {
        let allow = format!("x.test:{port}");
        let resolve = format!("x.test:{port}:127.0.0.1:{port}");
        let options = [
            ["--allow", &allow],
            ["--allow-private", "127.0.0.0/8"],
            ["--resolve", &resolve],
        ];
        let url = format!("http://x.test:{port}/healthz");
        stranger(
            options.as_flattened(),
            &["curl", "-sS", "-m", "20", "-w", " %{http_code}", &url],
        )
    };
    let seen = ask(&open.to_string());
    assert_eq!(seen.output, "open 200", "{seen:?}");
    let port = appliance.address.rsplit(':').next().expect("a port");
    let refused = ask(port);
    assert!(refused.output.contains("never_openable"), "{refused:?}");
    assert!(refused.output.ends_with(" 403"), "{refused:?}");
}

/// In its own folder, right below a shown one, and deep below one; shown for reading and for writing.
#[test]
fn nothing_of_an_appliance_is_shown_by_a_bind() {
    for below in ["", "a/b/c"] {
        let folder = tempfile::tempdir().expect("a folder");
        // The sandbox has an id of its own: it must be able to pass.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("open it");
        let home = folder.path().join(below);
        fs::create_dir_all(&home).expect("folders");
        let data = home.join("gig");
        let data = data.to_str().expect("UTF-8");
        let mut appliance = Appliance::start_with(
            tempfile::tempdir().expect("a folder"),
            &[],
            None,
            &[("GIG_DATA_DIR", data)],
        );
        assert!(fs::exists(home.join("gig/control.sock")).expect("a look"));
        // Also where the sandbox's id is another one nothing but gig keeps it out.
        let mut opened = std::process::Command::new("chmod");
        opened.args(["-R", "a+rX", data]);
        assert_eq!(answer(opened, "").status, 0);
        for way in ["--ro", "--rw"] {
            let itself = stranger(&[way, data], &["true"]);
            assert_eq!(itself.status, 125, "{itself:?}");
            assert!(itself.errors.contains("own"), "{itself:?}");
            let shown = folder.path().to_str().expect("UTF-8");
            let look = format!("find {shown}; cat {data}/ca.pem {data}/serve.lock; true");
            let parent = stranger(&[way, shown], &["sh", "-c", &look]);
            assert_eq!(parent.status, 0, "{parent:?}");
            assert!(parent.output.contains(data), "{parent:?}");
            assert!(!parent.output.contains(&format!("{data}/")), "{parent:?}");
            assert!(!parent.output.contains("CERTIFICATE"), "{parent:?}");
        }
        // When it is gone its folder is one among others again, but for what is known by its name.
        appliance.child.kill().expect("kill it");
        appliance.child.wait().expect("its end");
    }
}

#[test]
fn the_authority_of_an_appliance_is_shown_while_it_serves() {
    let mut appliance = Appliance::start();
    let shown = appliance.gig(&["ca", "show"], "");
    assert_eq!(shown.status, 0, "{shown:?}");
    assert!(shown.output.starts_with("-----BEGIN CERTIFICATE-----\n"));
    assert!(!shown.output.contains("PRIVATE"), "{shown:?}");
    let told = appliance.gig(&["ca", "show", "--json"], "");
    let told: Value = serde_json::from_str(&told.output).expect("JSON");
    assert_eq!(
        told["ca_pem"].as_str().map(str::trim_end),
        Some(shown.output.trim_end())
    );
    // What its sandboxes trust is this very certificate.
    let token = appliance.token("admin");
    appliance.policy(&token, "version: 1\negress: []\n");
    appliance.server("looker", "cat /etc/gig-ca.pem");
    let sandbox = appliance.run("looker");
    appliance.until("it has looked", |one| one.ended(&sandbox).is_some());
    let inside = appliance.gig(&["logs", &sandbox], "");
    assert_eq!(inside.output.trim_end(), shown.output.trim_end());
    let fingerprint = told["sha256"].as_str().expect("a fingerprint");
    let check = "openssl x509 -noout -fingerprint -sha256";
    let mut openssl = std::process::Command::new("sh");
    openssl.args(["-c", check]);
    let said = answer(openssl, &shown.output);
    assert!(said.output.trim_end().ends_with(fingerprint), "{said:?}");
    // A former one's is nobody's.
    appliance.child.kill().expect("kill it");
    appliance.child.wait().expect("its end");
    let none = appliance.gig(&["ca", "show"], "");
    assert_eq!(none.status, 125, "{none:?}");
    assert!(none.errors.contains("no appliance serves"), "{none:?}");
}

/// Its own file, which nothing else of the host's shows, and which it cannot change.
#[test]
fn a_servers_own_file_is_at_app_server_and_read_only() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    appliance.policy(&token, "version: 1\negress: []\n");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tool");
    let script = "#!/bin/sh\necho here is $0 with $*\ntouch $0 2>&1 || echo fixed\nls /app\n";
    fs::write(&file, script).expect("a script");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("let it run");
    let named = file.to_str().expect("UTF-8");
    let words = [
        "server", "add", "tool", "--policy", "web", "--", named, "--fast",
    ];
    let added = appliance.gig(&words, "");
    assert_eq!(added.status, 0, "{added:?}");
    let sandbox = appliance.run("tool");
    appliance.until("it has ended", |one| one.ended(&sandbox).is_some());
    let log = appliance.gig(&["logs", &sandbox], "");
    let said: Vec<_> = log.output.lines().collect();
    assert_eq!(said[0], "here is /app/server with --fast", "{log:?}");
    assert_eq!(said[said.len() - 2..], ["fixed", "server"], "{log:?}");
    assert_eq!(fs::read_to_string(&file).expect("the script"), script);
}
