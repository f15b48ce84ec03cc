//! Which binds are taken, which refused, what is masked in them.

use std::os::unix::fs::symlink;

use super::*;
use crate::layers::mounts::Frame;
use crate::spec::BindMode;

fn bind(source: &Path, dest: &str) -> Bind {
    Bind {
        source: source.to_owned(),
        dest: dest.into(),
        mode: BindMode::Rw,
    }
}

fn home() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(dir.path()).unwrap().join("alice");
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::create_dir_all(home.join(".config/gcloud/deep")).unwrap();
    fs::create_dir_all(home.join("project")).unwrap();
    fs::write(home.join(".git-credentials"), "secret").unwrap();
    (dir, home)
}

fn masked(source: &Path, hidden: &Hidden) -> Vec<PathBuf> {
    let vetted = vet(&[bind(source, "/work")], hidden).unwrap();
    vetted[0]
        .masks
        .iter()
        .map(|mask| mask.below.clone())
        .collect()
}

#[test]
fn credentials_below_a_bound_home_are_covered() {
    let (_dir, home) = home();
    let hidden = Hidden::of_homes(&[&home]);
    let found = masked(&home, &hidden);
    assert_eq!(
        found,
        [".config/gcloud", ".git-credentials", ".ssh"].map(PathBuf::from)
    );
}

#[test]
fn credentials_are_covered_when_only_a_parent_of_homes_is_bound() {
    let (_dir, home) = home();
    let found = masked(home.parent().unwrap(), &Hidden::default());
    assert!(found.contains(&PathBuf::from("alice/.ssh")), "{found:?}");
}

#[test]
fn a_linked_credential_directory_is_covered_where_it_really_is() {
    let (_dir, home) = home();
    let keys = home.join("project/keys");
    fs::create_dir(&keys).unwrap();
    symlink(&keys, home.join(".aws")).unwrap();
    let found = masked(&home.join("project"), &Hidden::of_homes(&[&home]));
    assert_eq!(found, [PathBuf::from("keys")]);
}

#[test]
fn a_credential_directory_is_refused_by_whatever_name() {
    let (_dir, home) = home();
    let link = home.join("project/innocent");
    symlink(home.join(".ssh"), &link).unwrap();
    let hidden = Hidden::of_homes(&[&home]);
    for source in [
        home.join(".ssh"),
        link,
        home.join("project/../.ssh"),
        home.join(".config/gcloud/deep"),
    ] {
        let refused = vet(&[bind(&source, "/work")], &hidden);
        assert!(
            matches!(refused, Err(RefuseBindError::Credential { .. })),
            "{source:?}"
        );
    }
    let refused = vet(&[bind(&home.join(".git-credentials"), "/c")], &hidden);
    assert!(matches!(refused, Err(RefuseBindError::Credential { .. })));
}

#[test]
fn a_credential_directory_of_an_unlisted_home_is_refused() {
    let (_dir, home) = home();
    let refused = vet(&[bind(&home.join(".ssh"), "/work")], &Hidden::default());
    assert!(matches!(refused, Err(RefuseBindError::Credential { .. })));
}

#[test]
fn the_host_and_its_kernel_are_refused() {
    for source in [
        "/",
        "/proc",
        "/proc/self/root",
        "/sys",
        "/dev",
        "/dev/null",
        "/usr/..",
    ] {
        let refused = vet(&[bind(Path::new(source), "/work")], &Hidden::default());
        assert!(
            matches!(refused, Err(RefuseBindError::Host { .. })),
            "{source}"
        );
    }
}

#[test]
fn gigs_own_paths_are_refused_and_covered_below_a_parent() {
    let (_dir, home) = home();
    let data = home.join("project");
    let hidden = Hidden::read(std::slice::from_ref(&data));
    let refused = vet(&[bind(&data, "/work")], &hidden);
    assert!(matches!(refused, Err(RefuseBindError::Private { .. })));
    assert!(masked(&home, &hidden).contains(&PathBuf::from("project")));
}

