//! What stands beside the program. The files under `deploy/`: every policy that is shown to users is one
//! that gig takes, and does what its comments say. And the benchmark.

mod bench;
mod quickstart;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use gig_tests::lab::place;

fn examples() -> Vec<PathBuf> {
    let folder = place::repository().join("deploy/examples");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("deploy/examples")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    files
}

fn policy(words: &[&str]) -> Output {
    Command::new(place::gig())
        .arg("policy")
        .args(words)
        .output()
        .expect("run gig policy")
}

fn decide(example: &str, method: &str, url: &str) -> Option<i32> {
    let file = place::repository().join("deploy/examples").join(example);
    let file = file.to_str().expect("a path in UTF-8");
    policy(&["test", file, method, url]).status.code()
}

const ALLOWED: Option<i32> = Some(0);
const DENIED: Option<i32> = Some(1);

#[test]
fn every_example_policy_is_accepted() {
    let files = examples();
    assert!(files.len() >= 8, "only {files:?}");
    for file in files {
        let checked = policy(&["check", file.to_str().expect("a path in UTF-8")]);
        let said = String::from_utf8_lossy(&checked.stdout).into_owned()
            + &String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{}: {said}", file.display());
    }
}

#[test]
fn the_policy_shown_in_the_readme_is_accepted() {
    let readme = fs::read_to_string(place::repository().join("README.md")).expect("README.md");
    let mut shown = 0;
    for block in readme.split("```yaml\n").skip(1) {
        let text = block.split("```").next().expect("the end of a block");
        if !text.starts_with("version:") {
            continue;
        }
        shown += 1;
        let folder = place::scratch(place::User::of_this_run());
        let file = folder.path().join("policy.yaml");
        fs::write(&file, text).expect("write the policy");
        let checked = policy(&["check", file.to_str().expect("a path in UTF-8")]);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success(), "{said}");
    }
    assert!(shown > 0, "the README shows no whole policy");
}

#[test]
fn github_readonly_reads_one_organisation_and_pushes_nowhere() {
    let on = |method, url| decide("github-readonly.yaml", method, url);
    assert_eq!(
        on("GET", "https://api.github.com/repos/acme/app/issues"),
        ALLOWED
    );
    assert_eq!(
        on("POST", "https://api.github.com/repos/acme/app/issues"),
        DENIED
    );
    assert_eq!(on("GET", "https://api.github.com/repos/other/app"), DENIED);
    assert_eq!(
        on("POST", "https://github.com/acme/app/git-upload-pack"),
        ALLOWED
    );
    assert_eq!(
        on("POST", "https://github.com/acme/app/git-receive-pack"),
        DENIED
    );
}

#[test]
fn build_policies_fetch_and_do_not_send() {
    for (example, url) in [
        (
            "python-build.yaml",
            "https://pypi.corp.example/simple/requests/",
        ),
        ("node-build.yaml", "https://npm.corp.example/left-pad"),
        (
            "rust-build.yaml",
            "https://index.crates.corp.example/se/rd/serde",
        ),
    ] {
        assert_eq!(decide(example, "GET", url), ALLOWED, "{example}");
        assert_eq!(decide(example, "POST", url), DENIED, "{example}");
        assert_eq!(
            decide(example, "GET", "https://example.com/"),
            DENIED,
            "{example}"
        );
    }
}
