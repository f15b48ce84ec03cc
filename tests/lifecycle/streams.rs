//! Standard input, output and error are the program's own, octet for octet.

use std::{
    fs,
    io::{Read, Write},
    process::Stdio,
    thread,
};

use gig_tests::lab::{Lab, network::text};

#[test]
fn every_octet_passes_in_and_out() {
    let lab = Lab::new();
    let octets: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let run = lab.gig().input(octets.clone()).run(["cat"]).success();
    assert!(
        run.output == octets,
        "{} octets came back",
        run.output.len()
    );
}

#[test]
fn output_and_errors_stay_apart() {
    let lab = Lab::new();
    let run = lab.gig().sh("echo out; echo err >&2").success();
    assert_eq!(run.text(), "out\n");
    assert_eq!(
        run.error_text(),
        "err\n",
        "gig adds nothing to a run without denials"
    );
}

/// As scripts do, and logs that are links to them.
#[test]
fn pipes_are_opened_by_name_too() {
    let lab = Lab::new();
    let script = "cat /dev/stdin; echo out >/dev/stdout; echo err | tee -a /dev/stderr >/dev/null; echo fd \
                  >/proc/self/fd/2";
    // Of the person who calls, as a shell makes them.
    let shell = ["sh", "-c", "{ echo in | \"$@\" 2>&1; } | cat", "sh"];
    let folder = lab.folder("shown");
    let shown = lab.gig().option(["--rw".as_ref(), folder.as_os_str()]);
    for gig in [lab.gig(), shown] {
        let run = gig.under(shell).sh(script).success();
        assert_eq!(run.text(), "in\nout\nerr\nfd\n");
    }
}

#[test]
fn the_end_of_input_is_seen() {
    let lab = Lab::new();
    let run = lab.gig().input("a\nb\n").run(["wc", "-l"]).success();
    assert_eq!(run.text().trim(), "2");
}

#[test]
fn ten_gigabytes_pass_a_pipe_without_growth() {
    const OCTETS: u64 = 10_000 << 20;
    let lab = Lab::new();
    let mut command = lab.gig().command(["cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("start");
    let mut input = child.stdin.take().expect("its input");
    let writer = thread::spawn(move || {
        let block = vec![7_u8; 1 << 20];
        for _ in 0..OCTETS >> 20 {
            input.write_all(&block).expect("write");
        }
    });
    let mut output = child.stdout.take().expect("its output");
    let (mut buffer, expected) = (vec![0; 1 << 20], vec![7; 1 << 20]);
    let (mut count, mut peak) = (0_u64, 0);
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        assert!(
            buffer[..length] == expected[..length],
            "changed after {count}"
        );
        count += length as u64;
        if count == OCTETS {
            peak = resident_kib(child.id());
        }
    }
    writer.join().expect("the writer");
    assert!(child.wait().expect("its end").success());
    assert_eq!(count, OCTETS);
    assert!(peak < 100 * 1024, "gig itself held {peak} KiB");
}

#[test]
fn output_to_a_file_is_the_files() {
    let lab = Lab::new();
    let file = lab.file("output", "before\n");
    let mut command = lab.gig().command(["sh", "-c", "echo one; echo two"]);
    let output = fs::File::options().append(true).open(&file).expect("open");
    let status = command
        .stdin(Stdio::null())
        .stdout(output)
        .status()
        .expect("run");
    assert!(status.success());
    assert_eq!(
        fs::read_to_string(file).expect("read"),
        "before\none\ntwo\n"
    );
}

/// They are of the open file, which the next command of the caller's has, too.
#[test]
fn what_a_program_changes_of_how_a_stream_is_open_ends_with_it() {
    let lab = Lab::new();
    let file = lab.file("output", "before\n");
    let script = "import fcntl, os\n\
        before = fcntl.fcntl(1, fcntl.F_GETFL)\n\
        fcntl.fcntl(1, fcntl.F_SETFL, before & ~os.O_APPEND | os.O_NONBLOCK)\n\
        print(before & os.O_APPEND != 0)";
    let mut command = lab.gig().command(["/usr/bin/python3", "-c", script]);
    let mut output = fs::File::options().append(true).open(&file).expect("open");
    let theirs = output.try_clone().expect("the same open file");
    let status = command.stdin(Stdio::null()).stdout(theirs).status();
    assert!(status.expect("run").success());
    let flags = rustix::fs::fcntl_getfl(&output).expect("its flags");
    assert!(flags.contains(rustix::fs::OFlags::APPEND), "{flags:?}");
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{flags:?}");
    output.write_all(b"behind\n").expect("write");
    let written = fs::read_to_string(file).expect("read");
    assert!(
        written.ends_with("behind\n") && written.contains("True\n"),
        "{written}"
    );
}

#[test]
fn input_from_a_file_can_be_sought() {
    let lab = Lab::new();
    let file = lab.file("input", "0123456789");
    let mut command = lab.gig().command([
        "python3",
        "-c",
        "import os; os.lseek(0, 5, 0); print(os.read(0, 99))",
    ]);
    let output = command
        .stdin(fs::File::open(file).expect("open"))
        .output()
        .expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b'56789'\n");
}

#[test]
fn closed_streams_do_not_stop_a_start() {
    let lab = Lab::new();
    let command = lab.gig().command(["sh", "-c", "exit 9"]);
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "exec \"$@\" <&- >&-", "sh"])
        .arg(command.get_program());
    let status = shell.args(command.get_args()).status().expect("a shell");
    assert_eq!(status.code(), Some(9));
}

#[test]
fn a_reader_that_leaves_ends_the_writer() {
    let lab = Lab::new();
    let command = lab.gig().command(["yes"]);
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", text(word.as_ref())))
        .collect();
    let script = format!("set -o pipefail; {} | head -n 1", words.join(" "));
    let status = std::process::Command::new("bash")
        .args(["-c", &script])
        .status()
        .expect("bash");
    assert_eq!(status.code(), Some(141), "128 + SIGPIPE");
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

/// Standard error is one open file for gig and the program; nobody reads it here.
#[test]
fn a_program_that_blocks_standard_error_does_not_end_gig() {
    let lab = Lab::new();
    let script = "import fcntl, os, subprocess\n\
        fcntl.fcntl(2, fcntl.F_SETFL, fcntl.fcntl(2, fcntl.F_GETFL) | os.O_NONBLOCK)\n\
        try:\n\
        \x20while True: os.write(2, b'x' * 4096)\n\
        except BlockingIOError: pass\n\
        subprocess.run(['curl', '-s', 'http://denied.example.com/'])\n\
        os._exit(7)";
    let mut child = lab
        .gig()
        .command(["/usr/bin/python3", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start gig");
    let unread = child.stderr.take();
    let status = child.wait().expect("its end");
    drop(unread);
    assert_eq!(status.code(), Some(7));
}