/// A mask of its own inside would be kept in place by a mount that shows the directory around it.
#[test]
fn what_lies_in_a_hidden_directory_is_hidden_with_it_alone() {
    let (_dir, home) = home();
    let data = home.join("project");
    for name in ["master.key", "gig.db", "control.sock"] {
        fs::write(data.join(name), "").unwrap();
    }
    let masked = |hidden: &Hidden| masked(&home, hidden);
    let inside = Path::new("project/master.key").to_owned();
    let masked_now = masked(&Hidden::read(std::slice::from_ref(&data)));
    assert!(masked_now.contains(&PathBuf::from("project")));
    assert!(!masked_now.contains(&inside), "{masked_now:?}");
    // Another gig's is known by its database.
    assert_eq!(masked(&Hidden::default()), masked_now);
    fs::remove_file(data.join("gig.db")).unwrap();
    assert!(masked(&Hidden::default()).contains(&inside));
}

#[test]
fn another_gigs_folder_is_hidden_whole_and_refused() {
    let (_dir, home) = home();
    let data = home.join("project");
    fs::create_dir(data.join("gig-runs")).unwrap();
    fs::write(data.join("gig.db"), "").unwrap();
    for source in [data.clone(), data.join("gig-runs")] {
        let refused = vet(&[bind(&source, "/work")], &Hidden::default());
        assert!(matches!(refused, Err(RefuseBindError::Credential { .. })));
    }
}

fn framed(source: &Path, home: &Path) -> Option<Frame> {
    let bind = Bind {
        mode: BindMode::Ro,
        ..bind(source, "/h")
    };
    let vetted = vet(&[bind], &Hidden::of_homes(&[home])).unwrap();
    vetted.into_iter().next()?.frame
}

fn pieces(frame: &Frame) -> Vec<&Path> {
    let all = frame.pieces.iter().flat_map(|piece| {
        let inner = piece.frame.iter().flat_map(pieces);
        [piece.dest.as_path()].into_iter().chain(inner)
    });
    all.collect()
}

#[test]
fn a_home_to_be_read_is_made_of_what_is_no_credential() {
    let (_dir, home) = home();
    fs::create_dir(home.join(".config/app")).unwrap();
    // One that leads nowhere yet may lead somewhere later.
    symlink("project/later", home.join(".netrc")).unwrap();
    symlink("project", home.join("work")).unwrap();
    fs::write(home.join("project/keys"), "").unwrap();
    symlink("project/keys", home.join(".npmrc")).unwrap();
    let frame = framed(&home, &home).unwrap();
    let expected = ["/h/.config", "/h/.config/app", "/h/project"];
    assert_eq!(pieces(&frame), expected.map(Path::new));
    assert_eq!(frame.links, [("work".into(), "project".into())]);
    assert_eq!(frame.pieces[1].masks.len(), 1, "where the link leads");
    let parent = framed(home.parent().unwrap(), &home).unwrap();
    assert!(pieces(&parent).contains(&Path::new("/h/alice/project")));
    assert!(!pieces(&parent).contains(&Path::new("/h/alice/.ssh")));
    let config = framed(&home.join(".config"), &home).unwrap();
    assert_eq!(pieces(&config), [Path::new("/h/app")]);
    assert_eq!(framed(&home.join("project"), &home), None);
}

#[test]
fn a_place_with_dots_or_none_is_refused() {
    let (_dir, home) = home();
    for dest in ["/", "work", "/a/../..", "/a/../etc", "", "./a"] {
        let refused = vet(&[bind(&home.join("project"), dest)], &Hidden::default());
        assert!(
            matches!(refused, Err(RefuseBindError::Destination { .. })),
            "{dest}"
        );
    }
}

