//! What is hidden in a writable mount stays where it is: whoever could move the folder above it
//! would leave the secret under a name that the next sandbox is shown, or a record of its own making
//! where the true one was.

use std::{fs, time::Duration};

use gig_tests::lab::{Lab, network::text};

#[test]
fn folders_above_hidden_ones_cannot_be_moved_away() {
    let lab = Lab::new();
    let home = lab.home();
    let hidden = [".config/gcloud", ".local/share/keyrings"];
    for folder in hidden {
        fs::create_dir_all(home.join(folder)).expect("make a folder");
        fs::write(home.join(folder).join("key"), "PRIVATE-KEY").expect("write a key");
    }
    let path = text(&home);
    let bound = |script: &str| {
        lab.gig()
            .option(["--rw", &path])
            .sh(&format!("cd {path} && {script}"))
    };
    let moving = "import os\n\
        for old, new in ((\".config\", \"a\"), (\".local\", \"b\"), (\".local/share\", \"c\")):\n\
        \x20try: os.rename(old, new); print(\"MOVED\")\n\
        \x20except OSError as error: print(\"refused:\", error.strerror)";
    let first = bound(&format!("/usr/bin/python3 -c '{moving}'"));
    assert!(!first.text().contains("MOVED"), "{first}");
    let _first = first.says("refused:");
    let second = bound("grep -r . . 2>&1");
    assert!(!second.text().contains("PRIVATE-KEY"), "{second}");
}

/// Hooks, say, that the host runs.
#[test]
fn folders_above_what_is_shown_read_only_cannot_be_moved_away() {
    let lab = Lab::new();
    let folder = lab.folder("project");
    let kept = folder.join(".git/hooks");
    fs::create_dir_all(&kept).expect("make folders");
    fs::write(kept.join("pre-commit"), "true").expect("write a hook");
    let user = lab.user();
    for made in [".git", ".git/hooks", ".git/hooks/pre-commit"] {
        let made = folder.join(made);
        std::os::unix::fs::chown(made, Some(user.uid), Some(user.gid)).expect("give it away");
    }
    let run = lab.gig().option(["--rw", &text(&folder)]);
    let run = run.option(["--ro", &text(&kept)]).sh(&format!(
        "cd {} && touch .git/index && echo writable; mv .git away && mkdir -p .git/hooks; \
         echo evil >.git/hooks/pre-commit; true",
        text(&folder)
    ));
    let run = run.says("writable");
    let hook = fs::read_to_string(kept.join("pre-commit")).expect("the hook");
    assert_eq!(hook, "true", "{run}");
}

/// The kernel lifts a mount whose place somebody else renames over: the program is ended before it writes there.
#[test]
fn what_is_shown_read_only_and_replaced_by_the_host_ends_the_program() {
    let lab = Lab::new();
    let (folder, marks) = (lab.folder("project"), lab.folder("marks"));
    let config = folder.join("config");
    let user = lab.user();
    for (name, text) in [("config", "ours"), ("config.lock", "theirs")] {
        fs::write(folder.join(name), text).expect("write a file");
        std::os::unix::fs::chown(folder.join(name), Some(user.uid), Some(user.gid))
            .expect("give it away");
    }
    let (path, marks) = (text(&folder), text(&marks));
    let run = lab.gig().option(["--rw", &path]).option(["--rw", &marks]);
    let run = run.option(["--ro", &text(&config)]);
    let script = format!(
        "echo evil >>{path}/config; echo begun; until [ -e {marks}/changed ]; do sleep 0.1; done; sleep 2; \
         echo evil >>{path}/config; echo THE END"
    );
    let mut live = run.start(["sh", "-c", &script]);
    live.wait_for("begun");
    fs::rename(folder.join("config.lock"), &config).expect("write it anew");
    fs::write(format!("{marks}/changed"), "").expect("say so");
    let run = live.finish(Duration::from_secs(30)).exits(137);
    assert!(!run.text().contains("THE END"), "{run}");
    assert!(run.error_text().contains("shown read-only"), "{run}");
    assert_eq!(fs::read_to_string(&config).expect("the file"), "theirs");
}

/// A program may write there; what comes of it later is for a person to see.
#[test]
fn what_a_program_leaves_for_the_host_to_run_is_told_and_recorded() {
    let lab = Lab::new();
    let folder = lab.folder("project");
    let path = text(&folder);
    let run = lab.gig().option(["--rw", &path]).sh(&format!(
        "cd {path} && mkdir -p .git/hooks && echo ref: refs/heads/main >.git/HEAD && echo evil >.git/hooks/post-checkout && echo x >file"
    ));
    let hook = format!("\"{path}/.git/hooks/post-checkout\"");
    let run = run.exits(0).complains(&format!(
        "what this host runs by itself was changed during the run: {hook};"
    ));
    let ended = run
        .audit
        .of(gig_audit::Event::SandboxExit)
        .next()
        .expect("its end");
    let finding = format!("changed during the run, and run by the host itself: {hook}");
    assert!(
        ended.findings.iter().any(|one| **one == *finding),
        "{ended:?}"
    );
    let run = lab
        .gig()
        .option(["--rw", &path])
        .sh(&format!("echo y >{path}/file"));
    assert!(!run.exits(0).error_text().contains("by itself"));
}

#[test]
fn the_record_cannot_be_exchanged_for_another() {
    let lab = Lab::new();
    let folder = lab.home().join("work");
    let records = folder.join("records");
    fs::create_dir_all(&records).expect("make a folder");
    let user = lab.user();
    for made in [&folder, &records] {
        std::os::unix::fs::chown(made, Some(user.uid), Some(user.gid)).expect("give it away");
    }
    let path = text(&folder);
    let run = lab
        .gig()
        .option(["--rw", &path])
        .recording_to(&records.join("audit"))
        .sh(&format!(
            "cd {path}; mv records away && mkdir records && echo FORGED; echo forged >records/audit; \
             rm -f records/audit; true"
        ));
    assert!(!run.text().contains("FORGED"), "{run}");
    let begun = run.audit.of(gig_audit::Event::SandboxStart).count();
    assert_eq!(begun, 1, "{run}");
}
