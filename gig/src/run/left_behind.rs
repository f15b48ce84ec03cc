//! What a program leaves in a folder that it may write, and that this host runs later by itself: git's hooks and what
//! its configuration runs, a shell's beginnings, an editor's tasks. Told at the end of a run.
//!
//! Known by name and by what is seen of a file from outside; of git's configuration by every line that is not known to
//! run nothing. Nothing is kept from the program, and what runs something by another name is not found: who wants that
//! kept shows it read-only (`--ro .git`).

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::Read as _,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use gig_sandbox::{Bind, BindMode};
use rustix::fs::{CWD, Mode, OFlags, openat};
use sha2::{Digest as _, Sha256};

mod known;

use self::known::{CONFIGURATIONS, DEEPEST, FILES, FOLDERS, RUN_NOTHING};
use super::warnings::listed;

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
    /// That there is more in it than is looked through: a program could hide something there.
    TooMuch,
}

impl LeftBehind {
    /// Looks before the program starts.
    pub(super) fn look(binds: &[Bind]) -> Self {
        let writable = binds.iter().filter(|bind| bind.mode == BindMode::Rw);
        let folders: Vec<PathBuf> = writable.map(|bind| bind.source.clone()).collect();
        let before = folders.iter().flat_map(|folder| seen(folder)).collect();
        Self { folders, before }
    }

    /// What changed, looked for beside what else gig hears of; `None` where that was `interrupted`, or would have taken too
    /// long: a program can leave much to look through. The end of a run is not on record before.
    pub(super) async fn changed_until(
        self,
        interrupted: impl Future<Output = ()>,
    ) -> Option<Vec<PathBuf>> {
        match self.folders.is_empty() {
            true => Some(Vec::new()),
            false => aside(move || self.changed(), interrupted).await,
        }
    }

