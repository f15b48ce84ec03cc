//! `gig approvals …`: what waits for a person, asked of the appliance that runs on this machine.

use anyhow::bail;
use hyper::Method;
use serde_json::{Value, json};

use crate::{
    args::approvals::{ApprovalsAllowArgs, ApprovalsCommand, LastingArg, WidthArg},
    exit_status::ExitStatus,
    local_api::{ask, segment},
    output::{self, printable},
};

/// `gig approvals ls|allow|deny`.
///
/// # Errors
/// When no appliance runs, or it refuses.
pub(crate) fn execute(command: ApprovalsCommand) -> anyhow::Result<ExitStatus> {
    match command {
        ApprovalsCommand::Ls(output) => {
            let document = ask(Method::GET, "/api/v1/held", None)?.json()?;
            output::print(output.json, &document, &listed(&document))?;
        }
        ApprovalsCommand::Allow(args) => allow(&args)?,
        ApprovalsCommand::Deny(args) => {
            let path = format!("/api/v1/held/{}/deny", segment(&args.id));
            ask(Method::POST, &path, None)?;
            let said = format!("{} is denied", printable(&args.id));
            output::print(args.output.json, &json!({"denied": args.id}), &said)?;
        }
    }
    Ok(ExitStatus::SUCCESS)
}

fn allow(args: &ApprovalsAllowArgs) -> anyhow::Result<()> {
    let lasting = match args.lasting {
        LastingArg::Once => "once",
        LastingArg::Hour => "hour",
        LastingArg::Ever => "ever",
    };
    let width = args.width.map(|width| match width {
        WidthArg::Path => "path",
        WidthArg::Host => "host",
    });
    let of_record = is_record(&args.id);
    if of_record && args.lasting == LastingArg::Once {
        bail!(
            "{} is the record of what was denied, which is over: a rule lets the next one pass, --for hour or --for ever",
            args.id
        );
    }
    let mut body = json!({"for": lasting, "reason": args.reason});
    if let (Some(width), Some(fields)) = (width, body.as_object_mut()) {
        fields.insert("width".to_owned(), width.into());
    }
    let path = match of_record {
        true => format!("/api/v1/audit/{}/allow", segment(&args.id)),
        false => format!("/api/v1/held/{}/allow", segment(&args.id)),
    };
    let answer = ask(Method::POST, &path, Some(&body))?.json()?;
    let id = printable(&args.id);
    let said = if let Some(proposal) = answer.get("state").and_then(|_| answer.get("id")) {
        let before = answer.get("in_place_of");
        let before = before.map(|before| {
            format!(", with what your proposal {before} asked for, which waits no more by itself")
        });
        let before = before.unwrap_or_default();
        format!("{id} waits for a second person: proposal {proposal}{before}")
    } else if let Some(version) = answer.get("version") {
        let policy = answer.get("name").and_then(Value::as_str);
        let policy = printable(policy.unwrap_or_default());
        format!("{id} is allowed by a rule of {policy}, version {version}")
    } else {
        format!("{id} is allowed once")
    };
    let document = json!({"allowed": args.id, "for": lasting, "answer": answer});
    output::print(args.output.json, &document, &said)
}

/// Whether a record is meant, as the list has it for a denial (`1-92`), and no request that waits.
fn is_record(id: &str) -> bool {
    let numbers = id.split_once('-').map(<[&str; 2]>::from);
    numbers.is_some_and(|both| {
        both.iter()
            .all(|number| !number.is_empty() && number.bytes().all(|one| one.is_ascii_digit()))
    })
}

fn under(policy: &str) -> String {
    match policy {
        "" => "no policy assigned".to_owned(),
        name => format!("policy {name}"),
    }
}

fn listed(document: &Value) -> String {
    let text = |one: &Value, field: &str| {
        let text = one.get(field).and_then(Value::as_str);
        printable(text.unwrap_or_default())
    };
    let items = |field: &str| {
        let items = document.get(field).and_then(Value::as_array);
        items.cloned().unwrap_or_default()
    };
    let mut lines: Vec<String> = Vec::new();
    for one in items("items") {
        lines.push(format!(
            "{}  {}  server {}, {}, until {}",
            text(&one, "id"),
            text(&one, "asks"),
            text(&one, "server"),
            under(&text(&one, "policy")),
            text(&one, "until"),
        ));
    }
    if lines.is_empty() {
        lines.push("nothing waits".to_owned());
    }
    for one in items("denied") {
        let count = one.get("count").and_then(Value::as_u64).unwrap_or_default();
        let port = one.get("port").and_then(Value::as_u64);
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        lines.push(format!(
            "denied {count} times: {}{port}  server {}, {}, record {}",
            text(&one, "host"),
            text(&one, "server"),
            under(&text(&one, "policy")),
            text(&one, "record"),
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denials_record_is_told_from_a_request_that_waits() {
        assert!(is_record("1-92") && is_record("12-3456"));
        for id in ["", "-", "1-", "-2", "1", "0193-ab", "1-2-3", "9a1c-22"] {
            assert!(!is_record(id), "{id}");
        }
    }
}
