//! Secrets of the vault: set by one process, swapped in by another, gone with the next request once they
//! are revoked, and never readable in the process that holds them.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    os::unix::process::CommandExt as _,
    process::{ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use gig_audit::Event;
use gig_tests::lab::{
    Finished, Lab, Live, Subject,
    http_origin::{HttpOrigin, greet},
    network::text,
    place, skipped,
};

pub(super) const HOST: &str = "api.example.com";
const VALUE: &str = "vaulted-value-3kQ9xWv2";

/// `gig secret …` as the user that the run will be; gives what it says.
pub(super) fn secret(lab: &Lab, words: &[&str], input: &str) -> String {
    let mut command = Command::new(place::gig());
    command
        .arg("secret")
        .args(words)
        .env_clear()
        .env("GIG_DATA_DIR", data(lab))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let user = lab.user();
    if !user.is_root() && rustix::process::geteuid().is_root() {
        command.uid(user.uid).gid(user.gid);
    }
    let mut child = command.spawn().expect("start gig secret");
    std::io::Write::write_all(
        &mut child.stdin.take().expect("its input"),
        input.as_bytes(),
    )
    .expect("give the value");
    let said = child.wait_with_output().expect("its end");
    assert!(said.status.success(), "gig secret {words:?}");
    String::from_utf8(said.stdout).expect("UTF-8")
}

/// Where its vault is.
pub(super) fn data(lab: &Lab) -> String {
    lab.home().join("vault").to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_secret_of_the_vault_is_swapped_in_and_revoked_while_the_program_runs() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    secret(&lab, &["set", "TOKEN"], VALUE);
    let folder = lab.folder("shared");
    let shared = folder.to_str().expect("UTF-8").to_owned();
    let run = lab
        .gig()
        .allow(HOST)
        .host_env("GIG_DATA_DIR", &data(&lab))
        .option(["--secret", "TOKEN@api.example.com", "--rw", &shared])
        .start([
            "sh",
            "-c",
            "ask() { curl -sS -o /dev/null -w '%{http_code}\\n' -H \"X-Token: $TOKEN\" \
             https://api.example.com/; }; ask; touch \"$0/asked\"; \
             while [ ! -e \"$0/revoked\" ]; do sleep 0.1; done; ask; env",
            &shared,
        ]);
    while !folder.join("asked").exists() {
        std::thread::yield_now();
    }
    secret(&lab, &["rm", "TOKEN"], "");
    fs::write(folder.join("revoked"), "").expect("tell the program");
    let run = run.finish(Duration::from_secs(60)).success();
    let text = run.text();
    assert!(
        text.contains("TOKEN=gigph-") && !text.contains(VALUE),
        "{run}"
    );
    let answers: Vec<&str> = text.lines().take(2).collect();
    assert_eq!(answers[0], "200", "{run}");
    assert_ne!(answers[1], "200", "{run}");
    let requests = origin.requests();
    assert_eq!(requests.len(), 1, "{run}");
    assert_eq!(requests[0].field("x-token"), Some(VALUE));
}

#[test]
fn a_program_without_secrets_sends_no_value_of_the_vault() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let ask = "for t in harmless \"$1\"; do curl -sS -o /dev/null -w '%{http_code}\\n' \
               -H \"X-Token: $t\" https://api.example.com/; done";
    let run = || {
        let run = lab.gig().allow(HOST).host_env("GIG_DATA_DIR", &data(&lab));
        run.run(["sh", "-c", ask, "sh", VALUE]).success()
    };
    // Nobody's value yet, and no vault is made by asking.
    let before = run();
    assert_eq!(before.text(), "200\n200\n", "{before}");
    assert!(
        !std::path::Path::new(&data(&lab))
            .join("master.key")
            .exists()
    );
    secret(&lab, &["set", "TOKEN"], VALUE);
    let after = run();
    assert_eq!(after.text(), "200\n403\n", "{after}");
    assert_eq!(origin.requests().len(), 3, "{after}");
    let alarms: Vec<_> = after.audit.of(Event::SecretMisuse).collect();
    assert_eq!(alarms.len(), 1, "{after}");
    assert!(!format!("{:?}", after.audit).contains(VALUE), "{after}");
    // Nor does one whose secrets are all in the environment; and where it cannot look none is started.
    let run = lab.gig().allow(HOST).host_env("GIG_DATA_DIR", &data(&lab));
    let run = run.host_env("OTHER", "another-value-4tRn");
    let other = run.option(["--secret", "OTHER@api.example.com"]);
    let other = other.run(["sh", "-c", ask, "sh", VALUE]).success();
    assert_eq!(other.text(), "200\n403\n", "{other}");
    let run = lab.gig().allow(HOST).host_env("GIG_DATA_DIR", &data(&lab));
    let strange = run.host_env("GIG_MASTER_KEY", &"7a".repeat(32));
    let strange = strange.run(["sh", "-c", ask, "sh", "x"]);
    let told = strange.error_text();
    let words = [
        "values of the vault cannot be looked for",
        "sealed with master key",
    ];
    assert!(words.iter().all(|words| told.contains(words)), "{strange}");
    assert_eq!(strange.status, 125, "{strange}");
    assert_eq!(origin.requests().len(), 4, "{strange}");
}

