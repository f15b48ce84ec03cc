//! Secrets of the vault: set by one process, swapped in by another, gone with the next request once they
//! are revoked, and never readable in the process that holds them.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use gig_tests::lab::{Lab, http_origin::greet, place};

const HOST: &str = "api.example.com";
const VALUE: &str = "vaulted-value-3kQ9xWv2";

/// `gig secret …` as the user that the run will be.
pub(super) fn secret(lab: &Lab, words: &[&str], input: &str) {
    let mut command = Command::new(place::gig());
    command
        .arg("secret")
        .args(words)
        .env_clear()
        .env("GIG_DATA_DIR", data(lab))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
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
    assert!(
        child.wait().expect("its end").success(),
        "gig secret {words:?}"
    );
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
    let run = run.finish(std::time::Duration::from_secs(60)).success();
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
