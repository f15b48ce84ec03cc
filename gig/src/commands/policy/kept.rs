//! `gig policy ls|get|apply|history|rollback|assign|unassign|rm`: the policies that the appliance keeps, asked of
//! the one that runs on this machine.

use std::io::IsTerminal as _;

use anyhow::{Context, bail};
use hyper::Method;
use serde_json::{Value, json};

use crate::{
    args::{
        OutputArgs,
        policy::{
            PolicyApplyArgs, PolicyAssignArgs, PolicyCheckArgs, PolicyFloorArgs, PolicyGetArgs,
            PolicyHistoryArgs, PolicyRmArgs, PolicyRollbackArgs, PolicyUnassignArgs,
        },
        team::PlaceArgs,
    },
    exit_status::ExitStatus,
    local_api::{Asking, segment, whole},
    output::{self, printable},
    stderr::tell,
};

/// `gig policy ls`.
///
/// # Errors
/// When no appliance runs.
pub(crate) fn list(output: &OutputArgs) -> anyhow::Result<ExitStatus> {
    let document = whole("/api/v1/policies")?;
    let said = versions(&document, |one| format!("{:<24} ", text(one, "name")));
    let said = if said.is_empty() {
        "no policy is kept".to_owned()
    } else {
        said
    };
    output::print(output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig policy get NAME`.
///
/// # Errors
/// When it is not kept.
pub(crate) fn get(args: &PolicyGetArgs) -> anyhow::Result<ExitStatus> {
    let mut path = format!("/api/v1/policies/{}", segment(&args.name));
    if let Some(version) = args.version {
        path += &format!("/versions/{version}");
    }
    let document = Asking::new(Method::GET, &path).send()?.json()?;
    let kept = text(&document, "document");
    let kept = kept.trim_end();
    // A program gets what was kept; a person's terminal obeys nothing of it.
    let shown = match std::io::stdout().is_terminal() {
        true => kept.lines().map(printable).collect::<Vec<_>>().join("\n"),
        false => kept.to_owned(),
    };
    output::print(args.output.json, &document, &shown)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig policy apply NAME FILE`: in force everywhere when it returns.
///
/// # Errors
/// When the document is not valid, or somebody else changed the policy meanwhile.
pub(crate) fn apply(args: &PolicyApplyArgs) -> anyhow::Result<ExitStatus> {
    let (file, document) = super::read(&args.file)?;
    let path = format!("/api/v1/policies/{}", segment(&args.name));
    let asking = Asking::new(Method::PUT, &path);
    let body = json!({"document": document, "reason": args.reason});
    let asking = match args.on.map_or_else(|| newest(&path), Ok)? {
        0 => asking.header("if-none-match", "*"),
        version => asking.header("if-match", &format!("\"{version}\"")),
    };
    let mut applied = asking.body(&body).send()?.json()?;
    let mut said = match applied.get("version").and_then(Value::as_u64) {
        Some(version) => format!(
            "{} is at version {version}, and in force where it is assigned",
            args.name
        ),
        None => format!("{} waits for a second person", args.name),
    };
    // It is applied: what is remarkable about it comes beside that.
    match looked_at(Some(&args.name), &document) {
        Ok(answer) => {
            said += &lines(&file, &answer, "findings");
            let findings = answer.get("findings").cloned().unwrap_or_default();
            if let Some(fields) = applied.as_object_mut() {
                fields.insert("findings".to_owned(), findings);
            }
        }
        Err(error) => tell(&format!(
            "gig: warning: the policy is applied, and could not be looked at for findings: {error:#}\n"
        )),
    }
    output::print(args.output.json, &applied, &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig policy check FILE --appliance`: 0 when the document is valid, findings or not; 1 when it is refused.
///
/// # Errors
/// When no appliance runs.
pub(super) fn check(args: &PolicyCheckArgs, file: &str, text: &str) -> anyhow::Result<ExitStatus> {
    let mut answer = looked_at(None, text)?;
    let valid = answer.get("valid") == Some(&Value::Bool(true));
    let mut said = format!("{file}: {}", if valid { "valid" } else { "refused" });
    said += &lines(file, &answer, "problems");
    said += &lines(file, &answer, "findings");
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("file".to_owned(), file.into());
    }
    output::print(args.output.json, &answer, &said)?;
    Ok(if valid {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

/// What the appliance says of a document, by this name or by whatever it calls itself.
fn looked_at(name: Option<&str>, document: &str) -> anyhow::Result<Value> {
    let mut body = json!({"document": document});
    if let (Some(name), Some(fields)) = (name, body.as_object_mut()) {
        fields.insert("name".to_owned(), name.into());
    }
    let asking = Asking::new(Method::POST, "/api/v1/policies/check");
    asking.body(&body).send()?.json()
}

/// Mistakes or findings, a line each, as they are told of a file.
fn lines(file: &str, answer: &Value, what: &str) -> String {
    let all = answer.get(what).and_then(Value::as_array);
    let number = |one: &Value, field: &str| one.get(field).and_then(Value::as_u64).unwrap_or(0);
    let line = |one: &Value| {
        let mut line = format!("\n{file}:");
        if number(one, "line") > 0 {
            line += &format!("{}:{}:", number(one, "line"), number(one, "column"));
        }
        for field in ["kind", "rule"] {
            let said = text(one, field);
            if !said.is_empty() {
                line += &format!(" {}:", printable(&said));
            }
        }
        format!("{line} {}", printable(&text(one, "message")))
    };
    all.into_iter().flatten().map(line).collect()
}

/// `gig policy history NAME`.
///
/// # Errors
/// When it is not kept.
pub(crate) fn history(args: &PolicyHistoryArgs) -> anyhow::Result<ExitStatus> {
    let before = args.before.map(|before| format!("&cursor={before}"));
    let path = format!(
        "/api/v1/policies/{}/versions?limit=200{}",
        segment(&args.name),
        before.unwrap_or_default()
    );
    let document = Asking::new(Method::GET, &path).send()?.json()?;
    let said = versions(&document, |_| String::new());
    output::print(args.output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig policy rollback NAME VERSION`.
///
/// # Errors
/// When there is no such version.
pub(crate) fn roll_back(args: &PolicyRollbackArgs) -> anyhow::Result<ExitStatus> {
    let policy = format!("/api/v1/policies/{}", segment(&args.name));
    let body = json!({"version": args.version, "reason": args.reason});
    let path = format!("{policy}/rollback");
    let mut asking = Asking::new(Method::POST, &path).body(&body);
    // One that was removed has none.
    let on = newest(&policy)?;
    if on > 0 {
        asking = asking.header("if-match", &format!("\"{on}\""));
    }
    let document = asking.send()?.json()?;
    let version = document
        .get("version")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    let said = format!(
        "version {} is in force again, as version {version}",
        args.version
    );
    output::print(args.output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig policy assign NAME (--server SERVER | --team TEAM | --for PROFILE | --all)`.
///
/// # Errors
/// When policy, server or team is not there, or a person were of two teams of different policies.
pub(crate) fn assign(args: &PolicyAssignArgs) -> anyhow::Result<ExitStatus> {
    let body = args.place.body(Some(&args.name));
    let answer = put("/api/v1/assignments", &args.place, &body)?;
    let done = format!("{} is in force for {}", args.name, in_words(&args.place));
    told(&args.output, &answer, &body, done)
}

/// `gig policy unassign (--server SERVER | --team TEAM | --for PROFILE | --all)`.
///
/// # Errors
/// When nothing is assigned there.
pub(crate) fn unassign(args: &PolicyUnassignArgs) -> anyhow::Result<ExitStatus> {
    let body = args.place.body(None);
    let answer = put("/api/v1/assignments", &args.place, &body)?;
    let done = format!("nothing is assigned to {} any more", in_words(&args.place));
    told(&args.output, &answer, &body, done)
}

/// For whom something is in force.
fn in_words(place: &PlaceArgs) -> String {
    match place.all {
        true => "all servers that have none of their own".to_owned(),
        false => place.words(),
    }
}

fn put(path: &str, place: &PlaceArgs, body: &Value) -> anyhow::Result<Value> {
    if !place.is_said() {
        bail!("say for whom: --server NAME, --team NAME, --for PROFILE, or --all");
    }
    // What else the list holds is not what was asked about.
    let put = Asking::new(Method::PUT, path).header("if-match", "*");
    put.body(body).send()?.json()
}

/// `gig policy rm NAME`.
///
/// # Errors
/// When it is not kept, or in force somewhere.
pub(crate) fn remove(args: &PolicyRmArgs) -> anyhow::Result<ExitStatus> {
    let path = format!("/api/v1/policies/{}", segment(&args.name));
    let mut asking = Asking::new(Method::DELETE, &path);
    let on = args.on.map_or_else(|| newest(&path), Ok)?;
    if on > 0 || args.on.is_some() {
        asking = asking.header("if-match", &format!("\"{on}\""));
    }
    let answer = asking.send()?.json()?;
    let done = format!("{} is removed; its versions can be read on", args.name);
    told(&args.output, &answer, &json!({"policy": args.name}), done)
}

/// What was done, or that it waits for a second person.
fn told(
    output: &OutputArgs,
    answer: &Value,
    body: &Value,
    done: String,
) -> anyhow::Result<ExitStatus> {
    let (shown, said) = match answer.get("id").and_then(Value::as_u64) {
        Some(id) => (
            answer,
            format!("it waits for a second person, as proposal {id}"),
        ),
        None => (body, done),
    };
    output::print(output.json, shown, &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// Whether that policy is the floor of the place that `body` names.
fn is_floor_of(policy: &str, body: &Value) -> anyhow::Result<bool> {
    let floors = whole("/api/v1/floors")?;
    let items = floors.get("items").and_then(Value::as_array).into_iter();
    let is_there = |one: &Value| {
        SUBJECTS
            .iter()
            .all(|what| text(one, what) == text(body, what))
    };
    Ok(items
        .flatten()
        .any(|one| text(one, "policy") == policy && is_there(one)))
}

/// Of what a policy is in force or a floor; of all where none is named.
const SUBJECTS: [&str; 3] = ["server", "team", "profile"];

/// `gig policy floor [NAME] [--server SERVER | --team TEAM | --for PROFILE | --all] [--rm]`.
///
/// # Errors
/// When policy, server or team is not there.
pub(crate) fn floor(args: &PolicyFloorArgs) -> anyhow::Result<ExitStatus> {
    if args.name.is_none() && !args.rm {
        let document = whole("/api/v1/floors")?;
        let items = document.get("items").and_then(Value::as_array);
        let lines = items.into_iter().flatten().map(|one| {
            let place = SUBJECTS.into_iter().find_map(|what| {
                let name = one.get(what).and_then(Value::as_str)?;
                Some(format!("{what} {name}"))
            });
            let place = place.unwrap_or_else(|| "all servers".to_owned());
            format!("{:<24} {}", printable(&place), text(one, "policy"))
        });
        let lines: Vec<String> = lines.collect();
        let said = match lines.is_empty() {
            true => "there is no floor".to_owned(),
            false => lines.join("\n"),
        };
        output::print(args.output.json, &document, &said)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let place = args.place.words();
    let wanted = args.name.as_deref().filter(|_| !args.rm);
    let body = args.place.body(wanted);
    if let Some(name) = args.name.as_deref().filter(|_| args.rm)
        && !is_floor_of(name, &body)?
    {
        bail!("{name} is no floor of {place}: `gig policy floor` lists which are");
    }
    let answer = put("/api/v1/floors", &args.place, &body)?;
    let done = match wanted {
        Some(name) => format!("{name} is the floor of {place}"),
        None => format!("{place} has no floor any more"),
    };
    told(&args.output, &answer, &body, done)
}

/// The newest version; 0 where there is none.
fn newest(path: &str) -> anyhow::Result<u64> {
    let Some(answer) = Asking::new(Method::GET, path).send_unless_missing()? else {
        return Ok(0);
    };
    let version = answer.json()?.get("version").and_then(Value::as_u64);
    version.context("the appliance did not say which version it has")
}

fn versions(document: &Value, before: impl Fn(&Value) -> String) -> String {
    let items = document.get("items").and_then(Value::as_array);
    let line = |one: &Value| {
        let version = one
            .get("version")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let (created, author, reason) = (
            text(one, "created"),
            text(one, "author"),
            text(one, "reason"),
        );
        format!(
            "{}v{version:<5} {created}  {}  {}",
            before(one),
            printable(&author),
            printable(&reason)
        )
    };
    items
        .into_iter()
        .flatten()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn text(one: &Value, field: &str) -> String {
    one.get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
