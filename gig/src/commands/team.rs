//! `gig team add|rm|ls`: who is of which team, asked of the appliance that runs on this machine.

use anyhow::bail;
use hyper::Method;
use serde_json::{Value, json};

use super::sandboxes::{items, text};
use crate::{
    args::{
        OutputArgs,
        team::{TeamArgs, TeamCommand},
    },
    exit_status::ExitStatus,
    local_api::{Asking, segment, whole},
    output::{self, printable},
};

/// Does it.
///
/// # Errors
/// When no appliance runs, or it refuses.
pub(crate) fn team(command: TeamCommand) -> anyhow::Result<ExitStatus> {
    match command {
        TeamCommand::Add(args) => add(&args),
        TeamCommand::Rm(args) => remove(&args),
        TeamCommand::Ls(output) => list(&output),
    }
}

fn list(output: &OutputArgs) -> anyhow::Result<ExitStatus> {
    let document = whole("/api/v1/teams")?;
    let line = |one: &Value| {
        let members = members(one).join(" ");
        format!("{:<24} {}", text(one, "name"), printable(&members))
    };
    let lines: Vec<String> = items(&document).map(line).collect();
    let said = match lines.is_empty() {
        true => "there is no team".to_owned(),
        false => lines.join("\n"),
    };
    output::print(output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

fn add(args: &TeamArgs) -> anyhow::Result<ExitStatus> {
    let (tag, mut wanted) = there(&args.name)?;
    wanted.extend(args.members.iter().cloned());
    put(args, tag.as_deref(), &wanted)
}

fn remove(args: &TeamArgs) -> anyhow::Result<ExitStatus> {
    let (tag, there) = there(&args.name)?;
    let Some(tag) = tag else {
        bail!("there is no team {}", args.name);
    };
    if args.members.is_empty() {
        let path = format!("/api/v1/teams/{}", segment(&args.name));
        let asking = Asking::new(Method::DELETE, &path).header("if-match", &format!("\"{tag}\""));
        let answer = asking.send()?.json()?;
        return told(
            &args.output,
            &answer,
            &format!("team {} is no more", args.name),
        );
    }
    let is_named = |member: &String| {
        args.members
            .iter()
            .any(|one| one.eq_ignore_ascii_case(member))
    };
    if let Some(stranger) = args
        .members
        .iter()
        .find(|one| !there.iter().any(|member| member.eq_ignore_ascii_case(one)))
    {
        bail!("{stranger} is not of team {}", args.name);
    }
    let left: Vec<String> = there.iter().filter(|one| !is_named(one)).cloned().collect();
    put(args, Some(&tag), &left)
}

/// Of what is there: its tag, and its members.
fn there(name: &str) -> anyhow::Result<(Option<String>, Vec<String>)> {
    let path = format!("/api/v1/teams/{}", segment(name));
    let Some(answer) = Asking::new(Method::GET, &path).send_unless_missing()? else {
        return Ok((None, Vec::new()));
    };
    let tag = answer.tag().map(str::to_owned);
    Ok((tag, members(&answer.json()?)))
}

fn put(args: &TeamArgs, tag: Option<&str>, wanted: &[String]) -> anyhow::Result<ExitStatus> {
    let path = format!("/api/v1/teams/{}", segment(&args.name));
    let asking = Asking::new(Method::PUT, &path);
    let asking = match tag {
        Some(tag) => asking.header("if-match", &format!("\"{tag}\"")),
        None => asking.header("if-none-match", "*"),
    };
    let answer = asking.body(&json!({ "members": wanted })).send()?.json()?;
    let now = members(&answer);
    let said = match now.is_empty() {
        true => format!("nobody is of team {}", args.name),
        false => format!("of team {}: {}", args.name, now.join(" ")),
    };
    told(&args.output, &answer, &said)
}

fn members(one: &Value) -> Vec<String> {
    let members = one.get("members").and_then(Value::as_array);
    let names = members.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// What was done, or that it waits for a second person.
fn told(output: &OutputArgs, answer: &Value, done: &str) -> anyhow::Result<ExitStatus> {
    let said = match answer.get("id").and_then(Value::as_u64) {
        Some(id) => format!("it waits for a second person, as proposal {id}"),
        None => done.to_owned(),
    };
    output::print(output.json, answer, &said)?;
    Ok(ExitStatus::SUCCESS)
}
