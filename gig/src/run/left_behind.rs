//! What a program leaves in a folder that it may write, and that this host runs later by itself: git's hooks and what
//! its configuration runs, a shell's beginnings, an editor's tasks. Told at the end of a run.
//!
//! Known by name and by what is seen of a file from outside; of git's configuration by every line that is not known to
//! run nothing. Nothing is kept from the program, and what runs something by another name is not found: who wants that
//! kept shows it read-only (`--ro .git`).

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gig_sandbox::{Bind, BindMode};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// What was there at the start.
#[derive(Debug)]
pub(super) struct LeftBehind {
    folders: Vec<PathBuf>,
    before: BTreeMap<PathBuf, State>,
}

/// How a file is known again.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Which one it is, its size and when it was changed; and the same of what it leads to, where it is a link.
    File([i64; 5], Option<[i64; 5]>),
    /// The lines of a git configuration that may run something.
    Runs(Vec<String>),
}

impl LeftBehind {
    /// Looks before the program starts.
    pub(super) fn look(binds: &[Bind]) -> Self {
        let writable = binds.iter().filter(|bind| bind.mode == BindMode::Rw);
        let folders: Vec<PathBuf> = writable.map(|bind| bind.source.clone()).collect();
        let before = folders.iter().flat_map(|folder| seen(folder)).collect();
        Self { folders, before }
    }

    /// What is new or another now, in the order of its names.
    pub(super) fn changed(&self) -> Vec<PathBuf> {
        let now = self.folders.iter().flat_map(|folder| seen(folder));
        let now: BTreeMap<PathBuf, State> = now.collect();
        let changed = now.into_iter().filter(|(path, state)| {
            let runs_nothing = matches!(state, State::Runs(lines) if lines.is_empty());
            !runs_nothing && self.before.get(path) != Some(state)
        });
        changed.map(|(path, _)| path).collect()
    }
}

/// At most so many of them by name; `None` where there is nothing to tell.
pub(super) fn words(changed: &[PathBuf], most: usize) -> Option<String> {
    if changed.is_empty() {
        return None;
    }
    let named = changed.iter().take(most);
    let names: Vec<String> = named.map(|path| path.display().to_string()).collect();
    let mut names = names.join(", ");
    if let Some(more @ 1..) = changed.len().checked_sub(most) {
        names += &format!(" and {more} more");
    }
    Some(names)
}

fn seen(folder: &Path) -> Vec<(PathBuf, State)> {
    let mut found = Vec::new();
    for name in FILES {
        found.extend(file(folder.join(name)));
    }
    for name in FOLDERS {
        found.extend(entries(&folder.join(name)));
    }
    found.extend(configuration(&folder.join(".gitconfig")).1);
    found.extend(configuration(&folder.join(".config/git/config")).1);
    // The folder may be git's own, or a repository without a working tree.
    for git in [folder.join(".git"), folder.to_owned()] {
        if git.join("HEAD").symlink_metadata().is_ok() {
            found.extend(repository(folder, &git));
        }
    }
    found
}

/// What git runs, and where it looks for it.
fn repository(folder: &Path, git: &Path) -> Vec<(PathBuf, State)> {
    let mut found = Vec::new();
    for name in ["commondir", "gitdir"] {
        found.extend(file(git.join(name)));
    }
    found.extend(entries(&git.join("hooks")));
    for name in ["config", "config.worktree"] {
        let (hooks, state) = configuration(&git.join(name));
        found.extend(state);
        found.extend(
            hooks
                .into_iter()
                .flat_map(|hooks| entries(&folder.join(hooks))),
        );
    }
    found
}

fn file(path: PathBuf) -> Option<(PathBuf, State)> {
    let own = path.symlink_metadata().ok().filter(|own| !own.is_dir())?;
    let leads_to = own.is_symlink().then(|| path.metadata().ok()).flatten();
    let state = State::File(numbers(&own), leads_to.as_ref().map(numbers));
    Some((path, state))
}

/// What lies in a folder whose files are run.
fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, State)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(MOST_ENTRIES).map(|entry| entry.path());
    // git writes samples into each repository, and runs none.
    let run = paths.filter(|path| path.extension().is_none_or(|end| end != "sample"));
    run.filter_map(file)
}

fn numbers(file: &Metadata) -> [i64; 5] {
    [
        file.ino().cast_signed(),
        file.size().cast_signed(),
        file.ctime(),
        file.ctime_nsec(),
        i64::from(file.mode()),
    ]
}