    /// What is new, another or gone now, a guard for instance; git's first, each in the order of its names.
    fn changed(&self) -> Vec<PathBuf> {
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

async fn aside(
    look: impl FnOnce() -> Vec<PathBuf> + Send + 'static,
    interrupted: impl Future<Output = ()>,
) -> Option<Vec<PathBuf>> {
    tokio::select! {
        biased;
        looked = tokio::task::spawn_blocking(look) => looked.ok(),
        () = interrupted => None,
        () = tokio::time::sleep(PATIENCE) => None,
    }
}

/// At most so many of them by name; `None` where there is nothing to tell.
pub(super) fn words(changed: &[PathBuf], most: usize) -> Option<String> {
    if changed.is_empty() {
        return None;
    }
    // A name may hold a comma, and words.
    let names = changed.iter().map(|path| format!("{path:?}"));
    Some(listed(names, most))
}

fn seen(folder: &Path) -> Vec<(PathBuf, State)> {
    let mut look = Look {
        root: folder,
        left: MOST_READ,
        folders: MOST_MODULES,
        entries: MOST_ENTRIES,
        listed: BTreeSet::new(),
        includes: MOST_INCLUDED,
        found: Vec::new(),
    };
    // What is shown may be one of those files, or lie in the folder that has them.
    for above in folder.ancestors().take(1 + DEEPEST) {
        for name in FILES {
            look.file(&above.join(name));
        }
        for name in FOLDERS {
            look.entries(&above.join(name));
        }
        for name in CONFIGURATIONS {
            if let Some(hooks) = look.configuration(&above.join(name)) {
                look.entries(&above.join(at_home(hooks)));
            }
        }
        look.repositories(above);
    }
    look.found
}

/// A look at what is in one writable folder, and at nothing that its links lead to elsewhere: a program could have gig read
/// whatever it likes, and what it cannot write it cannot have changed.
struct Look<'a> {
    root: &'a Path,
    /// Octets that may be read yet: a program can write more than anybody waits for.
    left: u64,
    /// Folders of git's own that may be looked through yet.
    folders: usize,
    /// Entries of folders whose files are run that may be looked at yet, and the folders that were.
    entries: usize,
    listed: BTreeSet<PathBuf>,
    /// Configurations that others take in and that may be read yet.
    includes: usize,
    found: Vec<(PathBuf, State)>,
}

impl Look<'_> {
    /// Whether a name stands for something in the folder.
    fn takes_in(&self, path: &Path) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        let real = parent.canonicalize().map(|parent| parent.join(name));
        real.is_ok_and(|real| real.starts_with(self.root))
    }

    /// A folder's repository, those that lie in it for submodules, and those of the submodules themselves.
    fn repositories(&mut self, folder: &Path) {
        let git = folder.join(".git");
        // A file in its place says where it is (gitrepository-layout(5)).
        let elsewhere = self.read(&git).and_then(|text| {
            let place = text.strip_prefix(b"gitdir:")?.trim_ascii();
            Some(folder.join(OsStr::from_bytes(place)))
        });
        // Also one that is none yet: `git init` and `git clone` leave what is there; and one that a link leads to.
        let own = Some(git).filter(|git| git.is_dir());
        // The folder may be git's own, or a repository without a working tree.
        let bare = folder.join("HEAD").symlink_metadata().is_ok();
        let bare = bare.then(|| folder.to_owned());
        for git in [own, elsewhere, bare].into_iter().flatten() {
            self.repository(folder, &git);
            self.others(&git);
        }
        // `git status` goes into each of them, whatever its name is for git.
        let modules = folder.join(".gitmodules");
        let listed = self.read(&modules);
        if listed.is_none() {
            // One that is too long is told as what it is.
            self.file(&modules);
        }
        let mut listed = submodules(&String::from_utf8_lossy(&listed.unwrap_or_default()));
        if listed.len() > MOST_MODULES {
            self.found.push((modules, State::TooMuch));
            listed.truncate(MOST_MODULES);
        }
        for path in listed {
            let module = folder.join(path);
            let git = module.join(".git");
            self.file(&git);
            if git.is_dir() {
                self.repository(&module, &git);
            }
        }
    }

    /// What git keeps of submodules and worktrees: a submodule's name may hold slashes, and it may have submodules.
    fn others(&mut self, git: &Path) {
        let mut ahead = self.directories(&git.join("worktrees"));
        ahead.extend(self.directories(&git.join("modules")));
        while let Some(git) = ahead.pop() {
            self.repository(&git, &git);
            ahead.extend(self.directories(&git));
        }
    }

    /// Folders right below one, no links, without those in which git keeps what it does not run; none where there were
    /// too many.
    fn directories(&mut self, folder: &Path) -> Vec<PathBuf> {
        if !self.takes_in(folder) {
            return Vec::new();
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let entries = entries.filter(|entry| !KEPT.iter().any(|kept| entry.file_name() == *kept));
        let mut below: Vec<PathBuf> = entries
            .take(self.folders + 1)
            .map(|entry| entry.path())
            .collect();
        if below.len() > self.folders {
            below.truncate(self.folders);
            self.found.push((folder.to_owned(), State::TooMuch));
        }
        self.folders -= below.len();
        below
    }

    /// What git runs, and where it looks for it.
    fn repository(&mut self, folder: &Path, git: &Path) {
        for name in ["commondir", "gitdir"] {
            self.file(&git.join(name));
        }
        self.entries(&git.join("hooks"));
        for name in ["config", "config.worktree"] {
            if let Some(hooks) = self.configuration(&git.join(name)) {
                self.entries(&folder.join(at_home(hooks)));
            }
        }
    }

    fn file(&mut self, path: &Path) {
        // Most are not there: where they would be is looked at for the others.
        let own = path.symlink_metadata().ok().filter(|own| !own.is_dir());
        let Some(own) = own.filter(|_| self.takes_in(path)) else {
            return;
        };
        let state = match own.is_symlink() {
            false => self.state(path, &own),
            true => {
                let leads_to = path.read_link().unwrap_or_default();
                let real = path
                    .canonicalize()
                    .ok()
                    .filter(|real| real.starts_with(self.root));
                let there = real.and_then(|real| {
                    let found = real.symlink_metadata().ok()?;
                    Some(Box::new(self.state(&real, &found)))
                });
                State::Link(leads_to, there)
            }
        };
        self.found.push((path.to_owned(), state));
    }

    fn state(&mut self, path: &Path, file: &Metadata) -> State {
        const EXECUTABLE: u32 = 0o111;
        let text = file.is_file().then(|| self.contents(path)).flatten();
        text.map_or_else(
            || State::Is(numbers(file)),
            |text| State::Holds(Sha256::digest(&text).into(), file.mode() & EXECUTABLE),
        )
    }

    /// What lies in a folder whose files are run.
    fn entries(&mut self, folder: &Path) {
        if folder.symlink_metadata().is_err() || !self.takes_in(folder) {
            return;
        }
        match folder.canonicalize() {
            Ok(real) if !real.starts_with(self.root) => {
                self.found
                    .push((folder.to_owned(), State::Link(real, None)));
            }
            Ok(real) if !self.listed.insert(real.clone()) => {}
            _ => {
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                // git writes samples into each repository, and runs none.
                let is_run = |path: &PathBuf| path.extension().is_none_or(|end| end != "sample");
                for path in entries.map(|entry| entry.path()).filter(is_run) {
                    let Some(left) = self.entries.checked_sub(1) else {
                        self.found.push((folder.to_owned(), State::TooMuch));
                        break;
                    };
                    self.entries = left;
                    self.file(&path);
                }
            }
        }
    }

    /// What is known of git's configuration: the lines that may run something, and of a link or what is too long which one
    /// it is. The folder of hooks that it names.
    fn configuration(&mut self, path: &Path) -> Option<PathBuf> {
        let Some(text) = self.read(path) else {
            self.file(path);
            return None;
        };
        let Running {
            lines,
            mut hooks,
            includes,
        } = running(&String::from_utf8_lossy(&text));
        self.found.push((path.to_owned(), State::Runs(lines)));
        // What it takes in is as good as its own, from where it lies.
        for include in includes {
            let included = path.parent().unwrap_or(path).join(at_home(include));
            // A program writes as many as it likes, and in a circle.
            let Some(left) = self.includes.checked_sub(1) else {
                self.found.push((included, State::TooMuch));
                break;
            };
            self.includes = left;
            // By the name that it has, however it is spelled.
            let included = included.canonicalize().unwrap_or(included);
            if self.found.iter().all(|(known, _)| *known != included) {
                hooks = self.configuration(&included).or(hooks);
            }
        }
        hooks
    }

    /// What a file in the folder holds. Nothing but a file is opened: a FIFO has somebody who waits at its other end, and a
    /// device may do something.
    fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
        (is_file && self.takes_in(path))
            .then(|| self.contents(path))
            .flatten()
    }

    /// The same of what is known to be one; `None` where it is none any more or too long.
    fn contents(&mut self, path: &Path) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
        let length = file.metadata().ok().filter(Metadata::is_file)?.len();
        self.left = self.left.checked_sub(length).filter(|_| length < LONGEST)?;
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text).ok()?;
        Some(text)
    }
}

