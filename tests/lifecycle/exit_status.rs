//! `gig run` ends as its program ends; 125, 126 and 127 are gig's own.

use std::{collections::BTreeSet, io::Write as _, time::Duration};

use gig_tests::lab::{Finished, Lab};

use super::death::{all_gone, family};

fn sh(script: &str) -> Finished {
    Lab::new().gig().sh(script)
}

#[test]
fn the_programs_status_is_gigs() {
    for status in [0, 1, 7, 42, 124, 255] {
        let _run = sh(&format!("exit {status}")).exits(status);
    }
}

#[test]
fn a_program_ended_by_a_signal_is_128_and_its_number() {
    for (name, number) in [
        ("KILL", 9),
        ("SEGV", 11),
        ("TERM", 15),
        ("ABRT", 6),
        ("USR1", 10),
    ] {
        let _run = sh(&format!("kill -{name} $$; sleep 60")).exits(128 + number);
    }
}

#[test]
fn a_program_that_is_not_there_is_127() {
    let run = Lab::new()
        .gig()
        .run(["/usr/bin/no-such-program"])
        .exits(127);
    let _run = run.complains("no-such-program");
    let _run = Lab::new().gig().run(["no-such-program-in-path"]).exits(127);
}

#[test]
fn a_program_that_the_host_alone_has_is_told_with_what_shows_it() {
    let lab = Lab::new();
    let tool = lab.file("host-tool", "#!/bin/sh\nexit 3\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&tool, mode).expect("chmod");
    let folder = tool.parent().expect("its folder").display().to_string();
    let run = lab.gig().host_env("PATH", &folder).run(["host-tool"]);
    let _run = run
        .exits(127)
        .complains(&format!(
            "show it with --ro {folder}, and run it by that path"
        ))
        .complains("host-tool: not found in the sandbox");
    let run = lab.gig().read_only(tool.parent().expect("its folder"));
    let _run = run.run([&tool]).exits(3);
}

#[test]
fn what_is_no_program_is_told_with_what_it_is() {
    let lab = Lab::new();
    let _run = lab
        .gig()
        .run(["/usr"])
        .exits(126)
        .complains("it is a folder");
    let one = lab.gig().run(["curl https://x.example"]).exits(127);
    let _run = one.complains("-- sh -c 'curl https://x.example'");
    let built_in = lab.gig().run(["cd", "/tmp"]).exits(127);
    let _run = built_in.complains("a shell's own");
    let mode = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    for (name, text, told) in [
        (
            "crlf",
            "#!/bin/sh\r\nexit 3\r\n",
            "its interpreter /bin/sh\\r is not in the sandbox: its lines end",
        ),
        (
            "gone",
            "#! /no/such -x\nexit 3\n",
            "its interpreter /no/such is not in the sandbox",
        ),
    ] {
        let script = lab.file(name, text);
        std::fs::set_permissions(&script, mode()).expect("chmod");
        let run = lab.gig().read_only(&script).run([script.as_os_str()]);
        let _run = run.exits(127).complains(told);
    }
}

#[test]
fn a_program_that_the_filter_ended_is_told_so() {
    let words = "a system call that no sandbox allows";
    let lab = Lab::new();
    let _run = lab
        .gig()
        .run(["unshare", "-Ur", "id"])
        .exits(159)
        .complains(words);
    for script in ["unshare -Ur id; exit 7", "exit 159"] {
        let run = lab.gig().sh(script);
        assert!(!run.error_text().contains(words), "{run}");
    }
}

#[test]
fn a_file_that_is_no_program_is_126() {
    let _run = Lab::new().gig().run(["/etc/passwd"]).exits(126);
    let _run = Lab::new().gig().run(["/usr"]).exits(126);
}

#[test]
fn scripts_with_an_interpreter_line_run() {
    let lab = Lab::new();
    let script = lab.file("script", "#!/bin/sh\necho from a script $1; exit 3\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("chmod");
    let run = lab
        .gig()
        .read_only(&script)
        .run([script.as_os_str(), "arg".as_ref()]);
    let _run = run.exits(3).says("from a script arg");
}

#[test]
fn gig_that_cannot_start_is_125_and_says_why() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .option(["--policy", "/no/such/policy.yaml"])
        .run(["true"]);
    let _run = run.exits(125).complains("/no/such/policy.yaml");
    let run = lab.gig().option(["--ro", "/no/such/folder"]).run(["true"]);
    let _run = run.exits(125).complains("/no/such/folder");
    let run = lab.gig().allow("*").run(["true"]);
    let _run = run.exits(125);
    let run = lab.gig().option(["--no-such-option"]).run(["true"]);
    let _run = run.exits(125).complains("--no-such-option");
}

#[test]
fn a_program_named_like_an_option_is_a_program() {
    let _run = Lab::new().gig().run(["--version"]).exits(127);
}

#[test]
fn the_end_of_the_program_ends_its_children() {
    let lab = Lab::new();
    let script = "(sleep 98761 &) ; echo up; read go; echo done";
    let mut live = lab.gig().start(["sh", "-c", script]);
    live.wait_for("up");
    let (processes, _) = family(&lab, live.pid());
    let told = format!("{processes:?}");
    assert!(told.contains("sleep 98761"), "it is there before: {told}");
    let mut input = live.stdin().expect("its input");
    input.write_all(b"go\n").expect("tell it to end");
    let _run = live.finish(Duration::from_secs(50)).success().says("done");
    all_gone(&processes, &BTreeSet::new(), 0);
}
