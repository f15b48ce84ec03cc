//! Real sandboxes, started by this very program as a person would start them.

use std::process::{Command, Output, Stdio};

use crate::doctor::Check;

/// The checks, and whether a whole sandbox works.
pub(super) fn examine() -> (Vec<Check>, bool) {
    let whole = whole_sandbox();
    let works = whole.state == super::State::Works;
    let mut checks = vec![whole];
    if works {
        checks.extend(layers());
        checks.push(shown_files());
        checks.extend(OPTIONS.iter().map(option));
    }
    (checks, works)
}

/// Something that may be missing on one host and present on another, tried by its option.
struct OptionTrial {
    name: &'static str,
    options: &'static [&'static str],
    costs: &'static str,
    cure: &'static str,
}

const OPTIONS: &[OptionTrial] = &[
    OptionTrial {
        name: "limit: memory",
        options: &["--memory", "256MB"],
        costs: "--memory is refused",
        cure: "run gig where cgroup v2 has this controller, in a systemd unit with Delegate=yes",
    },
    OptionTrial {
        name: "limit: processes",
        options: &["--pids", "64"],
        costs: "--pids is refused",
        cure: "run gig where cgroup v2 has this controller, in a systemd unit with Delegate=yes",
    },
    OptionTrial {
        name: "limit: processor time",
        options: &["--cpus", "1"],
        costs: "--cpus is refused",
        cure: "run gig where cgroup v2 has this controller, in a systemd unit with Delegate=yes",
    },
    OptionTrial {
        name: "limit: /tmp",
        options: &["--tmp-size", "16MB"],
        costs: "--tmp-size is refused",
        cure: "upgrade bubblewrap (--size needs 0.5)",
    },
    OptionTrial {
        name: "seccomp: strict",
        options: &["--seccomp", "strict"],
        costs: "only the default filter of system calls can be used",
        cure: "a kernel with CONFIG_SECCOMP_FILTER",
    },
    OptionTrial {
        name: "network: disconnected",
        options: &["--network", "disconnected"],
        costs: "sandboxes without any interface cannot be had",
        cure: "see the checks above",
    },
];

#[expect(
    clippy::disallowed_methods,
    reason = "starts this program as a person would"
)]
fn run(options: &[&str], program: &[&str]) -> std::io::Result<Output> {
    // The record is told and not kept; whatever is wrong with this user's vault is no question of what works here.
    let place = tempfile::tempdir()?;
    let mut command = Command::new("/proc/self/exe");
    for name in gig_vault::environment::OWN {
        command.env_remove(name);
    }
    command
        .env_remove("GIG_MASTER_KEY_FILE")
        .env("GIG_DATA_DIR", place.path())
        .args(["run", "--quiet", "--audit", "-"])
        .args(options)
        .arg("--")
        .args(program)
        .stdin(Stdio::null())
        .output()
}

/// What went wrong, as gig itself said it; `None` when the program ran and ended well.
fn complaint(outcome: std::io::Result<Output>) -> Option<String> {
    match outcome {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            // gig says what failed, then why, the innermost cause last.
            let mut causes = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("because: "));
            let mut words = text.lines().filter(|line| !line.starts_with('{'));
            let said = causes.next_back().or_else(|| words.next_back());
            Some(said.map_or_else(|| output.status.to_string(), str::to_owned))
        }
        Err(error) => Some(format!("gig cannot start itself: {error}")),
    }
}

fn whole_sandbox() -> Check {
    let name = "a whole sandbox";
    match complaint(run(&[], &["true"])) {
        None => Check::works(
            name,
            "started, its own network and record, ended with status 0",
        ),
        Some(why) => Check::missing(name, why)
            .costs("gig run does not work here")
            .cure("the checks above name what is missing"),
    }
}

/// Files of whoever calls, shown to a program.
fn shown_files() -> Check {
    let name = "files of yours inside";
    let tried = tempfile::tempdir().and_then(|folder| {
        let path = folder.path().to_string_lossy();
        run(&["--rw", &path], &["touch", &format!("{path}/x")])
    });
    match complaint(tried) {
        None => Check::works(name, "a folder was shown and written (--rw)"),
        Some(why) => Check::limited(name, why)
            .costs("--ro, --rw and --rootfs are refused")
            .cure(
                "as root: CAP_SYS_ADMIN and Linux 5.12, on a file system that maps ids; or run gig as the user who owns \
                 them",
            ),
    }
}

fn option(trial: &OptionTrial) -> Check {
    match complaint(run(trial.options, &["true"])) {
        None => Check::works(
            trial.name,
            format!("enforced ({})", trial.options.join(" ")),
        ),
        Some(why) => Check::limited(trial.name, why)
            .costs(trial.costs)
            .cure(trial.cure),
    }
}

/// Each layer as the start of a sandbox reports it in its record.
fn layers() -> Vec<Check> {
    let Ok(output) = run(&[], &["true"]) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stderr);
    let started = text
        .lines()
        .filter_map(|line| serde_json::from_str::<gig_audit::Record>(line).ok())
        .find(|record| record.entry.event == gig_audit::Event::SandboxStart);
    let findings = started
        .map(|record| record.entry.findings)
        .unwrap_or_default();
    findings
        .iter()
        .filter_map(|finding| layer(finding))
        .collect()
}

/// `NAME: enforced`, `NAME: partial (missing: WHAT)`, `NAME: off (WHY)`.
fn layer(finding: &str) -> Option<Check> {
    let (name, state) = finding.split_once(": ")?;
    let name = format!("layer: {name}");
    // Limits that nobody asked for are tried by their options below.
    Some(
        if state.starts_with("enforced") || name.ends_with(" cgroup") {
            Check::works(&name, state)
        } else {
            Check::limited(&name, state).costs("the other layers hold alone where this one would")
        },
    )
}
