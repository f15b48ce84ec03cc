//! Another root file system: it is used, and it shows nothing but itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::lab::{Ended, Test, Who, everybody, give, own_directory, run};

pub(crate) const TESTS: &[Test] = &[
    ("another_root_is_used_and_cannot_be_written", used),
    ("links_of_another_root_lead_to_nothing_of_the_host", links),
    ("credentials_in_another_root_are_not_shown", credentials),
    ("a_home_is_refused_as_another_root", home),
];

/// Prints the first line of each file it is given, or a dash, and whether it
/// could write.
const SHOW: &str = r#"#include <stdio.h>
#include <fcntl.h>
int main(int argc, char **argv) {
    char line[99];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "r");
        puts(file && fscanf(file, "%98[^\n]", line) == 1 ? line : "-");
    }
    puts(open("/bin/new", O_CREAT | O_WRONLY, 0600) < 0 ? "fixed" : "wrote");
    return 0;
}
"#;

/// A root with that program, below a directory of whoever starts it.
fn root(who: Who) -> tempfile::TempDir {
    let dir = own_directory(who);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = dir.path().join("root");
    for name in ["bin", "etc/ssl/certs"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::write(root.join("etc/marker"), "another root\n").unwrap();
    fs::write(root.join("etc/resolv.conf"), "nameserver 8.8.8.8\n").unwrap();
    let code = dir.path().join("show.c");
    fs::write(&code, SHOW).unwrap();
    let built = Command::new("gcc")
        .args(["-static", "-o"])
        .args([&root.join("bin/show"), &code])
        .status()
        .unwrap();
    assert!(built.success());
    dir
}

fn show(who: Who, dir: &Path, files: &[&str]) -> Ended {
    let root = dir.join("root");
    let start = ["--rootfs", root.to_str().unwrap(), "--", "show"];
    run(who, &[&start, files].concat())
}

fn used() {
    for who in everybody() {
        let dir = root(*who);
        let ended = show(*who, dir.path(), &["/etc/marker", "/etc/resolv.conf"]);
        assert!(
            ended.out.starts_with("another root\nnameserver 10.200."),
            "{who:?} {ended:?}"
        );
        assert!(ended.out.ends_with("fixed\n"), "{ended:?}");
    }
}

/// Whoever made the root chose its links; gig may read what they lead to.
fn links() {
    const LINKS: [&str; 3] = [
        "etc/ssl/certs/ca-certificates.crt",
        "etc/ssl/openssl.cnf",
        "etc/linked",
    ];
    for who in everybody() {
        let dir = root(*who);
        let (key, root) = (dir.path().join("key"), dir.path().join("root"));
        fs::write(&key, "SECRET\n").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        give(*who, &key);
        let inside = LINKS.map(|link| format!("/{link}"));
        let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
        for target in [
            key.as_path(),
            Path::new("../../../../../key"),
            Path::new("/etc/passwd"),
        ] {
            for link in LINKS {
                // From wherever it lies, so many dots lead to the key or stay inside.
                fs::remove_file(root.join(link)).ok();
                symlink(target, root.join(link)).unwrap();
            }
            let ended = show(*who, dir.path(), &inside);
            assert_eq!(ended.code, Some(0), "{who:?}: {ended:?}");
            let host = fs::read_to_string("/etc/passwd").unwrap();
            let leaked = ended.out.contains("SECRET")
                || ended
                    .out
                    .lines()
                    .take(2)
                    .any(|line| host.lines().any(|own| own == line));
            assert!(!leaked, "{who:?} {}: {ended:?}", target.display());
        }
        fs::rename(root.join("etc"), dir.path().join("etc")).unwrap();
        for link in LINKS {
            fs::remove_file(dir.path().join(link)).unwrap();
            fs::write(dir.path().join(link), "SECRET\n").unwrap();
        }
        symlink(dir.path().join("etc"), root.join("etc")).unwrap();
        let ended = show(*who, dir.path(), &inside);
        assert!(
            ended.code == Some(0) && !ended.out.contains("SECRET"),
            "{who:?}: {ended:?}"
        );
    }
}

fn credentials() {
    const KEYS: [&str; 4] = [
        ".ssh/id",
        ".config/gcloud/key",
        "people/.aws/key",
        "etc/.kube/key",
    ];
    for who in everybody() {
        let dir = root(*who);
        for key in KEYS {
            let path = dir.path().join("root").join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "SECRET\n").unwrap();
        }
        fs::write(dir.path().join("root/people/open"), "open\n").unwrap();
        let files = KEYS.map(|key| format!("/{key}"));
        let files: Vec<&str> = files
            .iter()
            .map(String::as_str)
            .chain(["/people/open"])
            .collect();
        let ended = show(*who, dir.path(), &files);
        assert_eq!(ended.out, "-\n-\n-\n-\nopen\nfixed\n", "{who:?}: {ended:?}");
    }
}

fn home() {
    for who in everybody() {
        let dir = root(*who);
        let home = dir.path().join("root");
        for home in [home.join("srv/alice"), home.clone()] {
            fs::create_dir_all(&home).unwrap();
            let args = [
                "--rootfs",
                dir.path().join("root").to_str().unwrap(),
                "--",
                "show",
            ]
            .map(str::to_owned);
            let output = crate::lab::command(*who, &args)
                .env("HOME", &home)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{who:?}: {said}");
            assert!(said.contains("somebody's home"), "{who:?}: {said}");
        }
    }
}
