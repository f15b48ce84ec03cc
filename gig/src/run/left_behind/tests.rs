//! What is told, and what is not, of what git and shells run.

use super::*;

/// At a folder that the program may write.
fn looked(folder: &Path) -> LeftBehind {
    LeftBehind::look(&[Bind {
        source: folder.to_owned(),
        dest: "/w".into(),
        mode: BindMode::Rw,
    }])
}

#[tokio::test(start_paused = true)]
async fn a_look_at_what_is_left_is_waited_for_until_somebody_wants_an_end() {
    let never = std::future::pending::<()>;
    let changed = || vec![PathBuf::from("/w/.envrc")];
    assert_eq!(aside(changed, never()).await, Some(changed()));
    // One that does not end holds nobody up, whether a signal comes or none.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let looking = move || {
        ended.recv().ok();
        changed()
    };
    assert_eq!(aside(looking, std::future::ready(())).await, None);
    drop(end);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let looking = move || {
        ended.recv().ok();
        changed()
    };
    let waited = tokio::time::advance(PATIENCE + Duration::from_millis(1));
    assert_eq!(tokio::join!(aside(looking, never()), waited).0, None);
    drop(end);
}

#[test]
fn what_the_host_runs_by_itself_is_told_where_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), text).unwrap();
    };
    write(".git/HEAD", "ref: refs/heads/main\n");
    write(".git/hooks/pre-push", "true");
    write(
        ".git/config",
        "[core]\n\tpager = less\n[user]\n\tname = a\n",
    );
    write(".envrc", "export A=1");
    let bind = |mode| Bind {
        source: folder.path().to_owned(),
        dest: "/w".into(),
        mode,
    };
    let before = LeftBehind::look(&[bind(BindMode::Rw)]);
    let shown = LeftBehind::look(&[bind(BindMode::Ro)]);
    assert_eq!(before.changed(), Vec::<PathBuf>::new());
    // What runs nothing may change as it likes.
    write(
        ".git/config",
        "[core]\n\tpager = less\n[user]\n\tname = another\n[remote \"o\"]\n\turl = x\n",
    );
    write(".git/hooks/update.sample", "echo");
    write("src/main.rs", "fn main() {}");
    assert_eq!(before.changed(), Vec::<PathBuf>::new());
    write(".git/hooks/post-checkout", "evil");
    write(".git/hooks/pre-push", "more evil");
    write(
        ".git/config",
        "[Core] FSMonitor = evil\n[alias]\n\tst = \"!evil\"\n",
    );
    let expected = [
        ".git/config",
        ".git/hooks/post-checkout",
        ".git/hooks/pre-push",
    ];
    assert_eq!(before.changed(), expected.map(at));
    assert_eq!(shown.changed(), Vec::<PathBuf>::new());
    let told = words(&before.changed(), 4).unwrap();
    assert!(
        told.ends_with(".git/hooks/pre-push\"") && !told.contains("more"),
        "{told}"
    );
    // The same in another file is no change.
    let copy = at(".envrc.copy");
    fs::copy(at(".envrc"), &copy).unwrap();
    fs::rename(copy, at(".envrc")).unwrap();
    assert_eq!(before.changed(), expected.map(at));
    write(".envrc", "evil");
    write(".bashrc", "evil");
    let told = words(&before.changed(), 4).unwrap();
    assert!(told.ends_with("and 1 more"), "{told}");
    assert_eq!(words(&[], 4), None);
}