/// Asks once for each line that it reads, always on the same connection.
const ASKING: &str = "import os, sys, httpx\n\
    c = httpx.Client(http2=sys.argv[1] == 'h2', timeout=90)\n\
    for n, line in enumerate(sys.stdin):\n \
     r = c.get('https://api.example.com/', headers={'X-Token': os.environ['TOKEN']})\n \
     print(f'{n}:{r.status_code}', flush=True)\n";

/// A program that asks when it is told to.
pub(super) struct Asking<'lab> {
    run: Live<'lab>,
    input: ChildStdin,
    asked: usize,
}

impl<'lab> Asking<'lab> {
    pub(super) fn start(subject: Subject<'lab>, version: &str) -> Self {
        let venv = place::client("venv");
        let python = text(&venv.join("bin/python"));
        let subject = subject.read_only(&venv);
        let mut run = subject.start([python.as_str(), "-c", ASKING, version]);
        let input = run.stdin().expect("its input");
        Self {
            run,
            input,
            asked: 0,
        }
    }

    /// The status of one request.
    pub(super) fn ask(&mut self) -> u16 {
        self.input.write_all(b"\n").expect("tell the program");
        let answer = format!("{}:", self.asked);
        self.run.wait_for(&answer);
        self.asked += 1;
        let output = self.run.output_so_far();
        let status = output.lines().find_map(|line| line.strip_prefix(&answer));
        status
            .and_then(|status| status.parse().ok())
            .expect("a status")
    }

    /// All of it went over one connection.
    pub(super) fn finish(self) -> Finished {
        drop(self.input);
        let run = self.run.finish(Duration::from_secs(60)).success();
        let requests = run.audit.of(Event::Request);
        let connections: BTreeSet<_> = requests.map(|entry| entry.conn).collect();
        assert_eq!(connections.len(), 1, "{run}");
        run
    }
}

pub(super) fn subject(lab: &Lab) -> Subject<'_> {
    let subject = lab.gig().allow(HOST).host_env("GIG_DATA_DIR", &data(lab));
    subject.option(["--secret", "TOKEN@api.example.com"])
}

