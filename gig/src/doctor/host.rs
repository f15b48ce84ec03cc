//! The kernel and the programs: what is set, installed, restricted.

use std::{fs, path::Path, process::Command};

use rustix::process::{Resource, getrlimit};

use crate::{doctor::Check, run::LEAST_FILES};

pub(super) fn examine() -> Vec<Check> {
    // What fails for want of these fails anywhere.
    let mut checks = vec![limits(
        getrlimit(Resource::Nofile).maximum,
        getrlimit(Resource::Fsize).maximum,
    )];
    checks.extend([kernel(), landlock(), apparmor(), bubblewrap()]);
    checks
}

/// What the process was given of open files (gig takes what it may have) and of the size of one.
fn limits(files: Option<u64>, size: Option<u64>) -> Check {
    let name = "limits of the process";
    if let Some(files) = files.filter(|files| *files < LEAST_FILES) {
        return Check::missing(name, format!("at most {files} open files"))
            .costs("sandboxes do not start, or serve few connections; what fails below may fail for that")
            .cure("ulimit -n 4096 where gig is started, or LimitNOFILE= in its unit");
    }
    if let Some(size) = size.filter(|size| *size < SMALLEST_FILE) {
        return Check::missing(name, format!("files of at most {size} octets"))
            .costs("records, images and what sandboxes write end there; what fails below may fail for that")
            .cure("ulimit -f unlimited where gig is started, or LimitFSIZE=infinity in its unit");
    }
    let files = files.map_or_else(|| "any number of".to_owned(), |files| files.to_string());
    Check::works(name, format!("{files} open files"))
}

fn setting(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn kernel() -> Check {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST_KERNEL {
        Check::works("kernel", format!("Linux {release}"))
    } else {
        Check::missing(
            "kernel",
            format!("Linux {release}; 5.14 is the oldest that gig supports"),
        )
        .costs("pidfd, close_range and cgroup.kill are needed and are younger")
        .cure("upgrade the kernel")
    }
}

fn landlock() -> Check {
    let name = "Landlock";
    match gig_sandbox::landlock_abi() {
        Some(abi) if abi >= SCOPES_ABI => Check::works(name, format!("ABI {abi}")),
        Some(abi) => Check::limited(name, format!("ABI {abi}"))
            .costs("signals and abstract sockets are not scoped by a second layer")
            .cure("Linux 6.12 or newer"),
        None => Check::limited(name, "not in this kernel, or not in its lsm= list")
            .costs("files are kept by mounts and ids alone, without a second layer")
            .cure("add landlock to the kernel's lsm= parameter, or Linux 5.19 or newer"),
    }
}

fn apparmor() -> Check {
    let name = "AppArmor's restriction";
    let restricts = setting(RESTRICTS).as_deref() == Some("1");
    let own = setting("/proc/self/attr/current").unwrap_or_default();
    restriction(name, gig_netns::try_user_namespace(), restricts, &own)
}

/// What was tried counts. The setting only says whose doing a refusal is, and `own`, gig's profile, why there is none.
fn restriction(name: &str, tried: Result<(), String>, restricts: bool, own: &str) -> Check {
    let refused = match tried {
        Ok(()) if restricts && own.contains("unconfined") && !own.starts_with("unconfined") => {
            return Check::works(name, format!("tried: lifted for gig by the profile {own}"));
        }
        Ok(()) if restricts => {
            return Check::works(name, "tried: on user namespaces, but not for this user");
        }
        Ok(()) => return Check::works(name, "tried: none on user namespaces"),
        Err(refused) => refused,
    };
    if !restricts {
        // The checks of user namespaces say more.
        return Check::works(
            name,
            format!("none, though user namespaces fail: {refused}"),
        );
    }
    let found = format!("{refused}: kernel.apparmor_restrict_unprivileged_userns is 1");
    Check::missing(name, found)
        .costs("user namespaces hold no capabilities: no sandbox without root")
        .cure(
            "give gig and bwrap a profile with \"userns,\" in /etc/apparmor.d and load it with \
             apparmor_parser -r, or: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        )
}

#[expect(
    clippy::disallowed_methods,
    reason = "asks a host program for its version"
)]
fn version_of(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program)
        .arg(argument)
        .env_clear()
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn bubblewrap() -> Check {
    let name = "bubblewrap";
    // As the engine finds it: another one is not the one that sandboxes get.
    let Some(path) = gig_sandbox::bwrap() else {
        return Check::missing(name, "bwrap is not installed")
            .costs("no sandbox: it is the engine that gig starts programs with")
            .cure("sudo apt-get install bubblewrap");
    };
    let shown = path.display();
    let Some(version) = version_of(&path, "--version") else {
        return Check::missing(name, format!("{shown} --version fails"))
            .costs("no sandbox")
            .cure("sudo apt-get install --reinstall bubblewrap");
    };
    let number = version.rsplit(' ').next().unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    let numbers = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if numbers < OLDEST_BWRAP {
        return Check::missing(
            name,
            format!("{version} at {shown}; 0.5 is the oldest that works"),
        )
        .costs("options that gig needs are younger")
        .cure("upgrade bubblewrap");
    }
    Check::works(name, format!("{version} at {shown}"))
}

/// Ubuntu 24.04 sets it.
const RESTRICTS: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
/// `cgroup.kill` and the rest of what gig calls (pidfd_open, close_range) are in this one.
const OLDEST_KERNEL: (u32, u32) = (5, 14);
/// Scopes of signals and abstract sockets.
const SCOPES_ABI: u32 = 6;
/// `--userns-block-fd` and `--perms` work from this one.
const OLDEST_BWRAP: (u32, u32) = (0, 5);

/// Less than a record of one run, or an image's layer, may take.
const SMALLEST_FILE: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn limits_that_nothing_works_under_are_told_of() {
        for (files, size, cure) in [
            (Some(64), None, "ulimit -n"),
            (Some(4096), Some(1024), "ulimit -f"),
        ] {
            let check = limits(files, size);
            assert_eq!(check.state, State::Missing, "{check:?}");
            assert!(check.cure.contains(cure), "{check:?}");
        }
        assert_eq!(limits(Some(1024), None).state, State::Works);
        assert_eq!(limits(None, None).state, State::Works);
    }

    #[test]
    fn a_restriction_is_what_was_refused_and_no_setting() {
        let refused = || Err("mounting in one: Permission denied".to_owned());
        for (tried, restricts, own, state, found) in [
            (Ok(()), false, "", State::Works, "tried: none"),
            (
                Ok(()),
                true,
                "unconfined",
                State::Works,
                "not for this user",
            ),
            (
                Ok(()),
                true,
                "gig (unconfined)",
                State::Works,
                "by the profile gig",
            ),
            (
                refused(),
                true,
                "gig (unconfined)",
                State::Missing,
                "mounting in one",
            ),
            (
                refused(),
                true,
                "unconfined",
                State::Missing,
                "_userns is 1",
            ),
            (
                refused(),
                false,
                "unconfined",
                State::Works,
                "mounting in one",
            ),
        ] {
            let check = restriction("AppArmor", tried, restricts, own);
            assert_eq!(check.state, state, "{check:?}");
            assert!(check.found.contains(found), "{check:?}");
            assert_eq!(check.cure.is_empty(), state == State::Works, "{check:?}");
        }
    }
}
