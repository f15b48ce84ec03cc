//! `gig netns register|ls|rm`: asked of the appliance that runs on this machine.

use anyhow::Context;
use gig_web::PROFILE_HEADER;
use hyper::Method;
use serde_json::{Value, json};

use super::sandboxes::{self, items, text};
use crate::{
    args::{
        OutputArgs,
        netns::{NetnsCommand, RegisterArgs},
        serve::SandboxArgs,
    },
    exit_status::ExitStatus,
    local_api::{Asking, ask, segment, whole},
    output::{self, printable},
};

/// `gig netns …`.
///
/// # Errors
/// When no appliance runs, or it refuses.
pub(crate) fn execute(command: &NetnsCommand) -> anyhow::Result<ExitStatus> {
    match command {
        NetnsCommand::Register(args) => register(args),
        NetnsCommand::Ls(output) => list(output),
        NetnsCommand::Rm(args) => remove(args),
    }
}

fn register(args: &RegisterArgs) -> anyhow::Result<ExitStatus> {
    let path = match &args.namespace.path {
        Some(path) => {
            let whole = std::path::absolute(path)
                .with_context(|| format!("cannot make {} absolute", path.display()))?;
            Some(whole.to_str().context("the path is not UTF-8")?.to_owned())
        }
        None => None,
    };
    let wanted = json!({
        "pid": args.namespace.pid,
        "path": path,
        "ca_path": args.ca,
    });
    let path = format!("/api/v1/servers/{}/register", segment(&args.server));
    let mut asking = Asking::new(Method::POST, &path).body(&wanted);
    if let Some(profile) = &args.profile {
        asking = asking.header(PROFILE_HEADER, profile);
    }
    let document = asking.send()?.json()?;
    output::print(args.output.json, &document, &for_a_shell(&document))?;
    Ok(ExitStatus::SUCCESS)
}

/// Lines that a shell reads: `eval "$(gig netns register …)"`.
fn for_a_shell(document: &Value) -> String {
    let variables = document.get("variables").and_then(Value::as_object);
    let variables = variables.into_iter().flatten();
    let mut lines: Vec<String> = variables
        .filter_map(|(name, value)| Some(export(name, value.as_str()?)))
        .collect();
    lines.push(export("GIG_CA_PEM", &text(document, "ca_pem")));
    lines.join("\n")
}

fn export(name: &str, value: &str) -> String {
    format!("export {name}='{}'", value.replace('\'', "'\\''"))
}

fn list(output: &OutputArgs) -> anyhow::Result<ExitStatus> {
    let mut document = whole("/api/v1/sandboxes")?;
    if let Some(items) = document.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|one| text(one, "state") == "running" && is_foreign(one));
    }
    let lines: Vec<String> = items(&document)
        .map(|one| {
            format!(
                "{}  {:<20} {}  {}  since {}",
                text(one, "id"),
                text(one, "server"),
                printable(&text(one, "profile")),
                printable(&text(one, "namespace")),
                text(one, "started"),
            )
        })
        .collect();
    let said = match lines.is_empty() {
        true => "no network namespace is registered".to_owned(),
        false => lines.join("\n"),
    };
    output::print(output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

fn remove(args: &SandboxArgs) -> anyhow::Result<ExitStatus> {
    let found = sandboxes::sandbox_among(&args.sandbox, |one| {
        text(one, "state") == "running" && is_foreign(one)
    })?;
    let id = found.with_context(|| {
        format!(
            "no network namespace {} is registered: `gig netns ls` lists them",
            args.sandbox
        )
    })?;
    let path = format!("/api/v1/sandboxes/{}", segment(&id));
    ask(Method::DELETE, &path, None)?;
    let said = format!("{id} is let go");
    output::print(args.output.json, &json!({"stopping": id}), &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// Whether it is a namespace that gig did not make.
fn is_foreign(one: &Value) -> bool {
    one.get("namespace").is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_reads_is_one_value_whatever_is_in_it() {
        let document = json!({
            "variables": {"A": "it's $HOME `id` \"x\"", "B": ""},
            "ca_pem": "-----BEGIN\nEND\n",
        });
        let lines = for_a_shell(&document);
        let script = format!("{lines}\nprintf '%s|' \"$A\" \"$B\" \"$GIG_CA_PEM\"");
        #[expect(clippy::disallowed_methods, reason = "a shell is what reads it")]
        let read = std::process::Command::new("/bin/sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        let read = String::from_utf8(read.stdout).unwrap();
        assert_eq!(read, "it's $HOME `id` \"x\"||-----BEGIN\nEND\n|");
    }
}