#[test]
fn a_repository_that_is_new_is_none_to_tell_of() {
    let folder = tempfile::tempdir().unwrap();
    let before = looked(folder.path());
    // As `git clone` leaves it.
    fs::create_dir_all(folder.path().join(".git/hooks")).unwrap();
    fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\t\
        logallrefupdates = true\n[remote \"origin\"]\n\turl = https://a.test/x.git\n\t\
        fetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\t\
        merge = refs/heads/main\n";
    fs::write(folder.path().join(".git/config"), config).unwrap();
    fs::write(folder.path().join(".git/hooks/pre-push.sample"), "x").unwrap();
    assert_eq!(before.changed(), Vec::<PathBuf>::new());
}

#[test]
fn however_it_is_said_what_git_may_run_is_told() {
    let evil = [
        ("config", "[core]\n\tbare = false # ]\n\tfsmonitor = evil\n"),
        ("config", "[pager]\n\tlog = evil\n"),
        ("config", "[core]\n\tbare = \\\n\tfalse\n"),
        ("config", "[include]\n\tpath = ../evil\n"),
        ("config", "[remote \"o\"] uploadpack = evil\n"),
        ("config", "[remote.o]\n\tproxy = evil\n"),
        ("config", "[diff \"a] = b\"]\n\ttextconv = evil\n"),
        ("config.worktree", "[core]\n\teditor = evil\n"),
        ("commondir", "../evil"),
        ("hooks/post-index-change", "evil"),
    ];
    for inside in [".git", "."] {
        for (name, text) in evil {
            let folder = tempfile::tempdir().unwrap();
            let git = folder.path().join(inside);
            fs::create_dir_all(git.join("hooks")).unwrap();
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            let before = looked(folder.path());
            fs::write(git.join(name), text).unwrap();
            assert_eq!(before.changed(), [git.join(name)], "{name}: {text}");
        }
    }
}

/// `git init` and `git clone` adopt what is there, and `git status` goes into each submodule.
#[test]
fn what_git_will_run_in_a_repository_to_come_or_in_a_submodule_is_told() {
    let evil = "[core]\n\tfsmonitor = evil\n";
    for (path, text) in [
        (".git/config", evil),
        (".git/hooks/pre-commit", "evil"),
        (".git/modules/s/config", evil),
        (".git/modules/s/hooks/post-checkout", "evil"),
        (".git/modules/lib/deep/er/config", evil),
        (".git/modules/s/modules/t/config", evil),
        (".git/worktrees/w/config.worktree", evil),
        ("sub/.git/config", evil),
        ("sub/.git", "gitdir: ../evil"),
        ("\"with space\"/.git/config", evil),
    ] {
        let path = path.replace('"', "");
        let folder = tempfile::tempdir().unwrap();
        let modules = "[submodule \"s\"]\n\tpath = sub\n\turl = x\n[submodule \"t\"]\n\tpath = \"with space\"\n\
            [submodule \"u\"]\n\tpath = /etc\n[submodule \"v\"]\n\tpath = ../beside\n";
        fs::write(folder.path().join(".gitmodules"), modules).unwrap();
        let before = looked(folder.path());
        let changed = folder.path().join(path);
        fs::create_dir_all(changed.parent().unwrap()).unwrap();
        fs::write(&changed, text).unwrap();
        assert_eq!(before.changed(), [changed]);
    }
}

/// Where there is more than is looked through, something could be hidden: that is told.
#[test]
fn more_than_is_looked_through_is_told() {
    type Fill = fn(&Path);
    let fills: [(&str, Fill); 3] = [
        (".git/worktrees", |folder| {
            for number in 0..=MOST_MODULES {
                fs::create_dir_all(folder.join(".git/worktrees").join(number.to_string())).unwrap();
            }
        }),
        (".gitmodules", |folder| {
            let lines: String = (0..=MOST_MODULES)
                .map(|n| format!("\tpath = s{n}\n"))
                .collect();
            fs::write(folder.join(".gitmodules"), lines).unwrap();
        }),
        (".gitmodules", |folder| {
            let blanks = usize::try_from(LONGEST).unwrap();
            fs::write(folder.join(".gitmodules"), "\n".repeat(blanks)).unwrap();
        }),
    ];
    for (told, fill) in fills {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".git")).unwrap();
        let before = looked(folder.path());
        fill(folder.path());
        assert_eq!(before.changed(), [folder.path().join(told)]);
    }
    // Samples, which git does not run, hide nothing.
    let folder = tempfile::tempdir().unwrap();
    let hooks = folder.path().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let mut look = Look {
        root: folder.path(),
        left: MOST_READ,
        folders: MOST_MODULES,
        includes: MOST_INCLUDED,
        entries: 1,
        listed: BTreeSet::new(),
        found: Vec::new(),
    };
    for number in 0..20 {
        fs::write(hooks.join(format!("{number}.sample")), "x").unwrap();
    }
    fs::write(hooks.join("pre-commit"), "evil").unwrap();
    look.entries(&hooks);
    let found: Vec<_> = look.found.iter().map(|(path, _)| path).collect();
    assert_eq!(found, [&hooks.join("pre-commit")]);
}

