//! Kinds of secrets with the SDKs that people use, unmodified, against origins that check signatures and
//! tokens as the real services do.
//!
//! Promises: each run is searched from the inside (variables, command lines, files, the client's own
//! memory) and from the outside (output, record, gig's log) for every value, in the forms that values
//! travel in; the search is shown to find what is there.

use std::{fmt::Write as _, io::Write as _, os::unix::process::CommandExt as _};
use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use aws_lc_rs::digest;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use gig_tests::lab::{
    Finished, Lab, Subject, fixture,
    network::{Side, text},
    place,
    service::Service,
};
use serde_json::Value;

mod aws;
mod compiled;
mod mutual;
mod refresh;
mod signed;
mod tokens;

/// A lab, a vault, and what must be found nowhere.
#[derive(Debug)]
struct Scene {
    lab: Lab,
    data: PathBuf,
    values: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let lab = Lab::new();
        let data = lab.home().join("vault");
        Self {
            lab,
            data,
            values: Vec::new(),
        }
    }

    /// `gig secret …` as the user that the run will be.
    fn secret(&self, words: &[&str], input: &str) {
        let mut command = Command::new(place::gig());
        command
            .arg("secret")
            .args(words)
            .env_clear()
            .env("GIG_DATA_DIR", &self.data);
        let user = self.lab.user();
        if !user.is_root() && rustix::process::geteuid().is_root() {
            command.uid(user.uid).gid(user.gid);
        }
        let _said = through(command, input);
    }

    /// Puts a secret of this definition into the vault. `values`: what of it must be found nowhere.
    fn keep(&mut self, name: &str, definition: &str, stored: &str, values: &[&str]) {
        let file = text(&self.lab.file("definition.yaml", definition));
        self.secret(&["set", name, "--definition", &file], stored);
        self.guard(values);
    }

    /// More that must be found nowhere.
    fn guard(&mut self, values: &[&str]) {
        self.values
            .extend(values.iter().map(|value| (*value).to_owned()));
    }

    /// A run whose secrets are those of the vault, with gig's log as loud as it can be.
    fn gig(&self) -> Subject<'_> {
        let wanted: Vec<String> = self.forms().iter().map(|form| search_for(form)).collect();
        self.lab
            .gig()
            .host_env("GIG_DATA_DIR", &text(&self.data))
            .host_env("GIG_LOG", "trace")
            .env("LAB_NOWHERE", &wanted.join(","))
    }

    /// Runs a Python script inside that has `nowhere()`.
    fn python(&self, subject: Subject<'_>, script: &str) -> Finished {
        let venv = place::client("venv");
        let python = text(&venv.join("bin/python"));
        let script = fixture::text("sdk/nowhere.py") + script + "\nnowhere()\n";
        let run = subject.read_only(&venv);
        self.check(run.run([python.as_str(), "-c", script.as_str()]))
            .says("looked everywhere")
    }

    /// Runs a fixture inside, in Node with its packages, that calls `nowhere()` at its end.
    fn node(&self, subject: Subject<'_>, script: &str) -> Finished {
        let modules = place::client("node");
        let subject = subject.read_only(&modules);
        let run = subject.env("NODE_PATH", &text(&modules.join("node_modules")));
        let script = fixture::text("sdk/nowhere.cjs") + &fixture::text(script);
        self.check(run.run(["node", "-e", &script]))
            .says("looked everywhere")
    }

    /// Success, and no value in anything that came out.
    fn check(&self, run: Finished) -> Finished {
        let out = run.text() + &run.error_text() + &run.audit.to_string();
        for (number, form) in self.forms().iter().enumerate() {
            assert!(!out.contains(form), "form {number} of a secret came out");
        }
        // gig's log is long; what the program complained about stands at its end.
        let errors = run.error_text();
        let tail = errors
            .char_indices()
            .rev()
            .nth(4000)
            .map_or(0, |(at, _)| at);
        assert_eq!(run.status, 0, "{}\n…{}", run.text(), &errors[tail..]);
        run
    }

    /// Every value as it is, in hexadecimal digits, and in base64 at each of its three alignments.
    fn forms(&self) -> Vec<String> {
        let mut forms = Vec::new();
        for value in &self.values {
            forms.push(value.clone());
            forms.push(hex(value.as_bytes()));
            for before in 0..3 {
                let shifted = [&b"..."[..before], value.as_bytes()].concat();
                let whole = STANDARD.encode(&shifted[..shifted.len() / 3 * 3]);
                let from = (before * 4).div_ceil(3);
                forms.push(whole[from..].to_owned());
            }
        }
        forms
    }
}

/// What `command` makes of `input`.
fn through(mut command: Command, input: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("start it");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(input.as_bytes()).expect("give the input");
    drop(stdin);
    let output = child.wait_with_output().expect("its end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// A beginning, a length and a digest: enough to find it by, too little to hold it.
fn search_for(form: &str) -> String {
    let octets = form.as_bytes();
    let beginning = &octets[..octets.len() / 2];
    let digest = digest::digest(&digest::SHA256, octets);
    format!(
        "{}:{}:{}",
        hex(beginning),
        octets.len(),
        hex(digest.as_ref())
    )
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _written = write!(text, "{octet:02x}");
        text
    })
}

/// A real service from `fixtures/sdk`, under `hosts`, all on one address at port 443.
fn serve(lab: &Lab, program: &str, hosts: &[&str], words: &[&str]) -> Service {
    let address = lab.address_for(hosts[0]);
    for host in hosts {
        lab.resolver.set(host, &[address]);
    }
    let leaf = lab.authority.leaf(hosts);
    let python = text(&place::client("venv").join("bin/python"));
    let mut server = lab.network.command(Side::Internet, &python);
    server
        .arg(fixture::path(program))
        .arg(address.to_string())
        .arg(lab.file("cert.pem", &leaf.certificate))
        .arg(lab.file("key.pem", &leaf.key))
        .args(words);
    let mut server = Service::start(server, lab.fresh_path("service.log"));
    server.wait_for(&lab.network, (address, 443).into());
    server
}

/// What a service has told, a JSON object a line.
fn told(service: &Service) -> Vec<Value> {
    let log = service.log();
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
