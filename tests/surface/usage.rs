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
    // A lone word that is no level would be taken for the name of a part, and show all of it.
    for wrong in ["[[[", "gig=loud", "info,gig==", "loud", "gig=info,loud"] {
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

/// As `gig … | head` does when head has what it wants.
#[test]
fn a_reader_that_left_ends_a_command_quietly() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, "version: 1\negress: []\n").expect("write");
    let policy = policy.to_str().expect("UTF-8");
    for words in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["policy", "check", policy],
        &["policy", "test", policy, "GET", "https://a.example/"],
        &["secret", "ls", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(place::gig());
        command.args(words).env("GIG_DATA_DIR", folder.path());
        let ended = command.stdout(writer).output().expect("gig");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(
            (ended.status.code(), told.as_str()),
            (Some(141), ""),
            "{words:?}"
        );
    }
}

#[test]
fn a_number_or_an_address_that_is_none_is_told_in_words_and_with_its_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |words: &[&str], variable: Option<(&str, &str)>| {
        let mut command = Command::new(place::gig());
        command.args(words).env("GIG_DATA_DIR", folder.path());
        let answer = answer(
            {
                command.envs(variable);
                command
            },
            "",
        );
        assert_eq!(answer.status, 125, "{answer:?}");
        assert!(!answer.errors.contains("invalid digit"), "{answer:?}");
        answer.errors
    };
    for (words, variable, told) in [
        (
            &["serve"][..],
            Some(("GIG_SANDBOXES", "abc")),
            "(GIG_SANDBOXES) cannot be \"abc\": it is not a whole number",
        ),
        (&["serve"], Some(("GIG_SANDBOXES", "1")), "(GIG_SANDBOXES)"),
        (
            &["serve"],
            Some(("GIG_FRONT", "localhost")),
            "(GIG_FRONT) cannot be \"localhost\": it is no IP address",
        ),
        (
            &["serve", "--sandboxes", "abc"],
            None,
            "--sandboxes <N> cannot be \"abc\"",
        ),
        (
            &["policy", "approve", "x"],
            None,
            "<ID> cannot be \"x\": it is not a whole number",
        ),
        (
            &["audit", "tail", "f.jsonl", "--lines", "x"],
            None,
            "it is not a whole number",
        ),
        (
            &["run", "--passphrase-fd", "x", "--", "true"],
            None,
            "it is not a whole number",
        ),
        (
            &[
                "run",
                "--passphrase-fd",
                "99999999999999999999",
                "--",
                "true",
            ],
            None,
            "too large",
        ),
    ] {
        let errors = said(words, variable);
        assert!(errors.contains(told), "{words:?}: {errors}");
    }
}

#[test]
fn what_an_option_wants_is_told_where_it_was_given_something_else() {
    let folder = tempfile::tempdir().expect("a folder");
    for (words, told) in [
        (
            &["netns", "register", "--server", "box"][..],
            &["--pid <PID>", "--path <PATH>"][..],
        ),
        (
            &["run", "--policy", "-", "--", "true"],
            &["standard input is the program's own"],
        ),
        (
            &["run", "--ro", "a:b", "--", "true"],
            &["the last colon", "must be absolute"],
        ),
        (
            &["serve", "--traces", "otel.example.com"],
            &["https://otel.example/v1/traces"],
        ),
        (
            &["serve", "--keep", "dns=7 alarm=forever"],
            &["dns=7,alarm=forever"],
        ),
        (
            &["policy", "reject", "7"],
            &["proposal 7 is rejected: --why TEXT"],
        ),
    ] {
        let mut command = Command::new(place::gig());
        command.args(words).env("GIG_DATA_DIR", folder.path());
        let answer = answer(command, "");
        assert_ne!(answer.status, 0, "{answer:?}");
        for word in told {
            assert!(answer.errors.contains(word), "{word}: {answer:?}");
        }
        assert!(!answer.errors.contains("syslog"), "{answer:?}");
    }
}

/// What other tools call so is answered with what gig calls it; nobody is told to run a mistyped option as a program.
#[test]
fn an_option_that_is_none_is_told_with_what_is_meant() {
    for (option, said) in [
        ("-v", "--ro PATH[:DEST]"),
        ("-e", "--env NAME=VALUE"),
        ("--publish=80", "nothing connects into a sandbox"),
        ("--alow", "similar argument exists: '--allow'"),
        ("--nonsense", "unexpected argument"),
    ] {
        let mistake = gig(&["run", option, "x", "--", "true"]);
        let told = &mistake.errors;
        assert!(told.contains(said), "{option}: {mistake:?}");
        assert!(!told.contains("as a value"), "{option}: {mistake:?}");
        assert_eq!(mistake.status, 125, "{option}: {mistake:?}");
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
