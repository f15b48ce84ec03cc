//! Network namespaces that gig did not make: what is let out, who it is, and what their own root can do about
//! it. Clients are real and run in there; the origins count; the record is asked.

pub(crate) mod appliance;

use gig_tests::lab::{Lab, http_origin::greet, network::text};

use self::appliance::{Appliance, Name};

const ALLOWED: &str = "allowed.example.com";
const DENIED: &str = "denied.example.net";
const VALUE: &str = "value-of-a-stranger-9Zk4";

fn policy() -> String {
    format!("version: 1\negress:\n  - {{host: {ALLOWED}, secrets: [TOKEN]}}\n")
}

#[test]
fn a_namespace_that_gig_did_not_make_reaches_what_its_policy_allows() {
    let lab = Lab::new();
    let allowed = lab.https(ALLOWED, greet);
    let denied = lab.https(DENIED, greet);
    let address = lab.address_for("elsewhere.example.org");
    let appliance = Appliance::start(&lab, &policy());
    appliance.secret(VALUE);
    let mut stranger = appliance.stranger().registered();

    // By the name alone, whoever is asked for it; the value is put in at the border.
    let ask = format!("-H \"Authorization: Bearer $TOKEN\" https://{ALLOWED}/");
    assert_eq!(stranger.curl(&ask), "200 0", "{}", appliance.said());
    // Who answers notes it on a thread of its own.
    let begun = std::time::Instant::now();
    while allowed.requests().is_empty() && begun.elapsed() < std::time::Duration::from_secs(20) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let asked = allowed.requests();
    let bearer = format!("Bearer {VALUE}");
    assert_eq!(asked[0].field("authorization"), Some(bearer.as_str()));
    let told = stranger.sh("echo $TOKEN");
    assert!(
        !told.output.contains(VALUE) && told.output.len() > 8,
        "{told:?}"
    );
    // By the explicit proxy, on its own loopback.
    let ask = format!("-x $HTTPS_PROXY --noproxy '' https://{ALLOWED}/");
    assert_eq!(stranger.curl(&ask), "200 0");

    // Neither by name nor by its address; curl could not resolve it (6), was reset (35), was refused (56).
    assert_eq!(stranger.curl(&format!("https://{DENIED}/")), "000 6");
    let straight = format!("--resolve {DENIED}:443:{address} https://{DENIED}/");
    assert_eq!(stranger.curl(&straight), "403 0");
    let explicit = format!("-x $HTTPS_PROXY --noproxy '' https://{DENIED}/");
    assert_eq!(stranger.curl(&explicit), "000 56");
    // No datagram but DNS, and no echo, at once.
    let script = "import socket, time\n\
        began = time.monotonic()\n\
        for kind, to in [(socket.SOCK_DGRAM, ('11.0.0.9', 443)), (socket.SOCK_RAW, ('11.0.0.9', 0))]:\n \
         try:\n  \
          s = socket.socket(socket.AF_INET, kind, 1 if kind == socket.SOCK_RAW else 0)\n  \
          s.sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', to)\n  \
          print('sent')\n \
         except OSError as e: print('refused', e.errno)\n\
        print('at once' if time.monotonic() - began < 2 else 'late')\n";
    let file = lab.file("datagrams.py", script);
    let tried = stranger.sh(&format!("/usr/bin/python3 {}", text(&file)));
    assert_eq!(tried.output, "refused 1\nrefused 1\nat once\n", "{tried:?}");
    assert_eq!(denied.raw().wire_octets(), 0);

    let one = &appliance.registered()[0];
    let id = one["id"].as_str().expect("an id");
    let records = |more: &str| appliance.records(&format!("sandbox={id}&{more}"));
    let start = &records("event=sandbox.start")[0];
    assert_eq!(start["server"], "box");
    let layers = start["findings"].to_string();
    assert!(layers.contains("network: partial (missing: "), "{layers}");
    for record in records("verdict=deny&event=connect") {
        assert_eq!(record["reason"], "host_not_allowed", "{record}");
    }
    assert!(!records(&format!("verdict=deny&host={DENIED}")).is_empty());
    assert!(!records(&format!("verdict=allow&host={ALLOWED}")).is_empty());

    // Its process ends, and with it all there was.
    stranger.end();
    appliance.until("it is over", || {
        appliance.registered().is_empty().then_some(())
    });
    let end = &records("event=sandbox.exit")[0];
    assert_eq!(end["status"], serde_json::Value::Null, "{end}");
}