/// A file in the place of `.git` says where it is.
#[test]
fn what_git_runs_in_a_repository_that_lies_elsewhere_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".git"), "gitdir: ./.bare\n").unwrap();
    let before = looked(folder.path());
    let hook = folder.path().join("./.bare/hooks/pre-push");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "evil").unwrap();
    assert_eq!(before.changed(), [hook]);
}

/// A link in its place is followed as git follows it.
#[test]
fn what_git_runs_in_a_repository_that_a_link_leads_to_is_told() {
    for git in [".git", "sub/.git"] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at(".gitmodules"), "\tpath = sub\n").unwrap();
        for name in ["real/hooks", "sub"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("real"), at(git)).unwrap();
        let before = looked(folder.path());
        fs::write(at("real/config"), "[core]\n\tfsmonitor = evil\n").unwrap();
        fs::write(at("real/hooks/pre-push"), "evil").unwrap();
        let told = before.changed();
        for name in ["config", "hooks/pre-push"] {
            assert!(told.contains(&at(git).join(name)), "{git}: {told:?}");
        }
    }
}

/// A configuration takes in others, which may be files of the project.
#[test]
fn what_a_configuration_takes_in_is_told_where_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at(".git")).unwrap();
    let config =
        "[include]\n\tpath = ../shared.config # ours\n[includeIf \"onbranch:x\"]\n\tpath = more\n";
    fs::write(at(".git/config"), config).unwrap();
    fs::write(
        at("shared.config"),
        "[include]\n\tpath = .git/config\n[user]\n\tname = a\n",
    )
    .unwrap();
    let before = looked(folder.path());
    fs::write(
        at("shared.config"),
        "[core]\n\thooksPath = own ; x\n\tfsmonitor = evil\n",
    )
    .unwrap();
    fs::write(at(".git/more"), "[core]\n\tfsmonitor = evil\n").unwrap();
    fs::create_dir(at("own")).unwrap();
    fs::write(at("own/pre-push"), "evil").unwrap();
    let told = before.changed();
    for name in ["shared.config", ".git/more", "own/pre-push"] {
        let path = folder.path().canonicalize().unwrap().join(name);
        assert!(told.contains(&path), "{name}: {told:?}");
    }
    // One that takes itself in by ever another name, and ever more of them: it ends.
    let around =
        "[include]\n\tpath = ../.git/config\n\tpath = ../.git/../.git/config\n".repeat(1000);
    fs::write(at(".git/config"), around).unwrap();
    assert!(before.changed().contains(&at(".git/config")));
}

