//! The units in deploy/systemd: what they start exists, and none takes from gig what a sandbox is made of.

use std::{fs, path::Path, process::Command};

use super::gig;

/// Where the units are, and whether systemd has them as a user's.
const UNITS: [(&str, bool); 2] = [("gig.service", false), ("user/gig.service", true)];

fn unit(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd");
    fs::read_to_string(folder.join(name)).expect("a unit")
}

/// All that a unit says under a name.
fn said<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .filter(|(known, _)| *known == name)
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn what_the_units_start_is_a_command_with_options_that_exist() {
    let help = gig(&["serve", "--help"]).output;
    for (name, _) in UNITS {
        let text = unit(name);
        let start = said(&text, "ExecStart");
        let words: Vec<&str> = start[0].split(' ').collect();
        assert!(
            words[0].ends_with("/bin/gig") && words[1] == "serve",
            "{name}: {start:?}"
        );
        let options: Vec<_> = words.iter().filter(|word| word.starts_with("--")).collect();
        assert!(!options.is_empty(), "{name}");
        for option in options {
            assert!(
                help.contains(&format!("{option} ")),
                "{name}: {option} is not in --help"
            );
        }
        // All of it is taken: gig says what it makes of the words, and not that it knows them not.
        let tried = gig(&[&words[1..], &["--help"]].concat());
        assert_eq!(tried.status, 0, "{name}: {tried:?}");
        // What starts with `GIG_` is named in the help or the README.
        let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md"));
        let readme = readme.expect("the README");
        for word in text.split(|c: char| !c.is_ascii_uppercase() && c != '_') {
            let is_known = help.contains(word) || readme.contains(word);
            assert!(!word.starts_with("GIG_") || is_known, "{name}: {word}");
        }
    }
}

#[test]
fn no_unit_takes_from_gig_what_a_sandbox_is_made_of() {
    for (name, is_users) in UNITS {
        let text = unit(name);
        for breaks in [
            "RestrictNamespaces",
            "ProtectKernelTunables",
            "ProtectKernelLogs",
            "ProtectControlGroups",
            "ProtectProc",
            "ProcSubset",
            "MemoryDenyWriteExecute",
            "PrivateUsers",
            "ProtectClock",
            "PrivateDevices",
            "DeviceAllow",
            "DevicePolicy",
        ] {
            assert!(said(&text, breaks).is_empty(), "{name}: {breaks}");
        }
        for (one, value) in [
            ("Delegate", "yes"),
            ("NoNewPrivileges", "yes"),
            ("UMask", "0077"),
        ] {
            assert_eq!(said(&text, one), [value], "{name}: {one}");
        }
        let families = said(&text, "RestrictAddressFamilies");
        assert!(families[0].contains("AF_NETLINK"), "{name}: {families:?}");
        if !is_users {
            assert_eq!(said(&text, "User"), ["gig"]);
            assert_eq!(said(&text, "CapabilityBoundingSet"), [""]);
            assert_eq!(said(&text, "ProtectSystem"), ["strict"]);
            assert_eq!(said(&text, "Environment"), ["GIG_DATA_DIR=/var/lib/gig"]);
            assert_eq!(said(&text, "StateDirectory"), ["gig"]);
        }
    }
}

/// Where systemd is there to say so.
#[test]
fn systemd_knows_every_word_of_the_units() {
    for (name, is_users) in UNITS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gig.service");
        // The program of a unit must be there: any will do.
        let text = unit(name)
            .replace("/usr/local/bin/gig", "/bin/true")
            .replace("%h/.local/bin/gig", "/bin/true");
        fs::write(&path, text).expect("written");
        let mut verify = Command::new("systemd-analyze");
        verify
            .arg("verify")
            .args(["--man=no", "--recursive-errors=no"]);
        verify.args(is_users.then_some("--user")).arg(&path);
        let output = verify.env("XDG_RUNTIME_DIR", folder.path()).output();
        let output = output.expect("systemd-analyze (Debian: systemd)");
        let words = String::from_utf8_lossy(&output.stderr);
        let of_ours = words.lines().filter(|line| line.contains("gig.service"));
        let of_ours: Vec<_> = of_ours.collect();
        assert!(of_ours.is_empty(), "{name}: {of_ours:?}");
    }
}
