//! A host whose mounts are shared, as systemd leaves them: what is mounted for a sandbox is mounted there alone, and
//! what the host mounts later does not come in, where nothing hides what is in it.

use std::{fs, os::unix::fs::chown, path::Path};

use gig_tests::lab::{
    Lab,
    network::{Side, text},
};

/// A lab where mounts propagate.
fn lab() -> Lab {
    let lab = Lab::new();
    host(&lab, &["mount", "--make-rshared", "/"]);
    lab
}

fn host(lab: &Lab, words: &[&str]) -> String {
    let (program, words) = words.split_first().expect("a program");
    let mut command = lab.network.command(Side::Host, program);
    let output = command.args(words).output().expect("a program of the host");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

fn mounts(lab: &Lab) -> String {
    host(lab, &["cat", "/proc/self/mountinfo"])
}

/// A folder of the user's with a credential in it, and one two folders deep.
fn project(lab: &Lab) -> std::path::PathBuf {
    let folder = lab.folder("project");
    fs::create_dir_all(folder.join(".config/gcloud")).expect("folders");
    fs::create_dir(folder.join("later")).expect("a folder");
    for file in [".npmrc", ".config/gcloud/key"] {
        fs::write(folder.join(file), "TOKEN-OF-THE-HOST").expect("a credential");
    }
    let user = lab.user();
    let all = [
        "later",
        ".npmrc",
        ".config",
        ".config/gcloud",
        ".config/gcloud/key",
    ];
    for path in all.map(|path| folder.join(path)) {
        chown(path, Some(user.uid), Some(user.gid)).expect("give it to the user");
    }
    folder
}

#[test]
fn what_covers_credentials_inside_is_mounted_nowhere_else() {
    let lab = lab();
    let folder = project(&lab);
    let before = mounts(&lab);
    assert!(before.contains("shared:"), "{before}");
    for way in ["--ro", "--rw"] {
        let look = "cat .npmrc .config/gcloud/key; echo looked";
        let workdir = ["--workdir".as_ref(), folder.as_os_str()];
        let run = lab.gig().option([way.as_ref(), folder.as_os_str()]);
        let run = run.option(workdir).sh(look).says("looked");
        assert!(!run.text().contains("TOKEN-OF-THE-HOST"), "{run}");
        assert_eq!(mounts(&lab), before, "{way}");
    }
    // One mount in another.
    let other = lab.folder("other");
    let nested = format!("{}:{}", text(&other), text(&folder.join("later")));
    let run = lab.gig().option(["--rw".as_ref(), folder.as_os_str()]);
    let _run = run.option(["--ro", &nested]).run(["true"]).exits(0);
    assert_eq!(mounts(&lab), before, "nested");
    let kept = text(&folder.join(".npmrc"));
    assert_eq!(host(&lab, &["cat", &kept]), "TOKEN-OF-THE-HOST");
}

#[test]
fn what_the_host_mounts_later_does_not_come_in() {
    let lab = lab();
    let folder = project(&lab);
    let later = folder.join("later");
    for way in ["--ro", "--rw"] {
        let shown = text(&folder);
        let look = format!(
            "cd {shown}; echo up; for _ in $(seq 300); do [ -e go ] && break; sleep 0.1; done; [ -e go ] && echo went; \
             cat later/key; echo written >later/mark; true"
        );
        let run = lab.gig().option([way, &shown]);
        let mut live = run.start(["sh", "-c", &look]);
        live.wait_for("up");
        mount(&lab, &later);
        fs::write(folder.join("go"), "").expect("say so");
        let run = live.finish(std::time::Duration::from_secs(60)).says("went");
        assert!(!run.text().contains("KEY-THAT-CAME-LATER"), "{way}: {run}");
        let there = host(&lab, &["ls", &text(&later)]);
        assert_eq!(there, "key\n", "{way}: written to");
        host(&lab, &["umount", &text(&later)]);
        for left in ["go", "later/mark"] {
            let _absent = fs::remove_file(folder.join(left));
        }
    }
}

/// As a volume that is unlocked, or a share.
fn mount(lab: &Lab, at: &Path) {
    let at = text(at);
    host(
        lab,
        &["mount", "-t", "tmpfs", "-o", "mode=777", "volume", &at],
    );
    let script = format!("echo KEY-THAT-CAME-LATER >{at}/key; chmod 644 {at}/key");
    host(lab, &["sh", "-c", &script]);
}
