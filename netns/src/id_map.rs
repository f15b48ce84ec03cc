//! Which user and group ids the hub and its sandboxes have on the host.
//!
//! Three ways: one id for everything (no privilege needed); as root, ids from
//! a high range that no account has; as a user with subordinate ids, through
//! the `newuidmap` helpers. Promises that two slots of one hub never share an
//! id in a range mode, and that the hub keeps no supplementary group there.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, capability_is_in_bounding_set, no_new_privs};

use crate::id_claim::{self, Claim};
use crate::plan::HubIds;

/// How the host's ids are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostIds {
    /// The caller's own id for the hub and every sandbox.
    Single,
    /// Every sandbox has ids of its own.
    Range {
        /// First host id of the range. As root the hub takes the first
        /// `per_sandbox` of them; otherwise slot 0 begins here.
        base: u32,
        /// Ids a sandbox: 65,536, so that every id a distribution uses exists.
        per_sandbox: u32,
        /// Who writes the map.
        via: MapWriter,
    },
}

/// Who may write a map of many ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapWriter {
    /// The caller itself: it is root and has CAP_SETUID and CAP_SETGID.
    Root,
    /// The helpers of the `uidmap` package, within /etc/subuid and /etc/subgid.
    NewuidmapHelpers,
}

/// Why the hub's id map was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteIdMapError {
    /// The kernel refused the file.
    #[error("the hub's {file} could not be written")]
    Write {
        /// `uid_map`, `gid_map` or `setgroups`.
        file: &'static str,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// The helper could not be started.
    #[error("{program} could not be started; install the uidmap package")]
    Start {
        /// `newuidmap` or `newgidmap`.
        program: &'static str,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// The helper refused.
    #[error("{program} refused: {said}")]
    Helper {
        /// `newuidmap` or `newgidmap`.
        program: &'static str,
        /// Its first line.
        said: String,
    },
}

/// Ids a sandbox has in a range mode: every id of a usual /etc/passwd, up to
/// `nobody` (65,534).
const PER_SANDBOX: u32 = 65_536;
/// Ids of root's that one gig has and no other: each is an open file of its own.
const TOGETHER: u32 = 16 * PER_SANDBOX;
/// From here on `useradd` gives users theirs (login.defs, `SUB_UID_MIN`).
const FIRST_GIVEN: u32 = 100_000;
/// First host id as root: above every range that `useradd` gives out by
/// default (100,000 to 600,100,000), below the ids that systemd-homed and
/// 31-bit signed ids end at.
const ROOT_BASE: u32 = 0x4000_0000;
/// End of the range as root.
const ROOT_END: u32 = 0x7000_0000;

/// A run of ids: inside, outside, how many.
type Extent = (u32, u32, u32);

impl HostIds {
    /// The widest mode that this host gives, for one sandbox at once.
    #[must_use]
    pub fn detect() -> Self {
        Self::detect_for(1)
    }

    /// The widest mode that this host gives, for `slots` sandboxes at once.
    #[must_use]
    pub fn detect_for(slots: u16) -> Self {
        let wanted = PER_SANDBOX.saturating_mul(u32::from(slots));
        if geteuid().is_root() && may_set_ids() {
            let hub_too = wanted.saturating_add(PER_SANDBOX);
            if let Some(base) = root_base(hub_too, &[]) {
                return Self::Range {
                    base,
                    per_sandbox: PER_SANDBOX,
                    via: MapWriter::Root,
                };
            }
        }
        let helpers = !geteuid().is_root() && lets_helpers();
        let helpers = helpers && helper("newuidmap").is_some() && helper("newgidmap").is_some();
        if let Some(base) = given_base(wanted, &[]).filter(|_| helpers) {
            return Self::Range {
                base,
                per_sandbox: PER_SANDBOX,
                via: MapWriter::NewuidmapHelpers,
            };
        }
        Self::Single
    }

    /// The same, and for this process alone among the gigs of this host until it ends. Where there are no others left
    /// they are those that every gig has.
    #[must_use]
    pub fn take_for(slots: u16) -> Self {
        let found = Self::detect_for(slots);
        let Self::Range { via, .. } = found else {
            return found;
        };
        let hub = u32::from(via == MapWriter::Root);
        let blocks = u32::from(slots).saturating_add(hub);
        let wanted = PER_SANDBOX.saturating_mul(blocks);
        let mut taken = Vec::new();
        loop {
            let base = match via {
                MapWriter::Root => root_base(wanted, &taken),
                MapWriter::NewuidmapHelpers => given_base(wanted, &taken),
            };
            let Some(base) = base else { return found };
            // A user was given a few ids, which begin anywhere; of root's many there is a name for several.
            let (claimed, size) = match via {
                MapWriter::Root => (
                    id_claim::claim(id_claim::touched(base, wanted, TOGETHER)),
                    TOGETHER,
                ),
                MapWriter::NewuidmapHelpers => {
                    let firsts = (0..blocks)
                        .map(|block| base.saturating_add(block.saturating_mul(PER_SANDBOX)));
                    (id_claim::claim(firsts), PER_SANDBOX)
                }
            };
            match claimed {
                Ok(Claim::Ours) => {
                    return Self::Range {
                        base,
                        per_sandbox: PER_SANDBOX,
                        via,
                    };
                }
                Ok(Claim::Anothers(first)) => taken.push((first, size)),
                Err(_) => return found,
            }
        }
    }

    /// The ids as the hub sees them.
    pub(crate) fn inside(self) -> HubIds {
        match self {
            Self::Single => HubIds::Single,
            Self::Range { per_sandbox, .. } => HubIds::Range {
                first: per_sandbox,
                per_sandbox,
            },
        }
    }

    /// The hub's map for one kind of id; `own` is the caller's own id of that kind.
    fn extents(self, own: u32, slots: u16) -> Vec<Extent> {
        match self {
            // Not as 0: a process without CAP_SETFCAP may not map its parent's id 0
            // again (Linux 5.12), and what runs in a sandbox has no capability
            // but must be able to make a user namespace (bwrap does).
            Self::Single => vec![(own.max(1), own, 1)],
            Self::Range {
                base,
                per_sandbox,
                via: MapWriter::Root,
            } => {
                vec![(
                    0,
                    base,
                    per_sandbox.saturating_mul(u32::from(slots).saturating_add(1)),
                )]
            }
            Self::Range {
                base,
                per_sandbox,
                via: MapWriter::NewuidmapHelpers,
            } => {
                vec![
                    (0, own, 1),
                    (
                        per_sandbox,
                        base,
                        per_sandbox.saturating_mul(u32::from(slots)),
                    ),
                ]
            }
        }
    }

    /// Writes the maps of the hub, whose pid is given.
    pub(crate) fn write(self, pid: u32, slots: u16) -> Result<(), WriteIdMapError> {
        let uids = self.extents(geteuid().as_raw(), slots);
        let gids = self.extents(getegid().as_raw(), slots);
        match self {
            Self::Single => {
                // Without privilege the kernel wants group changes given up first (Linux 3.19).
                write_file(pid, "setgroups", "deny")?;
                write_maps(pid, &uids, &gids)
            }
            Self::Range {
                via: MapWriter::Root,
                ..
            } => write_maps(pid, &uids, &gids),
            Self::Range {
                via: MapWriter::NewuidmapHelpers,
                ..
            } => {
                run_helper("newgidmap", pid, &gids)?;
                run_helper("newuidmap", pid, &uids)
            }
        }
    }
}

/// Writes a child's maps: one extent each, for the owner of `pid`.
pub(crate) fn write_maps(
    pid: u32,
    uids: &[Extent],
    gids: &[Extent],
) -> Result<(), WriteIdMapError> {
    write_file(pid, "gid_map", &lines(gids))?;
    write_file(pid, "uid_map", &lines(uids))
}

fn write_file(pid: u32, file: &'static str, text: &str) -> Result<(), WriteIdMapError> {
    fs::write(format!("/proc/{pid}/{file}"), text)
        .map_err(|source| WriteIdMapError::Write { file, source })
}

fn lines(extents: &[Extent]) -> String {
    extents
        .iter()
        .map(|(inside, outside, count)| format!("{inside} {outside} {count}\n"))
        .collect()
}

fn run_helper(program: &'static str, pid: u32, extents: &[Extent]) -> Result<(), WriteIdMapError> {
    let path = helper(program).unwrap_or("/usr/bin/newuidmap");
    #[expect(
        clippy::disallowed_methods,
        reason = "the one home of the id map helpers"
    )]
    let mut command = Command::new(path);
    command
        .env_clear()
        .stdin(Stdio::null())
        .arg(pid.to_string());
    for (inside, outside, count) in extents {
        command.args([inside.to_string(), outside.to_string(), count.to_string()]);
    }
    let output = command
        .output()
        .map_err(|source| WriteIdMapError::Start { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("no reason given").to_owned();
    Err(WriteIdMapError::Helper { program, said })
}

/// Where a helper is, if it is there.
pub(crate) fn helper(program: &str) -> Option<&'static str> {
    let places: [&'static str; 2] = match program {
        "newuidmap" => ["/usr/bin/newuidmap", "/usr/local/bin/newuidmap"],
        _ => ["/usr/bin/newgidmap", "/usr/local/bin/newgidmap"],
    };
    places.into_iter().find(|place| Path::new(place).is_file())
}

