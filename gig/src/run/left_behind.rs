//! What a program leaves in a folder that it may write, and that this host runs later by itself: git's hooks and what
//! its configuration runs, a shell's beginnings, an editor's tasks. Told at the end of a run.
//!
//! Known by name and by what is seen of a file from outside; of git's configuration alone by the lines that run
//! something. Nothing is kept from the program: who wants that shows it read-only (`--ro .git/hooks`).

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
    /// Which one it is, its size and when it was changed.
    File([i64; 5]),
    /// The lines of a git configuration that run something.
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
            let nothing = matches!(state, State::Runs(lines) if lines.is_empty());
            match self.before.get(path) {
                Some(before) => before != state && !nothing,
                None => !nothing,
            }
        });
        changed.map(|(path, _)| path).collect()
    }
}

/// For a person, and for the record; `None` where there is nothing to tell.
pub(super) fn words(changed: &[PathBuf]) -> Option<String> {
    if changed.is_empty() {
        return None;
    }
    let named = changed.iter().take(MOST_NAMED);
    let mut names = named
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(more @ 1..) = changed.len().checked_sub(MOST_NAMED) {
        names += &format!(" and {more} more");
    }
    Some(names)
}

fn seen(folder: &Path) -> Vec<(PathBuf, State)> {
    let mut found = Vec::new();
    for name in FILES {
        let path = folder.join(name);
        if let Ok(file) = fs::symlink_metadata(&path)
            && !file.is_dir()
        {
            found.push((path, State::File(file_state(&file))));
        }
    }
    for name in FOLDERS {
        let entries = fs::read_dir(folder.join(name)).into_iter().flatten();
        for entry in entries.flatten().take(MOST_ENTRIES) {
            let path = entry.path();
            // git writes samples into each repository, and runs none.
            if path.extension().is_some_and(|end| end == "sample") {
                continue;
            }
            if let Ok(file) = fs::symlink_metadata(&path)
                && !file.is_dir()
            {
                found.push((path, State::File(file_state(&file))));
            }
        }
    }
    for name in CONFIGURATIONS {
        let path = folder.join(name);
        if let Some(lines) = running_lines(&path) {
            found.push((path, State::Runs(lines)));
        }
    }
    found
}

fn file_state(file: &Metadata) -> [i64; 5] {
    let number = |n: u64| n.cast_signed();
    [
        number(file.ino()),
        number(file.size()),
        file.ctime(),
        file.ctime_nsec(),
        i64::from(file.mode()),
    ]
}

/// The lines of git's configuration whose keys run programs or name files that do (git-config(1)).
fn running_lines(path: &Path) -> Option<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    let mut text = Vec::new();
    if !file.metadata().ok()?.is_file() || file.take(LONGEST).read_to_end(&mut text).is_err() {
        return None;
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let runs = |line: &&str| {
        // `[core] pager = …` may be one line.
        let setting = line.rsplit_once(']').map_or(*line, |(_, rest)| rest);
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let key = key.trim().to_ascii_lowercase();
        RUNNING.contains(&key.as_str())
            || value.trim_start().trim_start_matches('"').starts_with('!')
    };
    Some(text.lines().filter(runs).map(str::to_owned).collect())
}

/// Below a folder that the program may write, a project or a home.
const FILES: [&str; 21] = [
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
    ".git/hooks",
    ".githooks",
    ".husky",
    ".config/autostart",
    ".config/systemd/user",
    ".config/fish/conf.d",
];
const CONFIGURATIONS: [&str; 4] = [
    ".git/config",
    ".git/config.worktree",
    ".gitconfig",
    ".config/git/config",
];
/// Keys without their section.
const RUNNING: [&str; 22] = [
    "fsmonitor",
    "pager",
    "sshcommand",
    "editor",
    "hookspath",
    "askpass",
    "gitproxy",
    "alternaterefscommand",
    "clean",
    "smudge",
    "process",
    "textconv",
    "command",
    "driver",
    "helper",
    "program",
    "path",
    "cmd",
    "uploadpack",
    "receivepack",
    "external",
    "vcs",
];
/// Of a configuration.
const LONGEST: u64 = 1 << 20;
const MOST_ENTRIES: usize = 1024;
const MOST_NAMED: usize = 4;

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
        let told = words(&before.changed()).unwrap();
        assert!(
            told.ends_with(".git/hooks/pre-push") && !told.contains("more"),
            "{told}"
        );
        write(".envrc", "evil");
        write(".bashrc", "evil");
        let told = words(&before.changed()).unwrap();
        assert!(told.ends_with("and 1 more"), "{told}");
        assert_eq!(words(&[]), None);
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
        fs::create_dir_all(folder.path().join(".git/hooks")).unwrap();
        let config = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://a.test/x.git\n";
        fs::write(folder.path().join(".git/config"), config).unwrap();
        fs::write(folder.path().join(".git/hooks/pre-push.sample"), "x").unwrap();
        assert_eq!(before.changed(), Vec::<PathBuf>::new());
    }
}