#[test]
fn only_a_stranger_with_nothing_in_it_is_registered_and_only_once() {
    let lab = Lab::new();
    let appliance = Appliance::start(&lab, &policy());
    appliance.secret(VALUE);
    refuse_what_is_no_stranger(&appliance);
    // One with a link, with a firewall.
    for (script, words) in [
        ("ip link add type veth", "the link veth"),
        ("nft add table inet theirs", "the firewall table theirs"),
    ] {
        let stranger = appliance.stranger();
        let made = stranger.sh(script);
        assert!(made.works, "{made:?}");
        let refused = stranger.register();
        assert!(refused.errors.contains(words), "{refused:?}");
    }
    // Again the same: the same answer; for somebody else: refused.
    let stranger = appliance.stranger();
    let first = stranger.register();
    assert!(first.works, "{first:?}");
    assert_eq!(stranger.register().output, first.output);
    let pid = stranger.pid.to_string();
    let words = [
        "netns",
        "register",
        "--server",
        "box",
        "--pid",
        &pid,
        "--profile",
        "mallory",
    ];
    let refused = appliance.gig(&words);
    assert!(refused.errors.contains("already"), "{refused:?}");
    let listed = appliance.registered();
    assert_eq!(listed.len(), 1);
    // It is let go, and taken again with a new identity: what was left in there is replaced.
    appliance.does(&["netns", "rm", "box"]);
    appliance.until("it is let go", || {
        appliance.registered().is_empty().then_some(())
    });
    let again = appliance.until("it is free", || {
        let again = stranger.register();
        again.works.then_some(again)
    });
    assert_ne!(again.output, first.output);
}

#[test]
fn one_that_a_file_names_is_let_go_when_the_file_names_it_no_more() {
    let lab = Lab::new();
    let allowed = lab.https(ALLOWED, greet);
    let appliance = Appliance::start(&lab, &policy());
    appliance.secret(VALUE);
    let stranger = appliance.stranger();
    let name = Name::of(&stranger);
    let by_path = ["--path", &text(&name.file)];
    let said = stranger.register_by(&by_path);
    assert!(said.works, "{said:?}; {}", appliance.said());
    let ask = format!("https://{ALLOWED}/");
    assert_eq!(stranger.curl(&ask), "200 0");
    // The same once more is the same; a process in it may live on when the name is gone.
    assert_eq!(stranger.register_by(&by_path).output, said.output);
    let refused = stranger.register();
    assert!(refused.errors.contains("by path /"), "{refused:?}");
    let seen = allowed.raw().wire_octets();
    drop(name);
    appliance.until("it is let go", || {
        appliance.registered().is_empty().then_some(())
    });
    let answer = stranger.curl(&ask);
    assert!(answer.starts_with("000 "), "{answer}");
    assert_eq!(allowed.raw().wire_octets(), seen);
    let ended = appliance.records("event=sandbox.exit");
    assert_eq!(ended.len(), 1, "{ended:?}");
}

/// The host's own, a number that is nobody's, a file, a link to a namespace, a sandbox of gig's.
fn refuse_what_is_no_stranger(appliance: &Appliance<'_>) {
    let register = |pid: u32| {
        let pid = pid.to_string();
        appliance.gig(&["netns", "register", "--server", "box", "--pid", &pid])
    };
    for (pid, words) in [
        (appliance.pid(), "this machine"),
        (0x7fff_fff0, "no process"),
    ] {
        let refused = register(pid);
        assert!(
            !refused.works && refused.errors.contains(words),
            "{refused:?}"
        );
    }
    let own = format!("/proc/{}/ns/net", appliance.pid());
    for path in ["/etc/passwd", &own] {
        let words = ["netns", "register", "--server", "box", "--path", path];
        let refused = appliance.gig(&words);
        assert!(
            refused.errors.contains("is no network namespace"),
            "{refused:?}"
        );
    }
    // A sandbox of gig's own, which would get a way out that its server does not have.
    let words = [
        "server",
        "add",
        "idle",
        "--profile",
        "disconnected",
        "--",
        "/bin/sleep",
        "1000",
    ];
    appliance.does(&words);
    appliance.does(&["server", "start", "idle"]);
    let started = appliance.gig(&["netns", "register", "--server", "idle", "--pid", "1"]);
    assert!(started.errors.contains("--foreign"), "{started:?}");
    let inside = appliance.until("its program", sleeping);
    let refused = register(inside);
    assert!(!refused.works, "{refused:?}");
    let words = ["a sandbox of gig's", "cannot be opened"];
    assert!(
        words.iter().any(|word| refused.errors.contains(word)),
        "{refused:?}"
    );
}