fn may_set_ids() -> bool {
    has(CapabilitySet::SETUID | CapabilitySet::SETGID)
}

/// Whether the caller is root and may not even map its own id: root's takes a right of its own (Linux 5.12).
pub(crate) fn is_powerless_root() -> bool {
    geteuid().is_root() && !may_set_ids() && !has(CapabilitySet::SETFCAP)
}

fn has(capabilities: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capabilities))
}

/// Whether a process of ours may gain rights: the helpers have theirs from being set-id, and none that is bounded away.
pub(crate) fn lets_helpers() -> bool {
    let mut rights = [CapabilitySet::SETUID, CapabilitySet::SETGID].into_iter();
    no_new_privs() == Ok(false)
        && rights.all(|right| capability_is_in_bounding_set(right) == Ok(true))
}

/// The first range of `wanted` ids from [`ROOT_BASE`] on that the current user
/// namespace has and that nobody was promised.
fn root_base(wanted: u32, taken: &[(u32, u32)]) -> Option<u32> {
    let mapped = |file: &str| {
        fs::read_to_string(file)
            .map(|text| mapped_runs(&text))
            .unwrap_or_default()
    };
    let (uids, gids) = (mapped("/proc/self/uid_map"), mapped("/proc/self/gid_map"));
    let promised = [&promised()[..], taken].concat();
    choose_base(wanted, &uids, &gids, &promised)
}