/// The folder of hooks that it names, and what is known of it: what it may run, and of a link or what is too long which
/// one it is.
fn configuration(path: &Path) -> (Option<PathBuf>, Option<(PathBuf, State)>) {
    let text = path.symlink_metadata().ok().filter(Metadata::is_file);
    let Some(text) = text.and_then(|_| read(path)) else {
        return (None, file(path.to_owned()));
    };
    let (mut lines, mut hooks, mut section) = (Vec::new(), None, String::new());
    for line in text.lines() {
        let mut setting = line.trim();
        if let Some((name, rest)) = setting
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            // `[remote "origin"]`: what is quoted is a name.
            let name = name.split([' ', '"', '.']).next().unwrap_or_default();
            (section, setting) = (name.to_ascii_lowercase(), rest.trim());
        }
        if setting.is_empty() || setting.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let key = key.trim().to_ascii_lowercase();
        if section == "core" && key == "hookspath" {
            hooks = Some(PathBuf::from(value.trim().trim_matches('"')));
        }
        let known = RUN_NOTHING.iter().find(|(name, _)| *name == section);
        if !known.is_some_and(|(_, keys)| keys.contains(&key.as_str())) || setting.ends_with('\\') {
            lines.push(format!("{section}.{setting}"));
        }
    }
    (hooks, Some((path.to_owned(), State::Runs(lines))))
}

/// A file's text; `None` where it is none any more or too long.
fn read(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    let length = file.metadata().ok().filter(Metadata::is_file)?.len();
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    (length < LONGEST).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Below a folder that the program may write, a project or a home. `.git` itself where it is a file: it says where the
/// repository is.
const FILES: [&str; 22] = [
    ".git",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".config/fish/config.fish",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".idea/workspace.xml",
    ".mcp.json",
    ".cursor/mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".pre-commit-config.yaml",
    ".devcontainer/devcontainer.json",
];
/// Whose entries are run.
const FOLDERS: [&str; 6] = [
    ".githooks",
    ".husky",
    ".husky/_",
    ".config/autostart",
    ".config/systemd/user",
    ".config/fish/conf.d",
];
/// Sections and keys of git-config(1) that run no program and name no file with settings: what git itself writes where a
/// repository is made, cloned and branched.
const RUN_NOTHING: [(&str, &[&str]); 7] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
        ],
    ),
    ("user", &["name", "email"]),
    (
        "remote",
        &[
            "url",
            "pushurl",
            "fetch",
            "push",
            "tagopt",
            "mirror",
            "prune",
            "promisor",
            "partialclonefilter",
        ],
    ),
    (
        "branch",
        &["remote", "merge", "rebase", "description", "pushremote"],
    ),
    ("submodule", &["url", "active", "branch"]),
    (
        "extensions",
        &["objectformat", "partialclone", "worktreeconfig"],
    ),
    ("init", &["defaultbranch"]),
];
/// Of a configuration.
const LONGEST: u64 = 1 << 20;
/// Of a folder.
const MOST_ENTRIES: usize = 1 << 16;
/// For a person, and for the record.
pub(super) const MOST_TOLD: usize = 4;
pub(super) const MOST_RECORDED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

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
            told.ends_with(".git/hooks/pre-push") && !told.contains("more"),
            "{told}"
        );
        write(".envrc", "evil");
        write(".bashrc", "evil");
        let told = words(&before.changed(), 4).unwrap();
        assert!(told.ends_with("and 1 more"), "{told}");
        assert_eq!(words(&[], 4), None);
    }

    #[test]
    fn a_repository_that_is_new_is_none_to_tell_of() {
        let folder = tempfile::tempdir().unwrap();
        let bind = Bind {
            source: folder.path().to_owned(),
            dest: "/w".into(),
            mode: BindMode::Rw,
        };
        let before = LeftBehind::look(&[bind]);
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
                let bind = Bind {
                    source: folder.path().to_owned(),
                    dest: "/w".into(),
                    mode: BindMode::Rw,
                };
                let before = LeftBehind::look(&[bind]);
                fs::write(git.join(name), text).unwrap();
                assert_eq!(before.changed(), [git.join(name)], "{name}: {text}");
            }
        }
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
        let bind = Bind {
            source: folder.path().to_owned(),
            dest: "/w".into(),
            mode: BindMode::Rw,
        };
        let before = LeftBehind::look(&[bind]);
        assert_eq!(before.changed(), Vec::<PathBuf>::new());
        fs::write(at("src/check"), "true; evil").unwrap();
        fs::write(at("own/hooks/post-merge"), "evil").unwrap();
        let expected = [".git/hooks/pre-commit", "own/hooks/post-merge"].map(at);
        assert_eq!(before.changed(), expected);
    }
}
