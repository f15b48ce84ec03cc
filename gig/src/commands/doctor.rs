//! `gig doctor`: tries every mechanism for real and says what is missing, what that costs, the cure.

use serde_json::json;

use crate::{
    args::OutputArgs,
    doctor::{self, Check, State},
    exit_status::ExitStatus,
    output::{self, printable},
};

/// Exits 0 when a whole sandbox works here, 1 when none does.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn execute(args: &OutputArgs) -> anyhow::Result<ExitStatus> {
    let findings = doctor::examine();
    let document = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sandboxes_work": findings.sandboxes_work,
        "checks": findings.checks,
    });
    output::print(args.json, &document, &text(&findings))?;
    Ok(if findings.sandboxes_work {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

fn text(findings: &doctor::Findings) -> String {
    let width = findings.checks.iter().map(|check| check.name.len()).max();
    let mut text = String::new();
    for check in &findings.checks {
        text += &line(check, width.unwrap_or_default());
    }
    let count = |state: State| {
        findings
            .checks
            .iter()
            .filter(|check| check.state == state)
            .count()
    };
    text += &match (
        findings.sandboxes_work,
        count(State::Limited),
        count(State::Missing),
    ) {
        (true, 0, 0) => "Everything works.".to_owned(),
        (true, limited, missing) => format!(
            "Sandboxes work here; {} of {} checks fall short, see above.",
            limited + missing,
            findings.checks.len()
        ),
        (false, ..) => {
            "No sandbox can be started here: the checks marked \"missing\" say why.".to_owned()
        }
    };
    text
}

fn line(check: &Check, width: usize) -> String {
    let name = &check.name;
    let mut text = format!(
        "{:<8} {name:<width$}  {}\n",
        check.state,
        printable(&check.found)
    );
    if !check.costs.is_empty() {
        text += &format!(
            "{:9}{:width$}  costs: {}\n",
            "",
            "",
            printable(&check.costs)
        );
    }
    if !check.cure.is_empty() {
        text += &format!("{:9}{:width$}  cure:  {}\n", "", "", printable(&check.cure));
    }
    text
}
