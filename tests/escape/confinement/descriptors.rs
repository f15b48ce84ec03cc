//! Descriptors and sockets that reach around the walls, and floods against gig itself.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    os::linux::net::SocketAddrExt,
    os::unix::net::{SocketAddr, UnixListener},
    process::Stdio,
    time::Duration,
};

use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Way,
    denial::Refusal,
    fixture,
    http_origin::greet,
    network::{Side, text},
};

#[test]
fn descriptors_of_the_caller_are_not_inherited() {
    let lab = Lab::new();
    let secret = lab.file("secret", "do-not-leak");
    // A shell opens the file at two numbers and then becomes the subject.
    let command = lab
        .gig()
        .command(["sh", "-c", "ls -l /proc/self/fd; cat <&7; cat <&99"]);
    let mut shell = std::process::Command::new("bash");
    let script = format!("exec 7<{0} 99<{0}; exec \"$@\"", text(&secret));
    shell
        .args(["-c", &script, "bash"])
        .arg(command.get_program())
        .args(command.get_args());
    let output = shell.stdin(Stdio::null()).output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("do-not-leak"), "{text}");
    let listed = text.lines().filter(|line| line.contains("->")).count();
    assert!(
        (3..=4).contains(&listed),
        "the three streams and ls's own: {text}"
    );
}

/// inetd and systemd start programs with a connection of the host's network as their streams. It works, and what
/// the program holds is no socket: one of TCP could be unbound, and connected to whatever the host reaches.
#[test]
fn a_socket_as_a_stream_is_no_way_to_the_hosts_network() {
    let lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut client =
        TcpStream::connect(listener.local_addr().expect("its address")).expect("connect");
    let (served, _) = listener.accept().expect("accept");
    client.write_all(b"a line\n").expect("write");
    client.shutdown(Shutdown::Write).expect("shut down");
    let kinds = "import os, stat, sys\n\
         print('read', sys.stdin.readline().strip())\n\
         for number in 0, 1: print(number, stat.S_ISSOCK(os.fstat(number).st_mode))\n";
    let mut command = lab.gig().command(["python3", "-c", kinds]);
    let output = served.try_clone().expect("another");
    command
        .stdin(OwnedFd::from(served))
        .stdout(OwnedFd::from(output))
        .stderr(Stdio::null());
    assert!(command.status().expect("gig").success());
    drop(command);
    let mut said = String::new();
    client.read_to_string(&mut said).expect("read");
    assert_eq!(said, "read a line\n0 False\n1 False\n");
}

/// What opens more than itself is refused before the program is started.
#[test]
fn streams_that_open_more_than_themselves_are_refused() {
    let lab = Lab::new();
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let listening = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let folder = File::open("/").expect("a folder");
    let streams: [(OwnedFd, &str); 3] = [
        (datagrams.into(), "no connection of a stream"),
        (listening.into(), "no connection of a stream"),
        (folder.into(), "is a directory"),
    ];
    for (stream, told) in streams {
        for place in ["standard input", "standard output", "standard error"] {
            let mut command = lab.gig().command(["echo", "STARTED"]);
            let (mut read, written) = std::io::pipe().expect("a pipe");
            let other = || written.try_clone().expect("another");
            let stream = stream.try_clone().expect("another");
            command.stdin(Stdio::null()).stdout(other()).stderr(other());
            match place {
                "standard input" => command.stdin(stream),
                "standard output" => command.stdout(stream),
                _ => command.stderr(stream),
            };
            let status = command.status().expect("gig");
            drop((command, written));
            let mut said = String::new();
            read.read_to_string(&mut said).expect("read");
            assert_eq!(status.code(), Some(125), "{place}: {said}");
            assert!(!said.contains("STARTED"), "{place}: {said}");
            if place != "standard error" {
                assert!(said.contains(place) && said.contains(told), "{said}");
            }
        }
    }
}

#[test]
fn abstract_sockets_of_the_host_are_out_of_reach() {
    let lab = Lab::new();
    let address = SocketAddr::from_abstract_name(b"lab-desktop").expect("a name");
    let listener = lab
        .network
        .inside(Side::Host, || UnixListener::bind_addr(&address));
    let _listener = listener.expect("an abstract socket");
    let run = lab.gig().python(
        "import socket; s = socket.socket(socket.AF_UNIX)\n\
         try: s.connect('\\0lab-desktop'); print('REACHED')\n\
         except OSError as e: print('refused', e)",
    );
    let _run = run.success().says("refused");
}

#[test]
fn unix_sockets_of_gig_are_out_of_reach() {
    let lab = Lab::new();
    // Its own is found in both ways, and is the only one.
    let run = lab.gig().python(
        "import os, socket, subprocess\n\
         own = socket.socket(socket.AF_UNIX); own.bind('/tmp/own'); own.listen()\n\
         print([line.split()[7:] for line in open('/proc/net/unix').readlines()[1:]])\n\
         print(subprocess.run(['find', '/', '-type', 's'], capture_output=True, text=True).stdout)",
    );
    assert_eq!(
        run.clone().success().text(),
        "[['/tmp/own']]\n/tmp/own\n\n",
        "{run}"
    );
}

