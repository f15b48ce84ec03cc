//! Networks that are made ahead, and are no sandbox's yet: what calls from there is nobody, by every door.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use gig_tests::lab::fixture;
use rustix::process::{Pid, Signal, kill_process};

use super::Appliance;

/// Each door of the gateway, and what was heard there. The connections themselves are taken: nobody is told
/// apart before.
const KNOCKS: &str = r#"
import ipaddress, subprocess
own = subprocess.run(["ip", "-4", "-o", "addr", "show", "dev", "eth0"], capture_output=True, text=True).stdout
own = ipaddress.ip_interface(own.split()[3])
gateway = str(own.ip - 1)


def heard(s, words):
    try:
        s.sendall(words)
        s.settimeout(PATIENCE)
        return s.recv(100)
    except (ConnectionResetError, BrokenPipeError):
        return b""


ask = get("http://wanted.test/", "wanted.test")
print("explicit", heard(connect(gateway, 8081), ask))
print("tunnel", heard(connect(gateway, 8081), b"CONNECT wanted.test:443 HTTP/1.1\r\nHost: wanted.test:443\r\n\r\n"))
print("redirected", heard(connect("11.0.1.9", 80), get("/", "wanted.test")))
question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x06wanted\x04test\0\0\x01\0\x01"
print("name_tcp", heard(connect(gateway, 53), len(question).to_bytes(2, "big") + question))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((gateway, 53))
s.settimeout(2)
s.send(question)
try:
    print("name_udp", s.recv(100))
except TimeoutError:
    print("name_udp", b"")
"#;

/// Whether a process is the hub.
fn holds_networks(pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).contains("hub-process")
}

/// Namespaces that gig's hub holds by nothing but a descriptor: it is the one that keeps them ready.
fn made_ahead(gig: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for hub in descendants(gig) {
        let own = fs::read_link(format!("/proc/{hub}/ns/net")).ok();
        let Ok(descriptors) = fs::read_dir(format!("/proc/{hub}/fd")) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            let Ok(target) = fs::read_link(descriptor.path()) else {
                continue;
            };
            let network = target.to_string_lossy().starts_with("net:[");
            if network && Some(&target) != own.as_ref() && seen.insert(target) {
                found.push(descriptor.path());
            }
        }
    }
    found
}

fn descendants(of: u32) -> Vec<u32> {
    let mut found = vec![of];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let tasks = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(tasks).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .filter_map(|child| child.parse::<u32>().ok()),
        );
        next += 1;
    }
    found
}

/// What `script` prints in a network.
fn knock(network: &Path, script: &str) -> String {
    let said = Command::new("nsenter")
        .arg(format!("--net={}", network.display()))
        .args(["--", "/usr/bin/python3", "-c", script])
        .output()
        .expect("nsenter");
    assert!(said.status.success(), "{said:?}");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
fn a_network_that_is_no_sandboxs_yet_is_answered_by_no_door() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let gig = appliance.child.id();
    appliance.until("networks are made ahead", |_| !made_ahead(gig).is_empty());
    let script = fixture::text("wire.py") + KNOCKS;
    for network in made_ahead(gig) {
        let doors = ["explicit", "tunnel", "redirected", "name_tcp", "name_udp"];
        let nothing = doors.map(|door| format!("{door} b''\n")).concat();
        assert_eq!(knock(&network, &script), nothing);
    }
    for event in ["dns", "connect", "request"] {
        let records = appliance.records(&token, &format!("event={event}"));
        assert!(records.is_empty(), "{records:?}");
    }
    // The same from one that is somebody's.
    appliance.policy(&token, "version: 1\negress: []\n");
    appliance.server("sleeper", "exec sleep 600");
    let _sandbox = appliance.run("sleeper");
    let networks = || {
        let link = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let pids = descendants(gig);
        let hub: Vec<_> = pids.iter().filter(|pid| holds_networks(**pid)).collect();
        let others = hub.iter().filter_map(|pid| link(pid)).chain(link(&gig));
        let others: BTreeSet<_> = others.collect();
        pids.into_iter()
            .find(|pid| link(pid).is_some_and(|own| !others.contains(&own)))
    };
    appliance.until("it runs in its network", |_| networks().is_some());
    let own = format!("/proc/{}/ns/net", networks().expect("a process of it"));
    let said = knock(Path::new(&own), &script);
    assert!(said.contains("explicit b'HTTP/1.1 403"), "{said}");
    assert!(!said.contains(" b''"), "{said}");
}

#[test]
fn an_appliance_whose_hub_is_killed_ends_so_that_it_is_started_again() {
    let mut appliance = Appliance::start();
    let token = appliance.token("admin");
    appliance.policy(&token, "version: 1\negress: []\n");
    appliance.server("sleeper", "exec sleep 600");
    let _sandbox = appliance.run("sleeper");
    let gig = appliance.child.id();
    let family = descendants(gig);
    let hub = family.iter().copied().find(|pid| holds_networks(*pid));
    let hub = hub.and_then(|pid| i32::try_from(pid).ok());
    let hub = hub.and_then(Pid::from_raw).expect("the hub");
    kill_process(hub, Signal::KILL).expect("it is ours");
    appliance.until("what ran is gone", |_| descendants(gig).len() == 1);
    let status = appliance.child.wait().expect("it is ours");
    assert_eq!(status.code(), Some(125), "{}", appliance.said());
    assert!(
        appliance
            .said()
            .contains("the hub, which has the sandboxes"),
        "{}",
        appliance.said()
    );
}
