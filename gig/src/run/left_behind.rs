//! What a program leaves in a folder that it may write, and that this host runs later by itself: git's hooks and what
//! its configuration runs, a shell's beginnings, an editor's tasks. Told at the end of a run.
//!
//! Known by name and by what is seen of a file from outside; of git's configuration by every line that is not known to
//! run nothing. Nothing is kept from the program, and what runs something by another name is not found: who wants that
//! kept shows it read-only (`--ro .git`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Metadata},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gig_sandbox::{Bind, BindMode};
use rustix::fs::{CWD, Mode, OFlags, openat};
use sha2::{Digest as _, Sha256};

/// What was there at the start.
#[derive(Debug)]
pub(super) struct LeftBehind {
    folders: Vec<PathBuf>,
    before: BTreeMap<PathBuf, State>,
}

/// How a file is known again.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// By what it holds, and whether it is executable.
    Holds([u8; 32], u32),
    /// By which one it is, its size and when it was changed: what is no file, or a long one.
    Is([i64; 5]),
    /// By where it leads, and what is there.
    Link(PathBuf, Option<Box<Self>>),
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

    /// What is new, another or gone now, a guard for instance; git's first, each in the order of its names.
    pub(super) fn changed(&self) -> Vec<PathBuf> {
        let now = self.folders.iter().flat_map(|folder| seen(folder));
        let now: BTreeMap<PathBuf, State> = now.collect();
        let nothing = State::Runs(Vec::new());
        let state = |states: &BTreeMap<PathBuf, State>, path: &Path| -> bool {
            // A configuration that runs nothing is as good as none.
            states.get(path).is_some_and(|state| *state != nothing)
        };
        let all: BTreeSet<&PathBuf> = self.before.keys().chain(now.keys()).collect();
        let differs = |path: &&PathBuf| match (state(&self.before, path), state(&now, path)) {
            (false, false) => false,
            (true, true) => self.before.get(*path) != now.get(*path),
            _ => true,
        };
        let mut changed: Vec<PathBuf> = all.into_iter().filter(differs).cloned().collect();
        changed.sort_by_key(|path| !path.components().any(|part| part.as_os_str() == ".git"));
        changed
    }
}

/// At most so many of them by name; `None` where there is nothing to tell.
pub(super) fn words(changed: &[PathBuf], most: usize) -> Option<String> {
    if changed.is_empty() {
        return None;
    }
    let named = changed.iter().take(most);
    // A name may hold a comma, and words.
    let names: Vec<String> = named.map(|path| format!("{path:?}")).collect();
    let mut names = names.join(", ");
    if let Some(more @ 1..) = changed.len().checked_sub(most) {
        names += &format!(" and {more} more");
    }
    Some(names)
}

fn seen(folder: &Path) -> Vec<(PathBuf, State)> {
    let mut found = Vec::new();
    // What is shown may be one of those files, or lie in the folder that has them.
    for above in folder.ancestors().take(1 + DEEPEST) {
        let places = |names: &[&str]| -> Vec<PathBuf> {
            let places = names.iter().map(|name| above.join(name));
            places.filter(|place| place.starts_with(folder)).collect()
        };
        found.extend(places(&FILES).into_iter().filter_map(file));
        for place in places(&FOLDERS) {
            found.extend(entries(&place));
        }
        for place in places(&CONFIGURATIONS) {
            found.extend(configuration(&place).1);
        }
        // The folder may be git's own, or a repository without a working tree.
        for git in [above.join(".git"), above.to_owned()] {
            if git.join("HEAD").symlink_metadata().is_ok() {
                let theirs = repository(above, &git).into_iter();
                found.extend(theirs.filter(|(place, _)| place.starts_with(folder)));
            }
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
    let state = match own.is_symlink() {
        false => state(&path, &own),
        true => {
            let leads_to = path.read_link().ok()?;
            let there = path.canonicalize().ok();
            let there =
                there.and_then(|real| Some(Box::new(state(&real, &real.symlink_metadata().ok()?))));
            State::Link(leads_to, there)
        }
    };
    Some((path, state))
}

fn state(path: &Path, file: &Metadata) -> State {
    const EXECUTABLE: u32 = 0o111;
    let text = file.is_file().then(|| read(path)).flatten();
    text.map_or_else(
        || State::Is(numbers(file)),
        |text| State::Holds(Sha256::digest(&text).into(), file.mode() & EXECUTABLE),
    )
}

/// What lies in a folder whose files are run.
fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, State)> + use<> {
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
    let text = String::from_utf8_lossy(&text);
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

/// What a file holds; `None` where it is none any more or too long. Nothing but a file is opened: a FIFO has somebody
/// who waits at its other end, and a device may do something.
fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    let length = file.metadata().ok().filter(Metadata::is_file)?.len();
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    (length < LONGEST).then_some(text)
}

/// Below a folder that the program may write, a project or a home. `.git` itself where it is a file: it says where the
/// repository is.
const FILES: [&str; 32] = [
    ".git",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".xprofile",
    ".xsessionrc",
    ".vimrc",
    ".exrc",
    ".tmux.conf",
    ".cargo/config.toml",
    ".config/fish/config.fish",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".mcp.json",
    ".cursor/mcp.json",
    ".cursor/hooks.json",
    ".gemini/settings.json",
    "lefthook.yml",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".pre-commit-config.yaml",
    ".devcontainer/devcontainer.json",
];
/// Whose entries are run.
const FOLDERS: [&str; 9] = [
    ".idea/runConfigurations",
    ".local/bin",
    ".config/environment.d",
    ".githooks",
    ".husky",
    ".husky/_",
    ".config/autostart",
    ".config/systemd/user",
    ".config/fish/conf.d",
];
const CONFIGURATIONS: [&str; 2] = [".gitconfig", ".config/git/config"];
/// Folders above what is shown in which one of those may lie.
const DEEPEST: usize = 3;
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
}