/// The folders of submodules (gitmodules(5)), no more than anybody has.
fn submodules(text: &str) -> Vec<PathBuf> {
    let settings = text.lines().filter_map(|line| line.split_once('='));
    let paths = settings.filter(|(key, _)| key.trim().eq_ignore_ascii_case("path"));
    let paths = paths.map(|(_, path)| PathBuf::from(value_of(path)));
    let mut seen = BTreeSet::new();
    let once = paths.filter(|path| path.is_relative() && seen.insert(path.clone()));
    once.collect()
}

/// A path of a git configuration, of which a `~` in front is the home of whoever runs git.
fn at_home(path: PathBuf) -> PathBuf {
    let home = std::env::var_os("HOME");
    match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => PathBuf::from(home).join(below),
        _ => path,
    }
}

/// A value without its quotes and what is said behind it (git-config(1), "Syntax").
fn value_of(text: &str) -> &str {
    let text = text.trim();
    match text.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((quoted, _)) => quoted,
        None => text.split(['#', ';']).next().unwrap_or_default().trim(),
    }
}

/// What a git configuration says of what is run.
#[derive(Default)]
struct Running {
    /// The lines that are not known to run nothing.
    lines: Vec<String>,
    /// The folder of hooks that it names.
    hooks: Option<PathBuf>,
    /// Further configurations, as they are named.
    includes: Vec<PathBuf>,
}

fn running(text: &str) -> Running {
    let (mut found, mut section) = (Running::default(), String::new());
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
            found.hooks = Some(PathBuf::from(value_of(value)));
        }
        let includes = ["include", "includeif"].contains(&section.as_str()) && key == "path";
        if includes {
            found.includes.push(PathBuf::from(value_of(value)));
        }
        let known = RUN_NOTHING.iter().find(|(name, _)| *name == section);
        if !known.is_some_and(|(_, keys)| keys.contains(&key.as_str())) || setting.ends_with('\\') {
            found.lines.push(format!("{section}.{setting}"));
        }
    }
    found
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

/// Configurations that others take in, in one folder that is shown.
const MOST_INCLUDED: usize = 64;
/// Objects and names of them.
const KEPT: [&str; 3] = ["objects", "refs", "logs"];
/// Submodules and worktrees, with the folders in theirs.
const MOST_MODULES: usize = 1 << 12;
/// Of a configuration.
const LONGEST: u64 = 1 << 20;
/// Of all that is read in a folder.
const MOST_READ: u64 = 64 << 20;
/// Of all folders whose files are run.
const MOST_ENTRIES: usize = 1 << 16;
/// All that is read, many times over.
const PATIENCE: Duration = Duration::from_secs(5);
/// For a person, and for the record.
pub(super) const MOST_TOLD: usize = 4;
pub(super) const MOST_RECORDED: usize = 64;

#[cfg(test)]
mod tests;
