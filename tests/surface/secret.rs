//! `gig secret …`: values go in by a pipe or a file, are never shown, and open with the right key only.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use gig_tests::lab::place;
use serde_json::Value;

use super::{Answer, answer};

const VALUE: &str = "a value that nobody shows";

/// A data directory of its own.
struct Vault(tempfile::TempDir);

impl Vault {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("gig").join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let file = self.0.path().join(name);
        fs::write(&file, text).expect("write");
        file.to_str().expect("UTF-8").to_owned()
    }

    fn with(&self, variables: &[(&str, &str)], words: &[&str], input: &str) -> Answer {
        let mut command = Command::new(place::gig());
        command.args(words).env("GIG_DATA_DIR", self.path(""));
        for name in ["GIG_MASTER_KEY", "GIG_MASTER_KEY_FILE"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        answer(command, input)
    }

    fn gig(&self, words: &[&str], input: &str) -> Answer {
        let answer = self.with(&[], words, input);
        let said = format!("{}{}", answer.output, answer.errors);
        assert!(!said.contains(VALUE), "it shows the value: {answer:?}");
        answer
    }

    fn ok(&self, words: &[&str], input: &str) -> Value {
        let mut words = words.to_vec();
        words.push("--json");
        let answer = self.gig(&words, input);
        assert_eq!(answer.status, 0, "{answer:?}");
        serde_json::from_str(&answer.output).expect("JSON")
    }
}

#[test]
fn a_prefix_that_is_half_of_the_value_is_refused() {
    let vault = Vault::new();
    let value = "acme_0123456789abcdefghijklmnopqrstuv";
    let definition = "shape: {like: {prefix: acme_0123456789abcd, length: 18}}";
    let definition = vault.file("shape.yaml", definition);
    for option in [
        ["--like", "acme_0123456789abcd"],
        ["--definition", &*definition],
    ] {
        let words = [&["secret", "set", "TOKEN"], &option[..]].concat();
        let set = vault.gig(&words, value);
        assert_ne!(set.status, 0, "{set:?}");
        assert!(
            set.errors.contains("would begin with half of the value"),
            "{set:?}"
        );
        assert!(!format!("{set:?}").contains(value), "{set:?}");
    }
    let set = vault.gig(&["secret", "set", "TOKEN", "--like", "acme_"], value);
    assert_eq!(set.status, 0, "{set:?}");
}

