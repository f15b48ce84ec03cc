//! Protocols that gig does not open: PostgreSQL, SSH, SMTP, TLS passed through.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{IpAddr, SocketAddr},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
};

use gig_audit::Event;
use gig_tests::lab::{Lab, Subject, network::Side, network::text, service::Service};

fn opaque<'lab>(lab: &'lab Lab, host: &str, port: u16) -> Subject<'lab> {
    lab.gig().policy(&format!(
        "version: 1\nname: opaque\negress:\n  - {{host: {host}, ports: [{port}], protocol: tcp}}\n"
    ))
}

/// A PostgreSQL of its own, on `address` and with a socket in `sockets`.
fn postgresql(lab: &Lab, address: IpAddr, sockets: &Path) -> Service {
    let folder = lab.folder("postgres");
    let id = |flag| {
        let output = Command::new("id")
            .args([flag, "postgres"])
            .output()
            .expect("id");
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse::<u32>()
            .expect("the user postgres")
    };
    let (uid, gid) = (id("-u"), id("-g"));
    for folder in [folder.as_path(), sockets] {
        chown(folder, Some(uid), Some(gid)).expect("chown");
    }
    let programs = newest("/usr/lib/postgresql") + "/bin";
    let data = text(&folder.join("data"));
    let drop = [
        format!("--reuid={uid}"),
        format!("--regid={gid}"),
        "--clear-groups".to_owned(),
    ];
    let mut initdb = Command::new("setpriv");
    initdb
        .args(&drop)
        .arg(format!("{programs}/initdb"))
        .args(["-N", "-A", "trust", "-D", &data]);
    let made = initdb.current_dir("/").output().expect("initdb");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let hba = folder.join("data/pg_hba.conf");
    fs::write(&hba, "host all all 0.0.0.0/0 trust\nlocal all all trust\n").expect("write");
    let mut server = lab.network.command(Side::Internet, "setpriv");
    server
        .args(&drop)
        .arg(format!("{programs}/postgres"))
        .args(["-D", &data]);
    for setting in [
        "fsync=off".to_owned(),
        "shared_buffers=16MB".to_owned(),
        format!("listen_addresses={address}"),
        format!("unix_socket_directories={}", sockets.display()),
    ] {
        server.args(["-c", &setting]);
    }
    server.current_dir("/");
    let mut server = Service::start(server, lab.fresh_path("postgres.log"));
    server.wait_for(&lab.network, SocketAddr::new(address, 5432));
    server
}

const COUNT: &str = "select 'rows: ' || count(*) from generate_series(1, 100000)";

#[test]
fn psql_queries_a_real_postgresql() {
    let lab = Lab::new();
    let address = lab.address_for("db.example.com");
    let _server = postgresql(&lab, address, &lab.folder("sockets"));
    let psql = newest("/usr/lib/postgresql") + "/bin/psql";
    let url = "postgresql://postgres@db.example.com/postgres";
    let run = opaque(&lab, "db.example.com", 5432).run([psql.as_str(), "-At", "-c", COUNT, url]);
    let _run = run
        .success()
        .says("rows: 100000")
        .connected("db.example.com");
}

/// Without any network: the one socket that was bound is the one thing that is reached.
#[test]
fn psql_reaches_a_socket_of_the_host_that_is_bound_inside() {
    let lab = Lab::new();
    let address = lab.address_for("db.example.com");
    let sockets = lab.folder("sockets");
    let _server = postgresql(&lab, address, &sockets);
    let psql = newest("/usr/lib/postgresql") + "/bin/psql";
    let query = ["-At", "-U", "postgres", "-h", "/run/database", "-c", COUNT];
    let folder = format!("{}:/run/database", sockets.display());
    let socket = ".s.PGSQL.5432";
    let socket = format!("{}/{socket}:/run/database/{socket}", sockets.display());
    let ask = [&[psql.as_str()], &query[..]].concat();
    for shown in [vec![&socket], vec![&folder, &socket]] {
        let shown = shown.iter().flat_map(|bind| ["--ro", bind]);
        let options = ["--network", "disconnected"].into_iter().chain(shown);
        let run = lab.gig().option(options).run(&ask);
        let _run = run.success().says("rows: 100000");
    }
    let run = lab.gig().option(["--network", "disconnected"]).run(&ask);
    assert_ne!(run.status, 0, "{run:?}");
    let output = String::from_utf8_lossy(&run.output);
    assert!(!output.contains("rows:"), "{run:?}");
}

#[test]
fn ssh_runs_a_command_on_a_real_sshd() {
    let lab = Lab::new();
    let address = lab.address_for("git.example.com");
    let folder = lab.folder("sshd");
    for (name, owner) in [("host", 0), ("user", lab.user().uid)] {
        let file = folder.join(name);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &text(&file)])
            .status();
        assert!(made.expect("ssh-keygen").success());
        chown(&file, Some(owner), None).expect("chown");
        if name == "user" {
            // A bind keeps its modes; inside, the program need not be the user that owns the file.
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("chmod");
        }
    }
    let public = fs::read_to_string(folder.join("user.pub")).expect("the public key");
    let authorized = lab.file("authorized_keys", &public);
    fs::create_dir_all("/run/sshd").expect("sshd's privilege separation folder");
    fs::set_permissions("/run/sshd", fs::Permissions::from_mode(0o755)).expect("chmod");
    let configuration = format!(
        "Port 22\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         PermitRootLogin yes\nPidFile none\nUsePAM no\nForceCommand echo the-command-ran\n",
        folder.join("host").display(),
        authorized.display()
    );
    let configuration = lab.file("sshd_config", &configuration);
    let mut sshd = lab.network.command(Side::Internet, "/usr/sbin/sshd");
    sshd.args(["-D", "-e", "-f"]).arg(configuration);
    let mut server = Service::start(sshd, lab.fresh_path("sshd.log"));
    server.wait_for(&lab.network, SocketAddr::new(address, 22));
    // The key is copied inside, because ssh wants it private to its user.
    let script = format!(
        "cp {} /tmp/key && chmod 600 /tmp/key && ssh -i /tmp/key -o BatchMode=yes -F none \
         -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@git.example.com",
        folder.join("user").display()
    );
    let run = opaque(&lab, "git.example.com", 22)
        .read_only(&folder)
        .sh(&script);
    let _run = run
        .success()
        .says("the-command-ran")
        .connected("git.example.com");
}

