//! `gig secret test`: what would become of a secret in a request, said without a value and without a packet.

use std::{fs, path::PathBuf, process::Command};

use gig_tests::lab::place;
use serde_json::Value;

use super::{Answer, answer};

const VALUE: &str = "ghp_RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR";
const POLICY: &str = "version: 1\nname: demo\negress:\n\
    - host: api.example.com\n  rules: [{methods: [GET, POST], paths: [/user]}]\n  \
      secrets: [{name: TOKEN, in: [\"header:Authorization\"]}]\n\
    - host: other.example.com\n\
    - {host: plain.example.com, ports: [80], secrets: [TOKEN]}\n";

struct Vault(tempfile::TempDir);

impl Vault {
    fn new() -> Self {
        let vault = Self(tempfile::tempdir().expect("a folder"));
        fs::write(vault.file("policy.yaml"), POLICY).expect("write");
        vault
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn gig(&self, words: &[&str], input: &str) -> Answer {
        let mut command = Command::new(place::gig());
        command.arg("secret").args(words);
        command.env("GIG_DATA_DIR", self.file("gig"));
        for name in ["GIG_MASTER_KEY", "GIG_MASTER_KEY_FILE", "TOKEN"] {
            command.env_remove(name);
        }
        let answer = answer(command, input);
        let said = format!("{}{}", answer.output, answer.errors);
        assert!(!said.contains(VALUE), "it shows the value: {answer:?}");
        answer
    }

    fn set(&self, words: &[&str], value: &str) {
        let answer = self.gig(&[&["set"][..], words].concat(), value);
        assert_eq!(answer.status, 0, "{answer:?}");
    }

    /// Whether it would be placed, and the whole answer.
    fn test(&self, words: &[&str]) -> (bool, Value) {
        let policy = self.file("policy.yaml");
        let policy = ["--json", "--policy", policy.to_str().expect("UTF-8")];
        let answer = self.gig(&[&["test"][..], words, &policy].concat(), "");
        let document: Value = serde_json::from_str(&answer.output)
            .unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        assert_eq!(document["placed"], answer.status == 0, "{answer:?}");
        assert!(answer.status < 2, "{answer:?}");
        (answer.status == 0, document)
    }

    #[track_caller]
    fn refused(&self, words: &[&str], why: &str) {
        let (placed, document) = self.test(words);
        let said = document["why"].as_str().unwrap_or_default();
        assert!(!placed && said.contains(why), "{document:#}");
    }
}

const USER: [&str; 3] = ["TOKEN", "--url", "https://api.example.com/user"];

#[test]
fn a_test_shows_where_a_secret_would_be_placed_with_its_sentinel() {
    let vault = Vault::new();
    vault.set(&["TOKEN"], VALUE);
    let (placed, document) = vault.test(&USER);
    assert!(placed, "{document:#}");
    let sentinel = document["sentinel"].as_str().expect("a sentinel");
    assert!(
        sentinel.starts_with("ghp_") && sentinel != VALUE,
        "{document:#}"
    );
    let places = document["places"].as_array().expect("places");
    let of = |name: &str| {
        places
            .iter()
            .find(|place| place["place"] == name)
            .expect("a place")
    };
    let shown = of("header:authorization")["shown"]
        .as_str()
        .unwrap_or_default();
    assert!(
        shown.ends_with(&format!("Bearer {sentinel}")),
        "{document:#}"
    );
    for other in ["header:x-api-key", "cookie:session", "query:key", "path"] {
        assert_eq!(of(other)["placed"], false, "{document:#}");
    }
    let header = ["--header", "Authorization: token {TOKEN}"];
    let (placed, document) = vault.test(&[&USER[..], &header].concat());
    assert!(
        placed
            && document["places"][0]["shown"]
                .as_str()
                .unwrap_or_default()
                .contains("token ghp_")
    );
    // People read the same.
    let policy = vault.file("policy.yaml");
    let policy = ["--policy", policy.to_str().expect("UTF-8")];
    let answer = vault.gig(&[&["test"][..], &USER, &policy].concat(), "");
    assert!(
        answer.output.starts_with("PLACED: TOKEN version 1"),
        "{answer:?}"
    );
}

#[test]
fn a_test_says_why_a_secret_would_not_be_placed() {
    let vault = Vault::new();
    vault.refused(&USER, "neither has the vault");
    vault.set(&["TOKEN"], VALUE);
    let url = |url| ["TOKEN", "--url", url];
    vault.refused(&url("https://other.example.com/"), "no rule grants it");
    vault.refused(&url("https://nowhere.example.com/"), "host_not_allowed");
    vault.refused(&url("https://api.example.com:444/user"), "port_not_allowed");
    vault.refused(&url("https://api.example.com/users"), "path_not_allowed");
    vault.refused(
        &[&USER[..], &["--method", "DELETE"]].concat(),
        "method_not_allowed",
    );
    vault.refused(&url("http://plain.example.com/"), "no rule grants it");
    let (_, document) = vault.test(&url("http://plain.example.com/"));
    let said = document["grants"][1]["outcome"]
        .as_str()
        .unwrap_or_default();
    assert!(said.contains("clear text"), "{document:#}");
    vault.refused(
        &url("https://api.example.com/user?key={TOKEN}"),
        "where the policy does not take it",
    );
    // A binding of the command line takes every place, and allows nothing.
    let bound = ["--secret", "TOKEN@other.example.com"];
    let (placed, _) =
        vault.test(&[&url("https://other.example.com/?key={TOKEN}")[..], &bound].concat());
    assert!(placed);
    let bound = ["--secret", "TOKEN@nowhere.example.com"];
    vault.refused(
        &[&url("https://nowhere.example.com/")[..], &bound].concat(),
        "host_not_allowed",
    );
}

/// As `a_secret_of_a_narrow_rule_goes_with_no_override…` and the like have it of a run.
#[test]
fn a_test_refuses_what_a_run_refuses_whatever_the_secret_is_allowed() {
    let vault = Vault::new();
    vault.set(&["TOKEN"], VALUE);
    let with = |fields: &[&'static str]| {
        let mut words = USER.to_vec();
        for field in fields {
            words.extend(["--header", *field]);
        }
        words
    };
    let placed = "Authorization: Bearer {TOKEN}";
    let overriding = ["X-HTTP-Method-Override: DELETE", placed];
    vault.refused(
        &with(&overriding),
        "malformed_request: x-http-method-override overrides",
    );
    vault.refused(&with(&overriding[..1]), "goes into no part");
    vault.refused(&with(&["Host: {TOKEN}"]), "names_disagree");
    vault.refused(
        &with(&["Host: other.example.com", placed]),
        "names_disagree",
    );
    vault.refused(
        &with(&["Host: api.example.com:80", placed]),
        "names_disagree",
    );
    for host in ["Host: api.example.com", "Host: API.example.com:443"] {
        let (placed, document) = vault.test(&with(&[host, placed]));
        assert!(placed, "{host}: {document:#}");
    }
    let lengths = ["Content-Length: 3", "Transfer-Encoding: chunked", placed];
    vault.refused(&with(&lengths), "its length is told in two ways");
    // What is not closed is no place: it goes as it is written, as from a program.
    vault.refused(&with(&["Authorization: Bearer {TOKEN"]), "write {TOKEN}");
    let (placed, document) = vault.test(&with(&[placed, "X-Other: {TOKEN"]));
    let note = document["notes"].to_string();
    assert!(
        placed && note.contains("is sent as it is written"),
        "{document:#}"
    );
}

#[test]
fn a_test_tells_what_has_ended_and_what_cannot_stand_in_a_place() {
    let vault = Vault::new();
    vault.set(&["TOKEN"], "two\nlines of a value");
    vault.refused(
        &[&USER[..], &["--header", "Authorization: {TOKEN}"]].concat(),
        "cannot stand in",
    );
    vault.set(&["TOKEN", "--expires", "1s"], VALUE);
    std::thread::sleep(std::time::Duration::from_secs(2));
    vault.refused(&USER, "expired");
    vault.set(&["TOKEN"], VALUE);
    assert_eq!(vault.gig(&["rm", "TOKEN", "--version", "3"], "").status, 0);
    vault.refused(&USER, "revoked");
    assert_eq!(vault.gig(&["rm", "TOKEN"], "").status, 0);
    vault.refused(&USER, "removed");
}

#[test]
fn a_test_says_what_is_done_where_nothing_is_placed_and_asks_nobody() {
    let vault = Vault::new();
    let define = |text: &str, value: &str| {
        fs::write(vault.file("definition.yaml"), text).expect("write");
        let file = vault.file("definition.yaml");
        vault.set(
            &["TOKEN", "--definition", file.to_str().expect("UTF-8")],
            value,
        );
    };
    // What signs has no places.
    let anywhere = POLICY.replace("{name: TOKEN, in: [\"header:Authorization\"]}", "TOKEN");
    fs::write(vault.file("policy.yaml"), anywhere).expect("write");
    define(
        "kind: {aws: {services: [s3]}}\n",
        "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG",
    );
    let (placed, document) = vault.test(&USER);
    let said = document["treatment"].as_str().unwrap_or_default();
    assert!(
        placed && said.contains("signed again") && said.contains("services s3"),
        "{document:#}"
    );
    define(
        "kind: {hmac: {algorithm: sha256, message: \"{timestamp}.{body}\", header: X-Signature, \
         value: \"{signature}\"}}\n",
        "a key to sign with",
    );
    let (placed, document) = vault.test(&USER);
    let said = document["treatment"].as_str().unwrap_or_default();
    assert!(placed && said.contains("x-signature"), "{document:#}");
    fs::write(vault.file("policy.yaml"), POLICY).expect("write");
    // Nobody is at that address: asking would take longer than it takes to say so.
    define(
        "kind: {oauth2_client_credentials: {endpoint: {token_url: \"https://192.0.2.1/token\"}, \
         client: {client_id: c, authentication: client_secret_basic}}}\n",
        "a client secret",
    );
    let (placed, document) = vault.test(&USER);
    let note = document["notes"][0].as_str().unwrap_or_default();
    assert!(
        placed && note.contains("asked for at 192.0.2.1"),
        "{document:#}"
    );
    // What gig gets goes in header fields, as in a run.
    let bound = ["--secret", "TOKEN@other.example.com"];
    for (url, header, expected) in [
        (
            "https://other.example.com/?t={TOKEN}",
            "X-Other: none",
            false,
        ),
        ("https://other.example.com/{TOKEN}", "X-Other: none", false),
        (
            "https://other.example.com/",
            "Authorization: Bearer {TOKEN}",
            true,
        ),
    ] {
        let words = [&["TOKEN", "--url", url, "--header", header][..], &bound].concat();
        let (placed, document) = vault.test(&words);
        assert_eq!(placed, expected, "{url}: {document:#}");
    }
    define("provider: {command: {program: /bin/false}}\n", "");
    let (placed, document) = vault.test(&USER);
    let note = document["notes"][0].as_str().unwrap_or_default();
    assert!(placed && note.contains("was not asked"), "{document:#}");
}

#[test]
fn a_policy_to_test_with_may_come_by_standard_input() {
    let vault = Vault::new();
    vault.set(&["TOKEN"], VALUE);
    let words = [&["test"][..], &USER, &["--policy", "-"]].concat();
    let answer = vault.gig(&words, POLICY);
    assert_eq!(answer.status, 0, "{answer:?}");
}

#[test]
fn a_value_in_the_tested_request_is_refused() {
    let vault = Vault::new();
    vault.set(&["TOKEN"], VALUE);
    let header = format!("Authorization: Bearer {VALUE}");
    let answer = vault.gig(&[&["test"][..], &USER, &["--header", &header]].concat(), "");
    assert_eq!(answer.status, 125, "{answer:?}");
    assert!(answer.errors.contains("write {TOKEN}"), "{answer:?}");
}

#[test]
fn a_misspelt_place_in_the_tested_url_is_refused() {
    let vault = Vault::new();
    vault.set(&["TOKEN"], VALUE);
    let words = ["test", "TOKEN", "--url", "https://api.test/{TOKNE}/x"];
    let answer = vault.gig(&words, "");
    assert_eq!(answer.status, 125, "{answer:?}");
    let told = "{TOKNE} is no variable of the secret: write {TOKEN}";
    assert!(answer.errors.contains(told), "{answer:?}");
}

#[test]
fn a_value_that_takes_anothers_place_without_its_end_is_remarked() {
    let vault = Vault::new();
    vault.set(&["TOKEN", "--expires", "30d"], VALUE);
    let remark = "version 2 has none: --expires sets one";
    let answer = vault.gig(&["rotate", "TOKEN"], "another-value-of-it");
    assert!(
        answer.status == 0 && answer.errors.contains(remark),
        "{answer:?}"
    );
    // The second one takes the place of a value that has none.
    let words = [
        &["rotate", "TOKEN", "--expires", "30d"][..],
        &["rotate", "TOKEN", "--expires", "9d"],
    ];
    for (words, value) in words.into_iter().zip(["a-third-value", "a-fourth-value"]) {
        let answer = vault.gig(words, value);
        assert!(answer.status == 0 && answer.errors.is_empty(), "{answer:?}");
    }
}

#[test]
fn a_value_that_is_too_short_to_be_looked_for_is_a_warning() {
    let vault = Vault::new();
    let answer = vault.gig(&["set", "TOKEN"], "short\n");
    assert!(
        answer.output.contains("WARNING") && answer.output.contains("5 octets"),
        "{answer:?}"
    );
    let answer = vault.gig(&["set", "TOKEN", "--json"], "12345678");
    let document: Value = serde_json::from_str(&answer.output).expect("JSON");
    assert_eq!(document["short"], false);
}

#[test]
fn a_value_that_ordinary_text_holds_is_a_warning() {
    let vault = Vault::new();
    for (value, common) in [
        ("postgres", true),
        ("0000000000000000", true),
        ("Application/JSON", true),
        (VALUE, false),
        ("correcthorsebatterystaple", false),
    ] {
        let answer = vault.gig(&["set", "TOKEN"], value);
        assert_eq!(answer.status, 0, "{answer:?}");
        let told = answer
            .output
            .contains("ordinary text holds the value of TOKEN");
        assert_eq!(told, common, "{value}: {answer:?}");
        assert!(!answer.output.contains(value), "{answer:?}");
    }
}

#[test]
fn a_place_for_a_secret_whose_kind_has_none_is_refused() {
    let vault = Vault::new();
    let definition = vault.file("aws.yaml");
    fs::write(&definition, "kind: {aws: {}}").expect("write");
    let definition = definition.to_str().expect("UTF-8");
    let key = "AKIAQ3EGUIDTRPW7BZ5L:vN9wXk2+RqLr/7TbYcE4uHsZ0dGmPfJ1aKoI5xQe";
    vault.set(&["AWS_ACCESS_KEY_ID", "--definition", definition], key);
    let told = "has no places, since the program's own signature is made anew where it stands";
    for (bound, fits) in [
        ("AWS_ACCESS_KEY_ID:body@s3.example.com", false),
        (
            "AWS_ACCESS_KEY_ID:header:Authorization@s3.example.com",
            false,
        ),
        ("AWS_ACCESS_KEY_ID@s3.example.com", true),
    ] {
        let answer = vault.gig(
            &[
                "test",
                "AWS_ACCESS_KEY_ID",
                "--url",
                "https://s3.example.com/",
                "--allow",
                "s3.example.com",
                "--secret",
                bound,
            ],
            "",
        );
        assert_eq!(answer.output.contains(told), !fits, "{bound}: {answer:?}");
        let mut run = Command::new(place::gig());
        run.args([
            "run",
            "--quiet",
            "--allow",
            "s3.example.com",
            "--secret",
            bound,
            "--",
            "/bin/true",
        ]);
        run.env("GIG_DATA_DIR", vault.file("gig"));
        let answer = super::answer(run, "");
        assert_eq!(answer.errors.contains(told), !fits, "{bound}: {answer:?}");
        assert_eq!(answer.status == 125, !fits, "{bound}: {answer:?}");
    }
}
