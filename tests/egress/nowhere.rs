//! The value of a secret is nowhere: not inside, not in the processes between, not in anything that gig
//! writes or says, not in what a process that crashed says or leaves. It is in gig's own memory, and the same
//! search finds it there.

use std::{
    collections::HashMap,
    fs,
    io::{Read as _, Write as _},
    net::SocketAddr,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use gig_tests::lab::{
    Finished, Lab, Live, Subject, fixture, http_origin::greet, network::text, place::User, skipped,
};
use rustix::process::{Pid, Signal, kill_process};

use super::vault::{data, secret};

const HOST: &str = "api.example.com";
const HALVES: [&str; 2] = ["nowhere-to-be-found-", "5Tq8wLx2Rv"];

fn value() -> String {
    HALVES.concat()
}

/// A run whose secret is in the vault, and which says everything there is to say.
fn subject(lab: &Lab) -> Subject<'_> {
    secret(lab, &["set", "GITHUB_TOKEN"], &value());
    let subject = lab.gig().allow(HOST).host_env("GIG_LOG", "trace");
    let subject = subject.host_env("GIG_DATA_DIR", &data(lab));
    subject.option(["--secret", "GITHUB_TOKEN@api.example.com"])
}

/// Tells a program that waits for a line to go on, and waits for its end.
fn ended(mut run: Live<'_>) -> Finished {
    let mut input = run.stdin().expect("its input");
    input.write_all(b"go\n").expect("tell it");
    run.finish(Duration::from_secs(60)).success()
}

/// The processes that came of this one, without itself.
fn descendants(of: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        if let Some(parent) = parent.and_then(|parent| parent.trim().parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.get(&of).cloned().unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.get(pid).cloned().unwrap_or_default());
        next += 1;
    }
    found
}

/// Looks for the value in processes; as `user` where one is given, without any capability.
fn look_into(pids: &[u32], user: Option<User>) -> String {
    let script = fixture::text("look_into.py");
    let mut command = match user {
        None => Command::new("/usr/bin/python3"),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command
                .args([
                    format!("--reuid={}", user.uid),
                    format!("--regid={}", user.gid),
                ])
                .args(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
                .arg("/usr/bin/python3");
            command
        }
    };
    command
        .args(["-c", &script])
        .args(pids.iter().map(u32::to_string));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("python");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(value().as_bytes()).expect("the value");
    drop(input);
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Files below `folder` that hold the value.
fn files_with_the_value(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        let path = entry.path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(files_with_the_value(&path));
        } else if let Ok(octets) = fs::read(&path) {
            let wanted = value();
            if octets
                .windows(wanted.len())
                .any(|part| part == wanted.as_bytes())
            {
                found.push(text(&path));
            }
        }
    }
    found
}

#[test]
fn the_value_is_in_gigs_own_memory_and_nowhere_else() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = fixture::text("look_around.py");
    let words = ["/usr/bin/python3", "-c", &script, HALVES[0], HALVES[1]];
    let mut run = subject(&lab).start(words);
    run.wait_for("looked\n");
    let seen = origin.requests();
    assert_eq!(seen[0].field("x-token"), Some(&*value()));
    let all = format!("/p/{0}?key={0}", value());
    assert_eq!(
        (&seen[1].target, seen[1].field("cookie")),
        (&all, Some(&*format!("sid={}", value())))
    );
    assert_eq!(
        seen[1].body,
        format!("{{\"key\": \"{}\"}}", value()).as_bytes()
    );
    assert_eq!(seen[2].body, value().as_bytes());
    assert_eq!(seen[2].trailers, [("x-token".to_owned(), value())]);
    let own = run.pid();
    // The search finds it where it is: in the memory of gig alone, not in its environment or arguments.
    let found = look_into(&[own], None);
    assert!(found.contains(&format!("{own} mem")), "{found}");
    assert!(
        !found.contains("environ") && !found.contains("cmdline"),
        "{found}"
    );
    let others = descendants(own);
    assert!(
        others.len() >= 4,
        "hub, sandbox, program and client: {others:?}"
    );
    let found = look_into(&others, None);
    for line in found.lines() {
        assert!(line.contains(" read "), "{found}");
    }
    // While it runs, nothing is in the vault's files either, log included.
    assert_eq!(files_with_the_value(&lab.home()), [""; 0]);
    let run = ended(run);
    let run = run.says("used 200").says("looked at");
    assert!(!run.text().contains("holds the value"), "{run}");
    // The pipe that the program and gig share.
    assert!(!run.text().contains(&value()), "{run}");
    let log = run.error_text();
    assert!(log.contains("the log begins"), "{log}");
    assert!(!log.contains(&value()), "the log tells the value");
    assert!(
        !format!("{:?}", run.audit).contains(&value()),
        "the record tells the value"
    );
    assert_eq!(files_with_the_value(&lab.home()), [""; 0]);
}

/// SETTINGS, and a GOAWAY that says the value in its own words (RFC 9113 §6.8) with the code of a fault.
fn farewell() -> Vec<u8> {
    let words = value();
    let length = u8::try_from(8 + words.len()).expect("a short value");
    let ends = [0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &ends, words.as_bytes()].concat()
}