/// As git makes one for itself.
#[test]
fn a_submodule_that_is_new_is_none_to_tell_of() {
    let folder = tempfile::tempdir().unwrap();
    let before = looked(folder.path());
    let module = folder.path().join(".git/modules/s");
    fs::create_dir_all(module.join("hooks")).unwrap();
    fs::write(module.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ../../../s\n\
        [remote \"origin\"]\n\turl = https://a.test/s.git\n";
    fs::write(module.join("config"), config).unwrap();
    assert_eq!(before.changed(), Vec::<PathBuf>::new());
}

#[test]
fn hooks_are_told_where_the_configuration_has_them_and_links_by_what_they_lead_to() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for made in [".git/hooks", "own/hooks", "src"] {
        fs::create_dir_all(at(made)).unwrap();
    }
    fs::write(at(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(at(".git/config"), "[core]\n\thooksPath = own/hooks\n").unwrap();
    fs::write(at("src/check"), "true").unwrap();
    std::os::unix::fs::symlink("../../src/check", at(".git/hooks/pre-commit")).unwrap();
    // Opening one that nobody writes would wait, and who writes would be told of a reader.
    let fifo = rustix::fs::mknodat(
        CWD,
        at(".gitconfig"),
        rustix::fs::FileType::Fifo,
        Mode::RWXU,
        0,
    );
    fifo.unwrap();
    let before = looked(folder.path());
    assert_eq!(before.changed(), Vec::<PathBuf>::new());
    fs::write(at("src/check"), "true; evil").unwrap();
    fs::write(at("own/hooks/post-merge"), "evil").unwrap();
    let expected = [".git/hooks/pre-commit", "own/hooks/post-merge"].map(at);
    assert_eq!(before.changed(), expected);
}

#[test]
fn what_is_gone_and_what_is_shown_by_itself_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at(".git/hooks")).unwrap();
    fs::write(at(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(at(".git/hooks/pre-push"), "guard").unwrap();
    fs::write(at(".bashrc"), "").unwrap();
    let of = |name: &str| {
        let source = at(name);
        let (dest, mode) = ("/w".into(), BindMode::Rw);
        LeftBehind::look(&[Bind { source, dest, mode }])
    };
    let (git, hooks, shell) = (of(".git"), of(".git/hooks"), of(".bashrc"));
    fs::write(at(".bashrc"), "evil").unwrap();
    fs::remove_file(at(".git/hooks/pre-push")).unwrap();
    assert_eq!(git.changed(), [at(".git/hooks/pre-push")]);
    assert_eq!(hooks.changed(), [at(".git/hooks/pre-push")]);
    assert_eq!(shell.changed(), [at(".bashrc")]);
}

/// Whatever the links that a program lays lead to.
#[test]
fn nothing_is_read_beyond_the_folder_and_no_more_than_a_little() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at(".git")).unwrap();
    fs::write(at(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(other.path().join("secret"), "one").unwrap();
    let link = std::os::unix::fs::symlink::<&Path, PathBuf>;
    let hooks = format!("[core]\n\thooksPath = {}\n", other.path().display());
    fs::write(at(".git/config"), hooks).unwrap();
    link(other.path(), at(".git/hooks")).unwrap();
    link(other.path(), at(".config")).unwrap();
    link(&other.path().join("secret"), at(".bashrc")).unwrap();
    let source = folder.path().to_owned();
    let (dest, mode) = ("/w".into(), BindMode::Rw);
    let before = LeftBehind::look(&[Bind { source, dest, mode }]);
    let names: Vec<_> = before.before.keys().cloned().collect();
    assert_eq!(names, [".bashrc", ".git/config", ".git/hooks"].map(at));
    fs::write(other.path().join("secret"), "another").unwrap();
    fs::write(other.path().join("more"), "one").unwrap();
    assert_eq!(
        before.changed(),
        Vec::<PathBuf>::new(),
        "the program cannot write there"
    );
    let mut look = Look {
        root: folder.path(),
        left: 10,
        folders: 0,
        includes: 0,
        entries: 0,
        listed: BTreeSet::new(),
        found: Vec::new(),
    };
    fs::write(at(".profile"), "0123456789").unwrap();
    fs::write(at(".envrc"), "0").unwrap();
    look.file(&at(".profile"));
    look.file(&at(".envrc"));
    let [(_, State::Holds(..)), (_, State::Is(_))] = look.found.as_slice() else {
        panic!("{:?}", look.found);
    };
}

/// A home that had none of it: who logs in by a key is let in, and what runs at a login or beside it.
#[test]
fn what_a_home_is_given_that_lets_somebody_in_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let before = looked(folder.path());
    let mut expected = Vec::new();
    for name in [
        ".aws/config",
        ".cargo/bin/ls",
        ".config/systemd/user/default.target.wants/x.service",
        ".ssh/authorized_keys",
        ".ssh/config",
        ".ssh/rc",
    ] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), "evil").unwrap();
        expected.push(at(name));
    }
    assert_eq!(before.changed(), expected);
}