#[test]
fn a_value_goes_in_and_is_never_shown() {
    let vault = Vault::new();
    let set = vault.gig(&["secret", "set", "TOKEN"], &format!("{VALUE}\n"));
    assert_eq!(set.status, 0, "{set:?}");
    assert!(
        set.output.contains("version 1") && set.output.contains("--keep-newline"),
        "{set:?}"
    );
    assert!(
        set.errors.contains("master.key") && set.errors.contains("back it up"),
        "{set:?}"
    );
    let listed = vault.gig(&["secret", "ls"], "");
    assert!(
        listed.output.contains("TOKEN") && listed.output.contains("static"),
        "{listed:?}"
    );
    let listed = vault.ok(&["secret", "ls"], "");
    assert_eq!(listed["secrets"][0]["name"], "TOKEN");
    assert_eq!(listed["secrets"][0]["versions"][0]["state"], "current");
    // Nor does anything that was written hold it.
    for entry in fs::read_dir(vault.path("")).expect("the folder") {
        let path = entry.expect("an entry").path();
        let octets = fs::read(&path).expect("read");
        let held = octets
            .windows(VALUE.len())
            .any(|part| part == VALUE.as_bytes());
        assert!(!held, "{}", path.display());
        let mode = fs::metadata(&path).expect("facts").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn a_value_on_the_command_line_is_refused_with_the_cure() {
    let vault = Vault::new();
    for words in [
        ["secret", "set", "TOKEN", "hunter2"].as_slice(),
        &["secret", "set", "TOKEN=hunter2"],
    ] {
        let answer = vault.gig(words, "");
        assert_eq!(answer.status, 125, "{answer:?}");
        assert!(answer.errors.contains("standard input"), "{answer:?}");
        assert!(!answer.errors.contains("hunter2"), "{answer:?}");
    }
    assert!(!vault.path("gig.db").exists());
}

#[test]
fn versions_rotate_revoke_and_are_forgotten() {
    let vault = Vault::new();
    let file = vault.file("value", VALUE);
    let set = vault.ok(
        &["secret", "set", "T", "--file", &file, "--expires", "30d"],
        "",
    );
    assert_eq!(
        (&set["version"], &set["stripped_newline"]),
        (&1.into(), &false.into())
    );
    let rotated = vault.ok(
        &["secret", "rotate", "T", "--grace", "10m"],
        "another value",
    );
    assert_eq!(rotated["version"], 2);
    assert_eq!(rotated["versions"][0]["state"], "grace");
    let removed = vault.ok(&["secret", "rm", "T", "--version", "1"], "");
    assert_eq!(removed["ended_versions"], 1);
    vault.ok(&["secret", "rm", "T"], "");
    assert_eq!(
        vault.ok(&["secret", "ls"], "")["secrets"],
        Value::Array(Vec::new())
    );
    let all = vault.ok(&["secret", "ls", "--all"], "");
    assert_eq!(all["secrets"][0]["versions"][1]["state"], "revoked");
    vault.ok(&["secret", "rm", "T", "--forget"], "");
    assert_eq!(
        vault.ok(&["secret", "ls", "--all"], "")["secrets"],
        Value::Array(Vec::new())
    );
    assert_eq!(vault.gig(&["secret", "rm", "T"], "").status, 125);
}

/// A value that another took the place of serves no more, and one alone makes no other kind of what is there.
#[test]
fn what_becomes_of_a_secret_is_said_where_it_is_changed() {
    let vault = Vault::new();
    let set = ["secret", "set", "T", "--kind", "basic"];
    vault.ok(&set, "user:first");
    let other = vault.gig(&["secret", "set", "T"], "a value");
    let told = "T is of kind basic, its value from: embedded, and would be no more: `gig secret rotate T` gives it \
                another value";
    assert!(
        other.status == 125 && other.errors.contains(told),
        "{other:?}"
    );
    let never = [&set[..], &["--expires", "0s"]].concat();
    let never = vault.gig(&never, "user:value");
    assert!(
        never.status == 125 && never.errors.contains("may never be used"),
        "{never:?}"
    );
    vault.ok(&["secret", "rotate", "T", "--grace", "1h"], "user:second");
    let revoked = vault.gig(&["secret", "rm", "T", "--version", "2"], "");
    let told = "T has no value to be used now: `gig secret rotate T` gives it one";
    assert!(
        revoked.status == 0 && revoked.output.contains(told),
        "{revoked:?}"
    );
    let listed = vault.ok(&["secret", "ls"], "");
    let states = &listed["secrets"][0]["versions"];
    assert_eq!(
        (&states[0]["state"], &states[1]["state"]),
        (&"grace".into(), &"revoked".into())
    );
    vault.ok(
        &[
            "secret",
            "set",
            "C",
            "--custody",
            "--passphrase-file",
            &vault.file("pass", "long enough passphrase"),
        ],
        "v1 of custody",
    );
    let out = vault.gig(&["secret", "set", "C"], "v2 of custody");
    assert!(
        out.status == 125 && out.errors.contains("C is in custody, and would be no more"),
        "{out:?}"
    );
}

/// Without its key the vault's values would not be looked for in what programs send.
#[test]
fn nothing_starts_with_a_master_key_that_is_none() {
    let vault = Vault::new();
    let starts: [&[&str]; 2] = [
        &["run", "--allow", "api.example.com", "--", "true"],
        &["serve", "--listen", "127.0.0.1:0"],
    ];
    for words in starts {
        for wrong in ["", "abc"] {
            let answer = vault.with(&[("GIG_MASTER_KEY", wrong)], words, "");
            assert_eq!(answer.status, 125, "{words:?}: {answer:?}");
            assert!(answer.errors.contains("openssl rand"), "{answer:?}");
        }
    }
}

#[test]
fn only_64_hexadecimal_digits_are_a_master_key() {
    let vault = Vault::new();
    let right = "0123456789abcdef".repeat(4);
    let key = vault.file("key", &right);
    let set = ["secret", "set", "T"];
    for wrong in [
        "",
        "abc",
        &right[1..],
        &format!("{right}0"),
        &"g".repeat(64),
    ] {
        let answer = vault.with(&[("GIG_MASTER_KEY", wrong)], &set, "v");
        assert_eq!(answer.status, 125, "{answer:?}");
        let cure =
            answer.errors.contains("64 hexadecimal") && answer.errors.contains("openssl rand");
        assert!(cure, "{answer:?}");
        assert!(
            wrong.len() < 4 || !answer.errors.contains(wrong),
            "{answer:?}"
        );
    }
    let both = [
        ("GIG_MASTER_KEY", right.as_str()),
        ("GIG_MASTER_KEY_FILE", key.as_str()),
    ];
    let answer = vault.with(&both, &set, "v");
    assert!(
        answer.status == 125 && answer.errors.contains("unset one"),
        "{answer:?}"
    );
    let by_file = [("GIG_MASTER_KEY_FILE", key.as_str())];
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("chmod");
    let answer = vault.with(&by_file, &set, "v");
    assert!(
        answer.status == 125 && answer.errors.contains("chmod 600"),
        "{answer:?}"
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("chmod");
    let answer = vault.with(&by_file, &set, "v");
    assert_eq!(answer.status, 0, "{answer:?}");
    // Sealed with that key; another one opens nothing and says which is wanted.
    let other = "f".repeat(64);
    let answer = vault.with(&[("GIG_MASTER_KEY", &other)], &["secret", "ls"], "");
    assert!(
        answer.status == 125 && answer.errors.contains("sealed with master key"),
        "{answer:?}"
    );
    // And a missing key file is not replaced by a fresh key.
    let answer = vault.gig(&["secret", "ls"], "");
    assert!(
        answer.status == 125 && answer.errors.contains("backup"),
        "{answer:?}"
    );
    assert!(!vault.path("master.key").exists());
}

#[test]
fn the_master_key_changes_and_every_secret_stays() {
    let vault = Vault::new();
    vault.ok(&["secret", "set", "A"], VALUE);
    let before = fs::read(vault.path("master.key")).expect("the key");
    let rotated = vault.ok(&["secret", "rotate", "--master", "--grace", "0s"], "");
    assert_ne!(fs::read(vault.path("master.key")).expect("the key"), before);
    let listed = vault.ok(&["secret", "ls"], "");
    assert_eq!(
        listed["secrets"][0]["versions"][0]["master_key"],
        rotated["master_key"]
    );
    fs::write(vault.path("master.key"), before).expect("put the old key back");
    let answer = vault.gig(&["secret", "ls"], "");
    assert!(
        answer.status == 125 && answer.errors.contains("sealed with master key"),
        "{answer:?}"
    );
}

#[test]
fn custody_takes_the_owners_passphrase() {
    let vault = Vault::new();
    let right = vault.file("right", "correct horse battery staple\n");
    let wrong = vault.file("wrong", "incorrect horse battery staple\n");
    let set = ["secret", "set", "T", "--custody", "--passphrase-file"];
    vault.ok(&[&set[..], &[&right]].concat(), VALUE);
    let answer = vault.gig(&[&set[..], &[&wrong]].concat(), VALUE);
    assert!(
        answer.status == 125 && answer.errors.contains("passphrase is wrong"),
        "{answer:?}"
    );
    assert_eq!(
        vault.ok(&["secret", "ls"], "")["secrets"][0]["custody"],
        true
    );
}

#[test]
fn a_passphrase_that_opens_nothing_is_told_with_what_it_was_for() {
    let vault = Vault::new();
    let right = vault.file("right", "correct horse battery staple\n");
    let wrong = vault.file("wrong", "incorrect horse battery staple\n");
    // Ignored, it would seem to seal something.
    let answer = vault.gig(&["secret", "set", "P", "--passphrase-file", &right], VALUE);
    let told = "only --custody takes a passphrase";
    assert!(
        answer.status == 125 && answer.errors.contains(told),
        "{answer:?}"
    );
    vault.ok(&["secret", "set", "P"], VALUE);
    let custody = [
        "secret",
        "set",
        "T",
        "--custody",
        "--passphrase-file",
        &right,
    ];
    vault.ok(&custody, VALUE);
    for words in [
        &["secret", "rotate", "P", "--passphrase-file", "/nope"][..],
        &[
            "secret",
            "test",
            "P",
            "--url",
            "https://a.example",
            "--passphrase-fd",
            "9",
        ],
    ] {
        let answer = vault.gig(words, VALUE);
        let told = "P is in nobody's custody; leave it out";
        assert!(
            answer.status == 125 && answer.errors.contains(told),
            "{answer:?}"
        );
    }
    let rotate = ["secret", "rotate", "T", "--passphrase-file", &wrong];
    let answer = vault.gig(&rotate, VALUE);
    let told = format!("in custody of T with --passphrase-file {wrong}");
    assert!(
        answer.status == 125 && answer.errors.contains(&told),
        "{answer:?}"
    );
    let run = [
        "run",
        "--allow",
        "a.example",
        "--secret",
        "P@a.example",
        "--passphrase-file",
        "/nope",
        "--",
        "true",
    ];
    let answer = vault.gig(&run, "");
    assert!(
        answer
            .errors
            .contains("none of this run's secrets is in its owner's custody"),
        "{answer:?}"
    );
}

#[test]
fn an_entrusted_secret_is_shown_with_a_warning() {
    let vault = Vault::new();
    let set = vault.gig(&["secret", "set", "T", "--entrusted"], VALUE);
    assert!(set.output.contains("WARNING"), "{set:?}");
    let listed = vault.gig(&["secret", "ls"], "");
    assert!(listed.output.contains("WARNING: entrusted"), "{listed:?}");
    // And where it would be placed, it is not: the program has it, or gig run does not start.
    for (grant, status, words) in [
        (
            "T",
            1,
            "NOT PLACED: it is marked entrusted, and no rule entrusts it",
        ),
        (
            "{name: T, entrusted: true}",
            0,
            "the program is handed the value",
        ),
    ] {
        let text = [
            "version: 1\negress:\n- {host: a.example, secrets: [",
            grant,
            "]}\n",
        ]
        .concat();
        let policy = vault.file("policy.yaml", &text);
        let words_of = [
            "secret",
            "test",
            "T",
            "--policy",
            &policy,
            "--url",
            "https://a.example/",
        ];
        let tested = vault.gig(&words_of, "");
        assert_eq!(tested.status, status, "{tested:?}");
        assert!(tested.output.contains(words), "{tested:?}");
        assert!(
            !tested.output.contains("sentinel ") && !tested.output.contains(VALUE),
            "{tested:?}"
        );
    }
}

#[test]
fn a_key_that_hands_out_credentials_is_shown_with_a_warning() {
    let key = "AKIAQ3EGUIDTRPW7BZ5L:vN9wXk2+RqLr/7TbYcE4uHsZ0dGmPfJ1aKoI5xQe";
    for (text, warned) in [("{}", false), ("{hands_out: true}", true)] {
        let vault = Vault::new();
        let file = vault.file("definition.yaml", &format!("kind: {{aws: {text}}}\n"));
        let set = vault.gig(&["secret", "set", "AWS", "--definition", &file], key);
        assert_eq!(set.output.contains("WARNING: hands out"), warned, "{set:?}");
        let listed = vault.gig(&["secret", "ls"], "");
        let shown = listed.output.contains("WARNING: hands out");
        assert_eq!(shown, warned, "{listed:?}");
        let listed = vault.ok(&["secret", "ls"], "");
        assert_eq!(listed["secrets"][0]["hands_out"], warned, "{listed}");
    }
}

#[test]
fn a_definition_is_checked_before_anything_is_stored() {
    let vault = Vault::new();
    let define = |text: &str, input: &str| {
        let file = vault.file("definition.yaml", text);
        vault.gig(&["secret", "set", "T", "--definition", &file], input)
    };
    let answer = define("kind: static\nsurprise: 1\n", VALUE);
    assert!(
        answer.status == 125 && answer.errors.contains("definition.yaml:2:1: unknown field"),
        "{answer:?}"
    );
    let answer = define("provider: {command: {program: pass}}\n", "");
    assert!(
        answer.status == 125 && answer.errors.contains("absolute"),
        "{answer:?}"
    );
    let answer = define("kind: basic\n", "no colon");
    assert!(
        answer.status == 125 && answer.errors.contains("user:password"),
        "{answer:?}"
    );
    let answer = define("provider: {file: {path: /run/secrets/t}}\n", "");
    assert!(
        answer.status == 0 && answer.output.contains("comes from file"),
        "{answer:?}"
    );
}