#[test]
fn what_an_origin_says_where_there_is_no_answer_is_in_no_log() {
    let lab = Lab::new();
    let named = "named.example.com";
    let at = |host| SocketAddr::new(lab.address_for(host), 443);
    let origin = lab.tls(at(HOST), &[HOST], &["h2"], |conversation| {
        // The preface and all that comes with it; the request may be behind it.
        let mut some = vec![0; 64 * 1024];
        let _before = conversation.read(&mut some)?;
        conversation.write_all(&farewell())?;
        conversation.drain()
    });
    let other = lab.tls(at(named), &[&value()], &["h2"], |c| c.drain());
    let script = "ask() { curl -s -o /dev/null -w '%{http_code}\\n' \"$@\"; }
        ask -H \"X-Token: $GITHUB_TOKEN\" https://api.example.com/; ask https://named.example.com/";
    let run = subject(&lab).allow(named).run(["sh", "-c", script]);
    let run = run.says("502\n502");
    assert!(!origin.seen().is_empty() && !other.seen().is_empty());
    let log = run.error_text();
    for form in [value(), value().to_lowercase()] {
        assert!(!log.contains(&form), "the log tells the value: {log}");
        assert!(
            !format!("{:?}", run.audit).contains(&form),
            "the record does"
        );
    }
    assert!(
        log.contains("it is for other names than the one asked for"),
        "{log}"
    );
    assert!(log.contains("connection error received"), "{log}");
}

#[test]
fn what_stands_between_has_not_gigs_environment() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let subject = lab.gig().allow(HOST).host_env("GITHUB_TOKEN", &value());
    let subject = subject.option(["--secret", "GITHUB_TOKEN@api.example.com"]);
    let mut run = subject.start(["sh", "-c", "echo ready; read word"]);
    run.wait_for("ready");
    let others = descendants(run.pid());
    let found = look_into(&others, None);
    for line in found.lines() {
        assert!(line.contains(" read "), "{found}");
    }
    assert!(found.lines().count() >= 3, "{found}");
    let _run = ended(run);
}

/// What the kernel says of who may look into whom.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

#[test]
fn nobody_but_root_can_look_into_gig() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let mut run = subject(&lab).start(["sh", "-c", "echo ready; read word"]);
    run.wait_for("ready");
    let own = run.pid();
    let found = look_into(&[own], Some(lab.user()));
    assert_eq!(found, format!("{own} refused\n"));
    // Another program of the same user's, on the same machine, is read: it is gig that is not.
    let user = lab.user();
    let mut other = Command::new("setpriv")
        .args([
            format!("--reuid={}", user.uid),
            format!("--regid={}", user.gid),
        ])
        .args(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
        .args(["sleep", "600"])
        .spawn()
        .expect("sleep");
    let there = || fs::read(format!("/proc/{}/comm", other.id())).expect("its name") == b"sleep\n";
    while !there() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let found = look_into(&[other.id()], Some(user));
    other.kill().expect("end it");
    other.wait().expect("its end");
    if fs::read_to_string(YAMA).is_ok_and(|scope| scope.trim() != "0") {
        skipped(
            "this kernel lets nobody look into what is not their child: gig is not alone in it",
        );
    } else {
        assert!(found.contains(&format!("{} read ", other.id())), "{found}");
    }
    let _run = ended(run);
}

/// Lets a process leave a core, as far as its limit goes.
fn unlimited(pid: u32) -> Output {
    Command::new("prlimit")
        .args(["--pid", &pid.to_string(), "--core=unlimited:unlimited"])
        .output()
        .expect("prlimit")
}

#[test]
fn a_gig_that_crashes_leaves_no_core() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let words = ["sh", "-c", "echo ready; read word"];
    let mut command = subject(&lab).command(words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Not a child of this process's session: its core would go where it runs.
    command.process_group(0);
    let mut child = command.spawn().expect("start gig");
    let mut errors = child.stderr.take().expect("its errors");
    let errors = std::thread::spawn(move || {
        let mut said = Vec::new();
        errors.read_to_end(&mut said).map(|_| said)
    });
    let mut output = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let pid = child.id();
    // Where the machine lets anybody: the limit is one wall, that gig cannot be dumped is the other.
    // Another program with this limit leaves one: it is gig that does not.
    let mut other = Command::new("sleep")
        .arg("600")
        .current_dir(lab.folder("crash"))
        .spawn()
        .expect("sleep");
    let lifted = unlimited(other.id());
    let crashed = Pid::from_raw(i32::try_from(other.id()).expect("a pid")).expect("a pid");
    kill_process(crashed, Signal::ABORT).expect("crash it");
    let dumped = other.wait().expect("its end").core_dumped();
    if !dumped {
        skipped(&format!(
            "no program that crashes here leaves a core: {lifted:?}"
        ));
    }
    let lifted = unlimited(pid);
    if !lifted.status.success() {
        skipped(&format!(
            "nobody here may lift the limit that gig sets itself: {lifted:?}"
        ));
    }
    let gig = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(gig, Signal::ABORT).expect("crash it");
    let status = child.wait().expect("its end");
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{status:?}");
    assert!(!status.core_dumped(), "{status:?}");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("what it said last");
    let said = errors.join().expect("a reader").expect("its errors");
    let said = String::from_utf8_lossy(&said);
    assert!(
        !said.contains(&value()) && !rest.contains(&value()),
        "a crash tells the value"
    );
    assert_eq!(files_with_the_value(&lab.home()), [""; 0]);
}
