//! Other sandboxes, the hub, and the host seen from inside.

use std::{fs, time::Duration};

use gig_audit::{Entry, Event, VerdictWord};
use gig_policy::DenyReason;
use gig_tests::lab::{Lab, denial::Refusal, http_origin::greet, network::text};

#[test]
fn nobody_can_connect_into_a_sandbox() {
    let lab = Lab::new();
    let mut listening = lab.gig().start([
        "python3",
        "-u",
        "-c",
        "import socket; s = socket.socket(); s.bind(('0.0.0.0', 7777)); s.listen(); print('up'); s.accept(); print('REACHED')",
    ]);
    listening.wait_for("up");
    // The neighbour is another gig's; its addresses are the same range, its hub is not.
    let script = "for n in range(1, 16):\n\
        \x20for port in (7777, 22):\n\
        \x20 try:\n\
        \x20  s = connect(f'10.200.0.{n}', port); s.sendall(b'hi\\n'); print(n, ending(s))\n\
        \x20 except OSError as e: print(n, type(e).__name__, 'at once')";
    let run = lab.gig().allow("api.example.com").wire(script).success();
    let cut_off = |line: &str| line.ends_with("Error after b''") || line.ends_with("at once");
    Refusal::new(DenyReason::IpNotAllowed)
        .or(DenyReason::NeverOpenable)
        .repeatedly()
        .client(|run| run.text().lines().count() == 30 && run.text().lines().all(cut_off))
        .origin_never_sees("its neighbour", || {
            listening.output_so_far().contains("REACHED")
        })
        .nothing_leaves()
        .check(&run);
    listening.signal(rustix::process::Signal::TERM);
    let _listening = listening.finish(Duration::from_secs(20));
}

#[test]
fn source_addresses_cannot_be_borrowed() {
    let lab = Lab::new();
    let origin = lab.https("api.example.com", greet);
    let script = "for source in ('10.200.0.6', '10.200.0.10', '127.0.0.1', '192.168.77.2', '11.0.1.1'):\n\
        \x20try:\n\
        \x20 s = socket.create_connection(('11.0.1.9', 443), timeout=2, source_address=(source, 0)); print('CONNECTED', source)\n\
        \x20except OSError as e: print('refused', source, e)\n\
        s = socket.socket()\n\
        try: s.setsockopt(socket.SOL_IP, 19, 1); print('TRANSPARENT')\n\
        except OSError as e: print('refused', e)";
    let run = lab.gig().wire(script).success();
    Refusal::by_the_kernel()
        .client(|run| run.text().lines().count() == 6)
        .client(|run| run.text().lines().all(|line| line.starts_with("refused")))
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn two_runs_at_once_are_told_apart() {
    let lab = Lab::new();
    let origin = lab.https("one.example.com", greet);
    let other = lab.https("two.example.com", greet);
    let mut first = lab.gig().allow("one.example.com").start([
        "sh",
        "-c",
        "echo up; sleep 1; curl -sS -m 60 https://one.example.com/ https://two.example.com/; true",
    ]);
    first.wait_for("up");
    let second = lab.gig().allow("two.example.com");
    let second = second.sh(
        "curl -sS -m 60 https://two.example.com/; curl -sS -m 60 https://one.example.com/; true",
    );
    let first = first.finish(Duration::from_secs(60));
    for origin in [&origin, &other] {
        assert_eq!(origin.requests().len(), 1, "{first} {second}");
    }
    // Each record has its own host as the one that was let through, and the other one's as the one that was not.
    let hosts = ["one.example.com", "two.example.com"];
    for (run, own, theirs) in [(&first, hosts[0], hosts[1]), (&second, hosts[1], hosts[0])] {
        assert!(run.audit.allowed(Event::Request, own), "{own}: {run}");
        let allowed = |entry: &Entry| entry.verdict == Some(VerdictWord::Allow);
        let mut records = run.audit.records().iter().map(|record| &record.entry);
        let of_theirs = |entry: &Entry| entry.host.as_deref() == Some(theirs);
        assert!(
            !records.any(|entry| of_theirs(entry) && allowed(entry)),
            "{theirs}: {run}"
        );
        let mut refused = run.audit.denials(DenyReason::HostNotAllowed);
        assert!(refused.any(of_theirs), "{theirs}: {run}");
    }
}

/// Of one user, at the same time: what one keeps in its private places and in a folder that it was given is
/// nowhere in the other.
#[test]
fn nothing_of_a_neighbour_is_seen_while_it_runs() {
    let lab = Lab::new();
    let given = lab.folder("given");
    let leave = "for at in /tmp $HOME /dev/shm /var/tmp \"$1\"; do echo secret-of-one >\"$at/mine\"; done; \
                 ls \"$1\"; echo up; exec sleep 600";
    let first = lab.gig().option(["--rw", &text(&given)]);
    let mut first = first.start(["sh", "-c", leave, "sh", &text(&given)]);
    first.wait_for("up");
    let there = fs::read_to_string(given.join("mine"));
    assert_eq!(there.expect("its file"), "secret-of-one\n");
    let look = "find / -name mine 2>/dev/null; ls -A /tmp $HOME /dev/shm /var/tmp; \
                grep -rs secret-of-one /tmp $HOME /dev/shm /var/tmp; \
                ls -d \"$1\" 2>/dev/null; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep 600'; true";
    let second = lab.gig().run(["sh", "-c", look, "sh", &text(&given)]);
    let second = second.success();
    let seen = second.text();
    let expected = "/dev/shm:\n\n/home/sandbox:\n\n/tmp:\n\n/var/tmp:\n0\n";
    assert_eq!(seen, expected, "{second}");
    // One sees its own.
    first.signal(rustix::process::Signal::TERM);
    let _first = first.finish(Duration::from_secs(20));
}
