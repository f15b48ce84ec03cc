//! Help, version, mistakes.

use std::{os::unix::fs::PermissionsExt as _, process::Command};

use gig_tests::lab::place;

use super::{answer, gig};

/// Neither it nor what it brings into sandboxes runs with rights of anybody's but its caller.
#[test]
fn no_file_of_gigs_gives_rights_to_who_runs_it() {
    let program = place::gig();
    let mode = program.metadata().expect("its file").permissions().mode();
    assert_eq!(mode & 0o6000, 0, "{mode:o}");
    let mut octets = [0; 64];
    let capabilities = rustix::fs::getxattr(&program, "security.capability", &mut octets[..]);
    assert_eq!(capabilities, Err(rustix::io::Errno::NODATA));
}

#[test]
fn help_names_the_commands() {
    let answer = gig(&["--help"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    for command in ["run", "policy", "audit", "doctor"] {
        assert!(answer.output.contains(command), "{answer:?}");
    }
}

#[test]
fn help_of_run_names_every_option_users_rely_on() {
    let answer = gig(&["run", "--help"]);
    for option in [
        "--policy",
        "--allow",
        "--allow-private",
        "--resolve",
        "--upstream-ca",
        "--env",
        "--ro",
        "--rw",
        "--workdir",
        "--rootfs",
        "--network",
        "--profile",
        "--memory",
        "--pids",
        "--cpus",
        "--tmp-size",
        "--timeout",
        "--observe",
        "--audit",
        "--quiet",
    ] {
        assert!(answer.output.contains(option), "{option}: {answer:?}");
    }
}

#[test]
fn the_version_is_told() {
    let answer = gig(&["--version"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(answer.output.starts_with("gig "), "{answer:?}");
}

#[test]
fn a_filter_of_the_log_that_cannot_be_read_is_a_mistake() {
    let said = |filter: &str| {
        let mut command = Command::new(place::gig());
        command
            .args(["policy", "check", "/dev/null"])
            .env("GIG_LOG", filter);
        answer(command, "").errors
    };
    for wrong in ["[[[", "gig=loud", "info,gig=="] {
        let told = said(wrong);
        assert!(
            told.starts_with("gig: GIG_LOG=") && told.contains(wrong),
            "{told}"
        );
    }
    for right in ["", "off", "info", "gig_proxy=debug,warn"] {
        assert!(!said(right).contains("GIG_LOG"), "{right}");
    }
}

#[test]
fn a_run_without_a_program_is_a_mistake() {
    let answer = gig(&["run"]);
    assert_eq!(answer.status, 125, "{answer:?}");
    assert!(!answer.errors.is_empty(), "{answer:?}");
}

#[test]
fn rules_that_are_too_wide_are_refused() {
    for rule in [
        "*",
        "*.com",
        "*.github.io",
        "*.co.uk",
        "ex*mple.com",
        "*.*.example.com",
        "0x7f.1",
    ] {
        let answer = gig(&["run", "--allow", rule, "--", "true"]);
        assert_eq!(answer.status, 125, "{rule}: {answer:?}");
        assert!(answer.errors.contains(rule), "{rule}: {answer:?}");
    }
}

#[test]
fn the_core_that_nothing_opens_cannot_be_opened() {
    for range in ["169.254.169.254/32", "169.254.0.0/16", "0.0.0.0/0"] {
        let words = [
            "run",
            "--allow",
            "example.com",
            "--allow-private",
            range,
            "--",
            "true",
        ];
        let answer = gig(&words);
        assert_eq!(answer.status, 125, "{range}: {answer:?}");
    }
}

#[test]
fn an_unknown_command_is_a_mistake() {
    let answer = gig(&["no-such-command"]);
    assert_ne!(answer.status, 0, "{answer:?}");
    assert!(answer.errors.contains("no-such-command"), "{answer:?}");
}
