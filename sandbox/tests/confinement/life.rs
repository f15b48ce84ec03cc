//! Starting, ending, and what is left: nothing.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::lab::{Test, command, eventually, everybody, give, own_directory, run, running};

pub(crate) const TESTS: &[Test] = &[
    ("the_program_waits_for_the_go", waits),
    ("exit_status_is_the_programs_own", status),
    ("missing_and_unfit_programs_have_their_codes", codes),
    ("scripts_run_by_their_first_line", scripts),
    ("program_named_like_an_option_is_a_program", option_name),
    ("signal_reaches_the_program", signal),
    ("orphans_end_with_the_program", orphans),
    ("nothing_outlives_its_caller", caller_dies),
    ("streams_pass_untouched", streams),
    ("strict_profile_starts_programs", strict),
];

fn waits() {
    for who in everybody() {
        let dir = own_directory(*who);
        let made = dir.path().join("made");
        let (bind, makes) = (format!("{}:/tmp/out", dir.path().display()), made.display());
        let makes = makes.to_string();
        let options = ["--rw", &bind, "--makes", &makes];
        let program = ["--", "/bin/sh", "-c", "echo ran > /tmp/out/made"];
        let abandoned = run(*who, &[&options[..], &["--abandon"], &program].concat());
        assert_eq!(abandoned.code, Some(0), "{who:?}: {abandoned:?}");
        assert!(!made.exists(), "{who:?}");
        let ended = run(*who, &[&options[..], &program].concat());
        assert_eq!(ended.code, Some(0), "{who:?}: {ended:?}");
        assert_eq!(fs::read_to_string(&made).unwrap(), "ran\n", "{who:?}");
    }
}

fn status() {
    for who in everybody() {
        for code in ["0", "1", "7", "125", "126", "127", "255"] {
            let ended = run(*who, &["--", "/bin/sh", "-c", &format!("exit {code}")]);
            assert_eq!(ended.code, code.parse().ok(), "{who:?}");
        }
        let ended = run(*who, &["--", "/bin/sh", "-c", "kill -TERM $$"]);
        assert_eq!(ended.code, Some(143));
        let ended = run(*who, &["--", "/bin/sh", "-c", "kill -KILL $$"]);
        assert_eq!(ended.code, Some(137));
    }
}

fn codes() {
    for who in everybody() {
        for (program, code) in [
            ("no-such-program", 127),
            ("/no/such", 127),
            ("/etc/passwd", 126),
            ("/usr", 126),
        ] {
            let ended = run(*who, &["--", program]);
            assert_eq!(ended.code, Some(code), "{who:?} {program}: {ended:?}");
            assert!(ended.err.contains(program), "{ended:?}");
        }
        let dir = own_directory(*who);
        let script = dir.path().join("script");
        fs::write(&script, "#!/no/interpreter\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        give(*who, &script);
        let ended = run(
            *who,
            &[
                "--ro",
                &format!("{}:/tmp/s", dir.path().display()),
                "--",
                "/tmp/s/script",
            ],
        );
        assert_eq!(ended.code, Some(127), "{ended:?}");
        assert!(ended.err.contains("interpreter"), "{ended:?}");
        let ended = run(*who, &["--workdir", "/no/such", "--", "/bin/true"]);
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(
            ended.err.contains("working directory /no/such"),
            "{ended:?}"
        );
    }
}

fn scripts() {
    for who in everybody() {
        let dir = own_directory(*who);
        let script = dir.path().join("hello");
        fs::write(&script, "#!/bin/sh\necho $0 $1; ls /proc/self/fd | wc -l\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        give(*who, &script);
        let option = format!("{}:/opt/s", dir.path().display());
        let ended = run(
            *who,
            &[
                "--ro",
                &option,
                "--env",
                "PATH=/opt/s:/usr/bin",
                "--",
                "hello",
                "you",
            ],
        );
        assert_eq!(ended.out, "/opt/s/hello you\n4\n", "{ended:?}");
    }
}

fn option_name() {
    for who in everybody() {
        for program in ["--help", "--bind", "--version"] {
            let ended = run(*who, &["--", program]);
            assert_eq!(ended.code, Some(127), "{ended:?}");
            assert!(
                !ended.out.contains("usage") && !ended.out.contains("bubblewrap"),
                "{ended:?}"
            );
        }
    }
}

fn signal() {
    for who in everybody() {
        let script = "trap 'echo told; exit 9' TERM; while :; do sleep 0.05; done";
        let ended = run(
            *who,
            &["--term-after", "400", "--", "/bin/sh", "-c", script],
        );
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(9), "told\n"),
            "{ended:?}"
        );
        let ended = run(
            *who,
            &[
                "--kill-after",
                "200",
                "--",
                "/bin/sh",
                "-c",
                "trap '' TERM; sleep 1000.125",
            ],
        );
        assert_eq!(ended.code, Some(137), "{ended:?}");
        eventually("killed", || !running("1000.125"));
    }
}

fn orphans() {
    for who in everybody() {
        let ended = run(
            *who,
            &[
                "--",
                "/bin/sh",
                "-c",
                "setsid sleep 1000.25 >/dev/null 2>&1 & exit 3",
            ],
        );
        assert_eq!(ended.code, Some(3));
        assert!(!running("1000.25"), "{who:?}");
    }
}

fn caller_dies() {
    for who in everybody() {
        for _ in 0..5 {
            let mut driver = command(
                *who,
                &["--", "/bin/sh", "-c", "setsid sleep 1000.5 & sleep 1000.5"],
            )
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
            eventually("it runs", || running("1000.5"));
            driver.kill().unwrap();
            driver.wait().unwrap();
            eventually("nothing runs", || !running("1000.5"));
        }
    }
}

fn streams() {
    for who in everybody() {
        let mut driver = command(*who, &["--", "/bin/cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = driver.stdin.take().unwrap();
        let block: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let sent = block.clone();
        let writer = std::thread::spawn(move || {
            for _ in 0..50 {
                input.write_all(&sent).unwrap();
            }
        });
        let mut output = Vec::new();
        driver
            .stdout
            .take()
            .unwrap()
            .read_to_end(&mut output)
            .unwrap();
        writer.join().unwrap();
        assert!(driver.wait().unwrap().success());
        assert_eq!(output.len(), block.len() * 50);
        assert!(output.chunks(block.len()).all(|part| part == block));
    }
}

fn strict() {
    for who in everybody() {
        let ended = run(
            *who,
            &[
                "--strict",
                "--",
                "/bin/sh",
                "-c",
                "ls / | head -1; echo $((1+1))",
            ],
        );
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