/// The token of this request, counted from one. The origin tells of a request when it has answered it:
/// the program may be further already.
pub(super) fn sent(origin: &HttpOrigin, number: usize) -> String {
    let begun = Instant::now();
    loop {
        if let Some(request) = origin.requests().get(number - 1) {
            return request.field("x-token").unwrap_or_default().to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no such request");
        std::thread::yield_now();
    }
}

#[test]
fn a_revocation_holds_from_the_next_request_of_an_open_connection_over_either_http() {
    for version in ["h1", "h2"] {
        let lab = Lab::new();
        let origin = lab.https(HOST, greet);
        secret(&lab, &["set", "TOKEN"], VALUE);
        let mut asking = Asking::start(subject(&lab), version);
        assert_eq!(
            (asking.ask(), sent(&origin, 1).as_str()),
            (200, VALUE),
            "{version}"
        );
        secret(&lab, &["rotate", "TOKEN"], "another-vaulted-value");
        assert_eq!(
            (asking.ask(), sent(&origin, 2).as_str()),
            (200, "another-vaulted-value")
        );
        secret(&lab, &["rm", "TOKEN"], "");
        let seen = origin.requests().len();
        assert_eq!(asking.ask(), 502, "{version}");
        assert_eq!(asking.ask(), 502, "{version}");
        assert_eq!(origin.requests().len(), seen, "{version}");
        secret(&lab, &["set", "TOKEN"], "a-third-vaulted-value");
        assert_eq!(
            (asking.ask(), sent(&origin, 3).as_str()),
            (200, "a-third-vaulted-value")
        );
        let run = asking.finish();
        assert!(!run.text().contains("vaulted-value"), "{run}");
    }
}

#[test]
fn the_master_key_changes_while_a_program_runs() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    secret(&lab, &["set", "TOKEN"], VALUE);
    let mut asking = Asking::start(subject(&lab), "h1");
    assert_eq!(asking.ask(), 200);
    let mut asked = 1;
    let mut known = BTreeSet::new();
    // With a grace time, within it, and without: who runs learns the new key either way.
    for (grace, value) in [
        ("24h", "under-the-second-key"),
        ("24h", "under-the-third-key"),
        ("0s", "under-the-fourth-key"),
    ] {
        let said = secret(&lab, &["rotate", "--master", "--grace", grace], "");
        assert!(known.insert(said), "it is another key each time");
        assert_eq!(asking.ask(), 200, "{grace}");
        secret(&lab, &["rotate", "TOKEN"], value);
        assert_eq!(asking.ask(), 200, "{grace}");
        asked += 2;
        assert_eq!(sent(&origin, asked), value, "{grace}");
    }
    let _run = asking.finish();
}

#[test]
fn a_program_goes_on_when_the_passphrase_changes_and_the_next_needs_the_new_one() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let old = text(&lab.file("old", "correct horse battery staple\n"));
    let new = text(&lab.file("new", "incorrect cow capacitor nail\n"));
    secret(
        &lab,
        &["set", "TOKEN", "--custody", "--passphrase-file", &old],
        VALUE,
    );
    let with = |file: &str| subject(&lab).option(["--passphrase-file", file]);
    let mut asking = Asking::start(with(&old), "h1");
    assert_eq!(asking.ask(), 200);
    let change = ["rotate", "--passphrase", "--passphrase-file", &old];
    secret(
        &lab,
        &[&change[..], &["--new-passphrase-file", &new]].concat(),
        "",
    );
    assert_eq!(asking.ask(), 200);
    let _run = asking.finish();
    let run = with(&old).run(["true"]);
    let _run = run.exits(125).complains("passphrase is wrong");
    let _run = with(&new).run(["true"]).success();
}

/// The limit is reached by the values themselves, long after gig began to work with them.
#[test]
fn what_cannot_be_kept_out_of_swap_is_not_handed_out() {
    let lab = Lab::new();
    if lab.user().is_root() {
        skipped("nothing limits what root locks");
        return;
    }
    let origin = lab.https(HOST, greet);
    let mut options = Vec::new();
    for number in 1..=8 {
        let name = format!("BIG{number}");
        secret(&lab, &["set", &name], &format!("{number}v").repeat(15_000));
        options.extend(["--secret".to_owned(), format!("{name}@{HOST}")]);
    }
    let run = |swappable: &str| {
        let run = lab.gig().allow(HOST).host_env("GIG_DATA_DIR", &data(&lab));
        let run = run.host_env("GIG_SWAPPABLE_SECRETS", swappable);
        let run = run.under(["prlimit", "--memlock=65536:65536"]);
        run.option(options.clone())
            .sh("curl -sS -o /dev/null -w '%{http_code}' -d a=$BIG1 https://api.example.com/")
    };
    let _refused = run("")
        .exits(125)
        .complains("secrets cannot be kept out of swap");
    assert!(origin.requests().is_empty());
    assert_eq!(run("yes").success().text(), "200");
}