/// It forks until it is refused, which is at its own limit and nobody else's: while all of it is there
/// the next sandbox starts and is served. Its end is the end of all of it.
#[test]
fn a_fork_bomb_stays_inside() {
    let lab = Lab::new();
    let _origin = lab.https("api.example.com", greet);
    let mut bomb = lab.gig().start([
        "python3",
        "-c",
        "import os, signal\nn = 0\nwhile True:\n try:\n  \
         if os.fork() == 0: signal.pause(); os._exit(0)\n  n += 1\n except OSError as e: why = e.strerror; break\n\
         print('bomb', n, why, flush=True)\nsignal.pause()",
    ]);
    bomb.wait_for("bomb");
    bomb.wait_for("\n");
    // The limit is 4,096: the bomb's first process is one of them.
    assert_eq!(
        bomb.output_so_far(),
        "bomb 4095 Resource temporarily unavailable\n"
    );
    let other = lab.gig().allow("api.example.com");
    let _other = other
        .run(["curl", "-sS", "--fail", "https://api.example.com/"])
        .success()
        .says("hello from the origin");
    bomb.signal(rustix::process::Signal::TERM);
    let run = bomb.finish(Duration::from_secs(120));
    assert_eq!(run.status, 143, "{run}");
}

/// No limit of the policy stands in its way: what bounds it is its share of gig's descriptors.
#[test]
fn a_flood_of_descriptors_leaves_gig_its_own() {
    let lab = Lab::new();
    let origin = lab.https("api.example.com", greet);
    let run = flooded(&lab, "'api.example.com', 443");
    Refusal::new(DenyReason::ConnectionLimit)
        .repeatedly()
        // An eighth of them, less where a slow machine lets them wait too long; gig answers all the while.
        .client(|run| held(run).is_some_and(|held| (1..=128).contains(&held)))
        .client_says("(3, 0)")
        .client_says("hello from the origin")
        .origin_never_sees("more than what was asked", || origin.requests().len() > 1)
        .check(&run);
}

/// Those by which names are asked for count like all others, however often one asks by them.
#[test]
fn a_flood_of_descriptors_for_names_leaves_gig_its_own() {
    let lab = Lab::new();
    let origin = lab.https("api.example.com", greet);
    let run = flooded(&lab, "own_name_server(), 53");
    Refusal::new(DenyReason::ConnectionLimit)
        .repeatedly()
        .client(|run| held(run).is_some_and(|held| (1..=128).contains(&held)))
        .client_says("(3, 0)")
        .client_says("hello from the origin")
        .origin_never_sees("more than what was asked", || origin.requests().len() > 1)
        .check(&run);
}

fn flooded(lab: &Lab, at: &str) -> Finished {
    let flood = FLOOD.replace("WHERE", at);
    let script = fixture::text("wire.py") + &flood;
    let policy = "version: 1\nname: wide\negress: [{host: api.example.com}]\n\
        limits: {connections: 100000}\n";
    let subject = lab.gig().policy(policy).going(Way::Straight);
    // The least that a process is given anywhere.
    let little = ["prlimit", "--nofile=1024:1024"];
    subject
        .under(little)
        .run(["/usr/bin/python3", "-c", &script])
}

fn held(run: &Finished) -> Option<u32> {
    let text = run.text();
    let number = text.split_once("held ")?.1.split_whitespace().next()?;
    number.parse().ok()
}

const FLOOD: &str = r#"
def own_name_server():
    return [l.split()[1] for l in open('/etc/resolv.conf') if l.startswith('nameserver')][0]
host, port = WHERE
held = []
for n in range(500):
    try: held.append(connect(host, port))
    except OSError: pass
QUESTION = b'\x00\x1b\x12\x34\x01\x00\x00\x01' + bytes(6) + b'\x09localhost\x00\x00\x01\x00\x01'
asked = 0
def alive():
    global asked
    # One on which nobody asks for ten seconds is closed.
    ask = port == 53 and time.monotonic() - asked > 4
    if ask: asked = time.monotonic()
    n = 0
    for s in held:
        s.setblocking(False)
        try:
            if ask: s.sendall(QUESTION)
            n += s.recv(4096) != b''
        except BlockingIOError: n += 1
        except OSError: pass
    return n
begun = time.monotonic()
while alive() > 128 and time.monotonic() - begun < PATIENCE: time.sleep(0.05)
print('held', alive(), dns('evil.example.net'))
for s in held: s.close()
import urllib.request
while time.monotonic() - begun < 200:
    try: print(urllib.request.urlopen('https://api.example.com/', timeout=60).read()); break
    except OSError as e: print(e); time.sleep(0.2)
"#;

#[test]
fn a_flood_of_connections_leaves_gig_serving() {
    let lab = Lab::new();
    let origin = lab.https("api.example.com", greet);
    let script = "held = []\n\
        begun = time.monotonic()\n\
        for n in range(3000):\n\
        \x20if time.monotonic() - begun > 60: break\n\
        \x20try: held.append(connect('api.example.com', 443, 0.2))\n\
        \x20except OSError: pass\n\
        for s in held: s.close()\n\
        import urllib.request\n\
        while time.monotonic() - begun < 200:\n\
        \x20try: print(urllib.request.urlopen('https://api.example.com/', timeout=60).read()); break\n\
        \x20except OSError as e: print(e); time.sleep(0.2)";
    let run = lab
        .gig()
        .allow("api.example.com")
        .going(Way::Straight)
        .wire(script);
    let _run = run.success().says("hello from the origin");
    assert_eq!(origin.requests().len(), 1);
}