/// The first range of `wanted` ids that the caller was given, of users and groups both, and that is not taken.
fn given_base(wanted: u32, taken: &[(u32, u32)]) -> Option<u32> {
    let ((uid, uids), (gid, gids)) = subordinate("/etc/subuid").zip(subordinate("/etc/subgid"))?;
    let end = uid.saturating_add(uids).min(gid.saturating_add(gids));
    id_claim::within((uid.max(gid), end), (wanted, PER_SANDBOX), taken)
}

/// What /etc/subuid and /etc/subgid give to whomever.
fn promised() -> Vec<(u32, u32)> {
    let files = ["/etc/subuid", "/etc/subgid"].into_iter();
    let texts = files.map(|file| fs::read_to_string(file).unwrap_or_default());
    let runs = |text: String| {
        let runs = text
            .lines()
            .filter_map(|line| entry(line).map(|(_, first, count)| (first, count)));
        runs.collect::<Vec<_>>()
    };
    texts.flat_map(runs).collect()
}

/// The first and the last of the ids of a sandbox that nobody has: two users of one range could each signal and trace
/// what the other runs.
pub(crate) fn to_give() -> Option<(u32, u32)> {
    let first = clear_of(FIRST_GIVEN, PER_SANDBOX, &promised())?;
    let last = first.checked_add(PER_SANDBOX - 1)?;
    (last < ROOT_END).then_some((first, last))
}

/// The first run of `wanted` ids from `base` on of which nobody has any.
fn clear_of(mut base: u32, wanted: u32, promised: &[(u32, u32)]) -> Option<u32> {
    while let Some(clash) = promised.iter().find(|(first, count)| {
        base < first.saturating_add(*count) && *first < base.saturating_add(wanted)
    }) {
        base = clash
            .0
            .checked_add(clash.1)?
            .checked_next_multiple_of(PER_SANDBOX)?;
    }
    Some(base)
}