/// The program of the sandbox `idle`: a `sleep` with process ids of its own.
fn sleeping() -> Option<u32> {
    let all = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut pids = all.filter_map(|one| one.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find(|line| line.starts_with("NSpid:"));
        let inner = numbers.map_or(0, |line| line.split_whitespace().count());
        line.starts_with(b"/bin/sleep\x001000\x00") && inner > 2
    })
}

#[test]
fn what_its_own_root_changes_ends_its_way_out_and_is_told() {
    let lab = Lab::new();
    let allowed = lab.https(ALLOWED, greet);
    let appliance = Appliance::start(&lab, &policy());
    appliance.secret(VALUE);
    let ask = format!("https://{ALLOWED}/");
    for (script, words) in [
        ("ip link add type veth", "a link was added: veth"),
        ("ip route add 10.0.0.0/8 dev lo", "a route was added"),
        ("nft flush ruleset", "its firewall was changed"),
        ("nft add table ip theirs", "its firewall was changed"),
    ] {
        let stranger = appliance.stranger().registered();
        assert_eq!(stranger.curl(&ask), "200 0", "{}", appliance.said());
        let id = appliance.registered()[0]["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let seen = allowed.raw().wire_octets();
        let done = stranger.sh(script);
        assert!(done.works, "{script}: {done:?}");
        appliance.until("it is over", || {
            appliance.registered().is_empty().then_some(())
        });
        let explicit = format!("-x $HTTPS_PROXY --noproxy '' {ask}");
        for ask in [&ask, &explicit] {
            assert!(stranger.curl(ask).starts_with("000 "), "{script}");
        }
        assert_eq!(allowed.raw().wire_octets(), seen, "{script}");
        let alarm = &appliance.records(&format!("sandbox={id}&event=finding"))[0];
        let said = alarm["findings"].to_string();
        assert!(said.contains(words), "{script}: {said}");
        assert_eq!(alarm["verdict"], "deny", "{alarm}");
    }
}

#[test]
fn no_stranger_is_another_whatever_its_root_says_about_itself() {
    let lab = Lab::new();
    let allowed = lab.https(ALLOWED, greet);
    let denied = lab.https(DENIED, greet);
    let appliance = Appliance::start(&lab, &policy());
    appliance.secret(VALUE);
    let [first, second] = [(); 2].map(|()| appliance.stranger().registered());
    // Straight to the sockets, from any address, and with a destination that was never dialled.
    let ports = "ss -Hltn | awk '{print $4}' | sed 's/.*://' | sort -u | tr '\\n' ' '";
    let ports = first.sh(ports).output;
    assert!(ports.split_whitespace().count() >= 3, "{ports}");
    let mut passed = Vec::new();
    for port in ports.split_whitespace() {
        for host in [ALLOWED, DENIED] {
            for from in ["", "--interface 127.9.9.9 "] {
                for to in [
                    format!("--connect-to {host}:443:127.0.0.1:{port}"),
                    format!("-x http://127.0.0.1:{port} --noproxy ''"),
                ] {
                    let answer = first.curl(&format!("{from}{to} https://{host}/"));
                    let right = host == ALLOWED && answer == "200 0";
                    assert!(right || !answer.starts_with('2'), "{port} {host}: {answer}");
                    passed.extend(right.then_some(from));
                }
            }
        }
    }
    // One of the ports is its explicit proxy: it is served there, from each of its own addresses.
    assert_eq!(passed, ["", "--interface 127.9.9.9 "], "{ports}");
    assert_eq!(denied.raw().wire_octets(), 0);
    // What it did is its own, and nobody else's.
    let ids: Vec<String> = (appliance.registered().iter())
        .map(|one| {
            (
                one["id"].as_str().expect("an id"),
                one["namespace"].as_str(),
            )
        })
        .map(|(id, named)| (id.to_owned(), named.unwrap_or_default().to_owned()))
        .filter(|(_, named)| named.ends_with(&format!("process {}", second.pid)))
        .map(|(id, _)| id)
        .collect();
    let others = format!("sandbox={}&event=connect", ids[0]);
    assert!(appliance.records(&others).is_empty());
    // The other's sockets are not reached from here, nor the host's.
    let ask = format!("https://{ALLOWED}/");
    assert_eq!(second.curl(&ask), "200 0");
    assert!(!appliance.records(&others).is_empty());
    // gig is gone, and so is the way out.
    let seen = allowed.raw().wire_octets();
    appliance.kill();
    let explicit = format!("-x $HTTPS_PROXY --noproxy '' {ask}");
    for ask in [&ask, &explicit] {
        assert!(first.curl(ask).starts_with("000 "));
    }
    assert_eq!(allowed.raw().wire_octets(), seen);
}