#[test]
fn a_place_behind_a_link_in_another_mount_is_refused() {
    let (_dir, home) = home();
    symlink("/", home.join("project/out")).unwrap();
    let binds = [
        bind(&home.join("project"), "/work"),
        bind(&home.join(".config"), "/work/out/x"),
    ];
    let refused = vet(&binds, &Hidden::default());
    assert!(
        matches!(refused, Err(RefuseBindError::Link { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_path_that_is_not_there_is_named() {
    let refused = vet(&[bind(Path::new("/no/such"), "/work")], &Hidden::default());
    assert!(refused.unwrap_err().to_string().contains("/no/such"));
}

#[test]
fn a_place_in_another_root_is_not_led_out_of_it() {
    let (_dir, home) = home();
    let root = home.with_file_name("root");
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::create_dir_all(root.join("etc/deep")).unwrap();
    symlink("usr/bin", root.join("bin")).unwrap();
    symlink("/usr", root.join("etc/link")).unwrap();
    for out in ["out", "tmp", "usr/out", "etc/deep/out"] {
        symlink("/oldroot/home", root.join(out)).unwrap();
    }
    symlink("out", root.join("twice")).unwrap();
    symlink("../alice", root.join("up")).unwrap();
    fs::create_dir_all(root.join("var/lib")).unwrap();
    for out in ["var/lib/out", "home", "app"] {
        symlink("/oldroot/home", root.join(out)).unwrap();
    }
    let folder = OtherRoot::vet(&root, &Hidden::default()).unwrap();
    let image = OtherRoot::of_image(&root).unwrap();
    let led = |root: &OtherRoot, dest: &str| {
        let binds = vet(&[bind(&home.join("project"), dest)], &Hidden::default()).unwrap();
        refuse_led_out(&binds, root).is_err()
    };
    let led_out = |dest: &str| led(&folder, dest);
    // An image has something there, another folder nothing.
    for dest in ["/var/lib/out/x", "/home/x", "/app/x"] {
        assert!(led(&image, dest) && !led_out(dest), "{dest}");
    }
    assert!(!led(&image, "/tmp/x"));
    for dest in [
        "/out",
        "/out/x",
        "/usr/out/x",
        "/etc/deep/out/x",
        "/twice/x",
        "/up/x",
    ] {
        assert!(led_out(dest), "{dest}");
    }
    for dest in [
        "/bin/x",
        "/usr/new",
        "/etc/link",
        "/etc/link/x",
        "/tmp/x",
        "/new/x",
    ] {
        assert!(!led_out(dest), "{dest}");
    }
}

#[test]
fn the_folder_of_a_gig_that_has_records_alone_is_covered() {
    let (_dir, home) = home();
    let runs = home.join("project/audit/runs");
    fs::create_dir_all(&runs).unwrap();
    fs::write(runs.join("notes.jsonl"), "").unwrap();
    let hidden = Hidden::of_homes(&[]);
    let project = PathBuf::from("project");
    assert!(!masked(&home, &hidden).contains(&project));
    let record = "2026-11-21-01a1fe3e-133f-71de-b093-b20866f83eaf.jsonl";
    fs::write(runs.join(record), "").unwrap();
    assert!(masked(&home, &hidden).contains(&project));
    let refused = vet(&[bind(&runs, "/work")], &hidden);
    assert!(matches!(refused, Err(RefuseBindError::Credential { .. })));
}

#[test]
fn sockets_by_another_name_and_fifos_to_be_read_are_covered() {
    use rustix::fs::{FileType, mknodat};
    let (_dir, home) = home();
    let project = home.join("project");
    let _listener = std::os::unix::net::UnixListener::bind(home.join("before")).unwrap();
    fs::rename(home.join("before"), project.join("now")).unwrap();
    mknodat(CWD, project.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let hidden = Hidden::of_homes(&[]);
    assert_eq!(masked(&project, &hidden), [PathBuf::from("now")]);
    let mut read = bind(&project, "/work");
    read.mode = BindMode::Ro;
    let vetted = vet(&[read], &hidden).unwrap();
    let found: Vec<_> = vetted[0]
        .masks
        .iter()
        .map(|mask| mask.below.clone())
        .collect();
    assert_eq!(found, ["fifo", "now"].map(PathBuf::from));
}
