//! From a specification and the host's facts to bwrap's arguments: pure.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use crate::bootstrap::orders::{BOOTSTRAP_FD, ENGINE_FD};
use crate::facts::Facts;
use crate::layers::capabilities;
use crate::layers::etc::{self, Built, Trust};
use crate::layers::mounts::{Mounts, SERVER_PROGRAM, VettedBind, covered, private_size};
use crate::layers::user::IdMode;
use crate::layers::{frames, pins};
use crate::spec::BindMode;

/// What the plan is made from, beside the facts.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The caller's mounts, vetted.
    pub(crate) binds: Vec<VettedBind>,
    /// The server's program, canonical.
    pub(crate) server_program: Option<PathBuf>,
    /// Where the hub has a root that holds all that sandboxes share.
    pub(crate) base: Option<PathBuf>,
    /// Ids.
    pub(crate) ids: IdMode,
    /// Whether the caller's mounts are attached later, by the host.
    pub(crate) attach: bool,
    /// Gateway and own address, when there is a network.
    pub(crate) network: Option<(Ipv4Addr, Ipv4Addr)>,
    /// Roots to trust.
    pub(crate) trust: &'a Trust,
    /// Bytes in each private directory.
    pub(crate) tmp_size: Option<u64>,
    /// The terminal that becomes the program's.
    pub(crate) console: Option<PathBuf>,
}

/// What bwrap is told.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Arguments that travel in a file: others could read them in /proc.
    pub(crate) args: Vec<OsString>,
    /// Files that the arguments name by number.
    pub(crate) files: Files,
    /// Numbers of the two pipes of the id map.
    pub(crate) id_map: Option<(RawFd, RawFd)>,
    /// Mounts to attach before the go.
    pub(crate) attach: Vec<VettedBind>,
    /// The caller's mounts that bwrap makes.
    pub(crate) shown: Vec<VettedBind>,
    /// Where directories of the host or another root are, and no mount of the caller's.
    pub(crate) system: Vec<PathBuf>,
    /// Mounts that the fixed isolation covers.
    pub(crate) covered: Vec<PathBuf>,
}

/// Contents that bwrap reads from descriptors.
#[derive(Debug)]
pub(crate) struct Files {
    next: RawFd,
    contents: Vec<(RawFd, Vec<u8>)>,
}

impl Files {
    fn from(first: RawFd) -> Self {
        Self {
            next: first,
            contents: Vec::new(),
        }
    }

    /// Takes a number.
    pub(crate) fn reserve(&mut self) -> RawFd {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    /// Gives content a number.
    pub(crate) fn add(&mut self, bytes: Vec<u8>) -> RawFd {
        let number = self.reserve();
        self.contents.push((number, bytes));
        number
    }

    /// All of it.
    pub(crate) fn into_contents(self) -> Vec<(RawFd, Vec<u8>)> {
        self.contents
    }
}

/// Plans. The bootstrap's own path ends the arguments, after `--`.
pub(crate) fn plan(wanted: Wanted<'_>, facts: &Facts) -> Plan {
    let mut files = Files::from(ENGINE_FD);
    let id_map = (wanted.ids == IdMode::Range).then(|| (files.reserve(), files.reserve()));
    let own = etc::own(
        wanted.network.map(|(gateway, _)| gateway),
        wanted.network.map(|(_, address)| address),
    );
    // In a base they are there already, and nothing else can be in their place.
    let built = match &wanted.base {
        Some(_) => Vec::new(),
        None => built(&own, wanted.trust),
    };
    let (hidden, binds): (Vec<_>, Vec<_>) = wanted
        .binds
        .into_iter()
        .partition(|bind| covered(&bind.dest, &built));
    let mut binds = pins::pinned(frames::laid_out(binds));
    let size = private_size(wanted.tmp_size, facts.memory);
    if let Some(source) = wanted.server_program {
        binds.push(VettedBind {
            source,
            dest: SERVER_PROGRAM.into(),
            mode: BindMode::Ro,
            directory: false,
            masks: Vec::new(),
            public: false,
            owned_as: None,
            frame: None,
        });
    }

    let mut mounts = Mounts::new(&mut files);
    // With ids of its own the engine may not reach where gig keeps images.
    mounts.later = (wanted.attach && facts.image).then(Vec::new);
    match &wanted.base {
        Some(base) => mounts.base(base),
        None => mounts.system(facts),
    }
    mounts.private(size);
    mounts.among(facts);
    // Whole before anything of the caller's is there: what is written is
    // written into the fresh /etc, never through a mount onto the host.
    if wanted.base.is_none() {
        mounts.own_etc();
        mounts.etc(facts, &built, &binds);
        mounts.built(built);
        mounts.masks(&facts.masks);
    }
    if wanted.attach {
        mounts.places(&binds, facts);
    } else {
        mounts.binds(&binds);
    }
    mounts.kernel(size, wanted.console.as_deref());
    if wanted.ids == IdMode::Single {
        mounts.proc_masks(&facts.proc_masks);
    }
    if wanted.base.is_some() {
        mounts.own_files(own);
        mounts.read_only(["/dev"]);
    } else {
        mounts.read_only(["/dev", "/etc", "/"]);
    }
    let Mounts {
        args: mounts,
        shown: mut system,
        later,
        ..
    } = mounts;
    system.retain(|dest| !binds.iter().any(|bind| dest.starts_with(&bind.dest)));

    let mut args = namespaces(wanted.ids, id_map);
    args.extend(mounts);
    args.extend(["--chdir", "/"].map(OsString::from));
    let (attach, shown) = match wanted.attach {
        true => ([later.unwrap_or_default(), binds].concat(), Vec::new()),
        false => (Vec::new(), binds),
    };
    Plan {
        args,
        files,
        id_map,
        attach,
        shown,
        system,
        covered: hidden.into_iter().map(|bind| bind.dest).collect(),
    }
}

/// The built files of an /etc of the sandbox's own.
fn built(own: &[Vec<u8>; 2], trust: &Trust) -> Vec<Built> {
    let mut built = etc::common();
    built.extend(etc::trust(trust));
    for (name, bytes) in etc::OWN.iter().zip(own) {
        built.push(Built::File(Path::new("/etc").join(name), bytes.clone()));
    }
    built
}

/// What follows the arguments of the file.
pub(crate) fn command() -> [OsString; 2] {
    [
        OsString::from("--"),
        OsString::from(format!("/proc/self/fd/{BOOTSTRAP_FD}")),
    ]
}

fn namespaces(ids: IdMode, id_map: Option<(RawFd, RawFd)>) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup",
        "--hostname",
        etc::NAME,
        // The bootstrap is process 1: no helper with the program's ids and
        // without its filter stays behind in the sandbox. Its session is the
        // hub's, which has no terminal; the program makes one of its own, or this one where
        // there is a terminal.
        "--as-pid-1",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ]
    .map(OsString::from)
    .into();
    for capability in capabilities::of_bootstrap(ids) {
        args.extend(["--cap-add", capability].map(OsString::from));
    }
    match id_map {
        Some((info, block)) => {
            let (info, block) = (info.to_string(), block.to_string());
            args.extend(["--info-fd", &info, "--userns-block-fd", &block].map(OsString::from));
        }
        // Without a map from outside bwrap nests a second user namespace, in
        // which no third can be made.
        None => args
            .extend(["--uid", "65534", "--gid", "65534", "--disable-userns"].map(OsString::from)),
    }
    args
}

#[cfg(test)]
mod tests;
