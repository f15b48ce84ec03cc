//! Limits of the whole sandbox, by a control group.
//!
//! Version 2 where it is writable (root, or a user with a delegated subtree),
//! else the controllers of version 1, which only root may write. A group is
//! made for the sandbox, the waiting bootstrap is put in, and an errand removes
//! it afterwards, also when this program is killed. Without a group memory and
//! processor limits are refused; processes are limited by RLIMIT_NPROC too.

mod hierarchy;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::process::Pid;

use crate::errand::Errand;
use crate::layer::{Layer, LayerReport};
use crate::spec::ResourceLimits;
use hierarchy::{Controller, Hierarchy};

/// Why a limit is refused.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The host gives no way to enforce it.
    #[error("--{option} cannot be enforced here: {reason}")]
    Unenforceable {
        /// `memory`, `cpus` or `pids`.
        option: &'static str,
        /// What is missing and the cure.
        reason: String,
    },
    /// The control group was not made or not taken.
    #[error("the control group {path} could not be set up")]
    Group {
        /// Its path.
        path: PathBuf,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
}

/// Period of the processor quota, the kernel's own default, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// The least quota that the kernel takes, in microseconds.
const CPU_QUOTA_MIN: u64 = 1000;
/// First kernel that counts RLIMIT_NPROC by user namespace.
const NPROC_BY_NAMESPACE: (u32, u32) = (5, 14);
const CURE: &str = "no writable control group was found; start gig by \
    `systemd-run --user --scope -p Delegate=yes gig run ...`, or as root";

/// What is to be limited, and where.
#[derive(Debug)]
pub(crate) struct Plan {
    settings: Vec<Setting>,
    hierarchies: Vec<Hierarchy>,
    name: String,
}

/// A file and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    controller: Controller,
    option: &'static str,
    value: u64,
}

/// A group with the sandbox in it. Dropping it ends what is in it and removes it.
#[derive(Debug)]
pub(crate) struct Group {
    paths: Vec<PathBuf>,
    _sweeper: Errand,
}

impl Group {
    /// Whether the kernel has killed in it for want of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        // By version 2 and version 1; other controllers' groups have neither.
        let files = ["memory.events", "memory.oom_control"];
        let texts = self.paths.iter().flat_map(|path| {
            let read = |file| fs::read_to_string(path.join(file)).ok();
            files.into_iter().filter_map(read)
        });
        texts.into_iter().any(|text| has_killed(&text))
    }
}

/// `oom_kill 3` in a line of its own.
fn has_killed(text: &str) -> bool {
    let counts = text
        .lines()
        .filter_map(|line| line.strip_prefix("oom_kill "));
    counts
        .filter_map(|count| count.trim().parse::<u64>().ok())
        .any(|count| count > 0)
}

/// Decides how the limits will be held.
pub(crate) fn plan(limits: &ResourceLimits, name: String) -> Result<Plan, LimitError> {
    let settings = settings(limits);
    let hierarchies = if settings.is_empty() {
        Vec::new()
    } else {
        hierarchy::writable(&controllers(&settings))
    };
    let mut kept = Vec::new();
    for setting in settings {
        let held = hierarchies
            .iter()
            .any(|place| place.controllers.contains(&setting.controller));
        if held {
            kept.push(setting);
        } else if setting.controller != Controller::Pids {
            let option = setting.option;
            return Err(LimitError::Unenforceable {
                option,
                reason: CURE.to_owned(),
            });
        } else if !counts_by_namespace() {
            let reason =
                format!("the kernel counts processes by sandbox since Linux 5.14, and {CURE}");
            return Err(LimitError::Unenforceable {
                option: "pids",
                reason,
            });
        }
    }
    let used = controllers(&kept);
    let hierarchies = hierarchies
        .into_iter()
        .filter(|place| place.controllers.iter().any(|one| used.contains(one)))
        .collect();
    Ok(Plan {
        settings: kept,
        hierarchies,
        name,
    })
}

fn settings(limits: &ResourceLimits) -> Vec<Setting> {
    let setting = |controller, option, value| Setting {
        controller,
        option,
        value,
    };
    let memory = limits
        .memory
        .map(|bytes| setting(Controller::Memory, "memory", bytes));
    let pids = limits.pids.map(|count| {
        // The sandbox's first process is ours.
        setting(Controller::Pids, "pids", u64::from(count).saturating_add(1))
    });
    let cpus = limits.cpus.map(|share| {
        let quota = u64::from(share.as_millis()).saturating_mul(CPU_PERIOD / 1000);
        setting(Controller::Cpu, "cpus", quota.max(CPU_QUOTA_MIN))
    });
    [memory, cpus, pids].into_iter().flatten().collect()
}

fn controllers(settings: &[Setting]) -> Vec<Controller> {
    settings.iter().map(|setting| setting.controller).collect()
}

fn counts_by_namespace() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= NPROC_BY_NAMESPACE,
        _ => false,
    }
}

impl Plan {
    /// The layer's state.
    pub(crate) fn report(&self) -> LayerReport {
        if self.hierarchies.is_empty() {
            return LayerReport::off(
                Layer::Cgroup,
                "no limit of the whole sandbox was asked for that needs one",
            );
        }
        LayerReport::enforced(Layer::Cgroup)
    }

    /// Makes the groups and puts the processes in.
    pub(crate) fn apply(self, members: &[Pid]) -> Result<Option<Group>, LimitError> {
        if self.hierarchies.is_empty() {
            return Ok(None);
        }
        let paths: Vec<PathBuf> = self
            .hierarchies
            .iter()
            .map(|place| place.parent.join(&self.name))
            .collect();
        let failed = |path: &PathBuf, source| LimitError::Group {
            path: path.clone(),
            source,
        };
        let names: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
        // Before the first group is made: whatever happens, it is removed.
        let sweeper = Errand::sweep_groups(&names)
            .map_err(|error| failed(&PathBuf::from(&self.name), error))?;
        for (place, path) in self.hierarchies.iter().zip(&paths) {
            fs::create_dir(path).map_err(|error| failed(path, error))?;
            for setting in &self.settings {
                if place.controllers.contains(&setting.controller) {
                    place
                        .set(path, setting.controller, setting.value)
                        .map_err(|error| failed(path, error))?;
                }
            }
            for member in members {
                fs::write(
                    path.join("cgroup.procs"),
                    member.as_raw_nonzero().to_string(),
                )
                .map_err(|error| failed(path, error))?;
            }
        }
        Ok(Some(Group {
            paths,
            _sweeper: sweeper,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::CpuShare;

    #[test]
    fn a_share_of_a_processor_is_a_quota_of_the_period() {
        let cpus = CpuShare::from_millis(1500);
        let limits = ResourceLimits {
            cpus,
            ..ResourceLimits::default()
        };
        let [setting] = settings(&limits).try_into().unwrap();
        assert_eq!(
            (setting.controller, setting.value),
            (Controller::Cpu, 150_000)
        );
    }

    #[test]
    fn only_what_was_killed_for_memory_counts() {
        let calm = "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\noom_group_kill 0\n";
        assert!(!has_killed(calm) && !has_killed(""));
        assert!(has_killed(&calm.replace("oom_kill 0", "oom_kill 2")));
        assert!(has_killed("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"));
        assert!(!has_killed("oom_kill_disable 1\nunder_oom 1\noom_kill 0\n"));
    }

    #[test]
    fn nothing_asked_for_needs_no_group() {
        let plan = plan(&ResourceLimits::default(), "gig-test".to_owned()).unwrap();
        assert!(plan.hierarchies.is_empty());
    }
}