fn choose_base(
    wanted: u32,
    uids: &[(u32, u32)],
    gids: &[(u32, u32)],
    promised: &[(u32, u32)],
) -> Option<u32> {
    let base = clear_of(ROOT_BASE, wanted, promised)?;
    let end = base.checked_add(wanted)?;
    let has = |runs: &[(u32, u32)]| {
        runs.iter()
            .any(|(first, count)| *first <= base && end <= first.saturating_add(*count))
    };
    (end <= ROOT_END && has(uids) && has(gids)).then_some(base)
}

/// The ids that exist in a user namespace, from its map.
fn mapped_runs(map: &str) -> Vec<(u32, u32)> {
    map.lines()
        .filter_map(|line| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
            let (first, _, count) = (
                numbers.next()?.ok()?,
                numbers.next()?.ok()?,
                numbers.next()?.ok()?,
            );
            Some((first, count))
        })
        .collect()
}

/// The caller's first run of subordinate ids.
pub(crate) fn subordinate(file: &str) -> Option<(u32, u32)> {
    let text = fs::read_to_string(file).ok()?;
    let uid = geteuid().as_raw();
    let name = account_name(uid);
    own_entry(&text, uid, name.as_deref())
}

fn own_entry(text: &str, uid: u32, name: Option<&str>) -> Option<(u32, u32)> {
    text.lines()
        .filter_map(entry)
        .filter(|(owner, _, _)| Some(*owner) == name || owner.parse() == Ok(uid))
        .map(|(_, first, count)| (first, count))
        .max_by_key(|(_, count)| *count)
}

fn entry(line: &str) -> Option<(&str, u32, u32)> {
    let mut fields = line.trim().split(':');
    Some((
        fields.next()?,
        fields.next()?.parse().ok()?,
        fields.next()?.parse().ok()?,
    ))
}

fn account_name(uid: u32) -> Option<String> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[(u32, u32)] = &[(0, u32::MAX)];

    #[test]
    fn root_range_avoids_what_was_promised_and_what_is_not_mapped() {
        let wanted = 2 * PER_SANDBOX;
        assert_eq!(choose_base(wanted, ALL, ALL, &[]), Some(ROOT_BASE));
        assert_eq!(
            choose_base(wanted, ALL, ALL, &[(100_000, 65_536)]),
            Some(ROOT_BASE)
        );
        let promised = [(ROOT_BASE + 70_000, 65_536)];
        assert_eq!(
            choose_base(wanted, ALL, ALL, &promised),
            Some(ROOT_BASE + 3 * PER_SANDBOX)
        );
        assert_eq!(choose_base(wanted, &[(0, 65_536)], ALL, &[]), None);
        assert_eq!(choose_base(ROOT_END - ROOT_BASE + 1, ALL, ALL, &[]), None);
        // What somebody has is given to nobody else.
        let given = |promised: &[(u32, u32)]| clear_of(FIRST_GIVEN, PER_SANDBOX, promised);
        assert_eq!(given(&[]), Some(100_000));
        assert_eq!(given(&[(100_000, 65_536)]), Some(196_608));
        assert_eq!(given(&[(165_535, 65_536), (100_000, 1)]), Some(262_144));
    }

    #[test]
    fn slots_of_a_range_never_overlap_and_the_hub_is_apart() {
        let root = HostIds::Range {
            base: 1 << 30,
            per_sandbox: 65_536,
            via: MapWriter::Root,
        };
        assert_eq!(root.extents(0, 3), [(0, 1 << 30, 4 * 65_536)]);
        let via = MapWriter::NewuidmapHelpers;
        let helpers = HostIds::Range {
            base: 100_000,
            per_sandbox: 65_536,
            via,
        };
        assert_eq!(
            helpers.extents(1000, 1),
            [(0, 1000, 1), (65_536, 100_000, 65_536)]
        );
        assert_eq!(HostIds::Single.extents(1000, 9), [(1000, 1000, 1)]);
        assert_eq!(HostIds::Single.extents(0, 9), [(1, 0, 1)]);
    }

    #[test]
    fn subordinate_ids_are_found_by_name_or_number() {
        let text = "other:1:5\nme:100000:65536\n1000:300000:70000\n# me:x\n";
        assert_eq!(own_entry(text, 1000, Some("me")), Some((300_000, 70_000)));
        assert_eq!(own_entry(text, 1001, Some("me")), Some((100_000, 65_536)));
        assert_eq!(own_entry(text, 7, None), None);
    }
}