#[test]
fn smtp_server_speaks_first() {
    let lab = Lab::new();
    let address = lab.address_for("mail.example.com");
    let origin = lab.tcp(SocketAddr::new(address, 25), |conversation| {
        conversation.write_all(b"220 mail.example.com ready\r\n")?;
        let mut reader = BufReader::new(conversation);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            let quit = line.starts_with("QUIT") || line.starts_with("quit");
            let answer: &[u8] = match line.trim_end() {
                "DATA" | "data" => b"354 go on\r\n",
                "QUIT" | "quit" => b"221 bye\r\n",
                // Of a message only its end is answered.
                "Subject: x" | "" | "body" => b"",
                _ => b"250 ok\r\n",
            };
            reader.get_mut().write_all(answer)?;
            if quit {
                break;
            }
            line.clear();
        }
        Ok(())
    });
    let script = "import smtplib; s = smtplib.SMTP('mail.example.com', 25, timeout=60); \
        print(s.sendmail('a@example.com', ['b@example.com'], 'Subject: x\\n\\nbody')); s.quit()";
    let run = opaque(&lab, "mail.example.com", 25).python(script);
    let _run = run.success().connected("mail.example.com");
    assert!(
        origin
            .text()
            .to_lowercase()
            .contains("mail from:<a@example.com>"),
        "{}",
        origin.text()
    );
}

/// A policy that only observes lets pass what is no HTTP, whoever speaks first.
#[test]
fn observed_bytes_that_are_no_http_pass_and_are_recorded() {
    let lab = Lab::new();
    let mail = SocketAddr::new(lab.address_for("mail.example.com"), 25);
    let _mail = lab.tcp(mail, |conversation| {
        conversation.write_all(b"220 ready\r\n")?;
        conversation.drain()
    });
    let store = SocketAddr::new(lab.address_for("store.example.com"), 6379);
    let _store = lab.tcp(store, |conversation| {
        let mut line = String::new();
        BufReader::new(&mut *conversation).read_line(&mut line)?;
        conversation.write_all(b"+PONG\r\n")
    });
    let script = "import socket
for host, port, says in [('mail.example.com', 25, b''), ('store.example.com', 6379, b'*1\\r\\n')]:
    s = socket.create_connection((host, port), timeout=60)
    s.sendall(says)
    print(s.recv(100).decode())
    s.close()";
    for allowed in [None, Some("mail.example.com:25")] {
        let rule = allowed.into_iter().flat_map(|rule| ["--allow", rule]);
        let run = lab.gig().option(["--observe"]).option(rule).python(script);
        let run = run.success().says("220 ready").says("+PONG");
        for (host, port) in [("mail.example.com", 25), ("store.example.com", 6379)] {
            let told = run.audit.of(Event::Connect).any(|entry| {
                entry.host.as_deref() == Some(host)
                    && entry.protocol.as_deref() == Some("tcp")
                    && entry.verdict == Some(gig_audit::VerdictWord::WouldDeny)
            });
            assert!(told, "{host}: {run}");
            let option = format!("--allow tcp:{host}:{port}");
            assert!(run.error_text().contains(&option), "{run}");
        }
        assert!(!run.audit.refused_anything(), "{run}");
    }
}

#[test]
fn half_closed_connections_stay_half_open() {
    let lab = Lab::new();
    let address = lab.address_for("raw.example.com");
    let origin = lab.tcp(SocketAddr::new(address, 7000), |conversation| {
        conversation.drain()?;
        conversation.write_all(b"after your end\n")
    });
    let script = "import socket; s = socket.create_connection(('raw.example.com', 7000)); \
        s.sendall(b'all of it'); s.shutdown(socket.SHUT_WR); print(s.recv(100).decode())";
    let run = opaque(&lab, "raw.example.com", 7000).python(script);
    let _run = run
        .success()
        .says("after your end")
        .connected("raw.example.com");
    assert_eq!(origin.text(), "all of it");
}

#[test]
fn passthrough_shows_the_origins_own_certificate() {
    let lab = Lab::new();
    let _origin = lab.nginx(&["pinned.example.com"]);
    let root = lab.root_file().to_owned();
    let policy =
        "version: 1\nname: pinned\negress:\n  - {host: pinned.example.com, tls: passthrough}\n";
    for proxied in [true, false] {
        let mut words = vec!["curl", "-sS", "--fail"];
        let root = text(&root);
        words.extend(["--cacert", &root]);
        if !proxied {
            words.extend(["--noproxy", "*"]);
        }
        words.push("https://pinned.example.com/hello");
        let run = lab
            .gig()
            .policy(policy)
            .read_only(lab.root_file())
            .run(words);
        let run = run
            .success()
            .says("hello from the origin")
            .connected("pinned.example.com");
        assert_eq!(
            run.audit.of(Event::Request).count(),
            0,
            "nothing was opened; {run}"
        );
    }
}

fn newest(folder: &str) -> String {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let mut paths: Vec<_> = entries.flatten().map(|entry| text(&entry.path())).collect();
    paths.sort();
    paths.pop().expect("an installed version")
}
