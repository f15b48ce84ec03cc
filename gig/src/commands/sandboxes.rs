//! `gig ps|stop` and `gig server …`: asked of the appliance that runs on this machine.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, bail};
use gig_web::{
    PROFILE_HEADER,
    store::{Network, ServerKind, ServerSpec},
};
use hyper::Method;
use serde_json::{Value, json};

use crate::{
    args::{
        run::ProfileArg,
        serve::{PsArgs, SandboxArgs, ServerAddArgs, ServerArgs, ServerCommand, ServerStartArgs},
        value::{self, BindArg},
    },
    exit_status::ExitStatus,
    local_api::{Asking, ask, segment, whole},
    output::{self, printable},
    run::{environment::refuse_own_key, settings::own_path},
    server_files,
};

/// `gig ps`.
///
/// # Errors
/// When no appliance runs.
pub(crate) fn list(args: &PsArgs) -> anyhow::Result<ExitStatus> {
    let mut document = whole("/api/v1/sandboxes")?;
    if let Some(items) = document.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|one| args.all || is_in(one, "running") || is_in(one, "elsewhere"));
    }
    let lines: Vec<String> = items(&document).map(line).collect();
    let said = match lines.is_empty() {
        true => "no sandbox runs".to_owned(),
        false => lines.join("\n"),
    };
    output::print(args.output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// A sandbox as a line; of one that another node has or had, with that.
fn line(one: &Value) -> String {
    let state = match one.get("exit_status").and_then(Value::as_u64) {
        Some(status) => format!("ended {status}"),
        None => text(one, "state"),
    };
    let at = match is_in(one, "elsewhere") || is_in(one, "lost") {
        true => format!("  at {}", printable(&text(one, "node"))),
        false => String::new(),
    };
    format!(
        "{}  {:<20} {:<10} {}  {} v{}  since {}{at}",
        text(one, "id"),
        text(one, "server"),
        state,
        printable(&text(one, "profile")),
        text(one, "policy"),
        one.get("policy_version")
            .and_then(Value::as_u64)
            .unwrap_or_default(),
        text(one, "started"),
    )
}

/// `gig stop SANDBOX`.
///
/// # Errors
/// When no such sandbox runs.
pub(crate) fn stop(args: &SandboxArgs) -> anyhow::Result<ExitStatus> {
    let id = sandbox(&args.sandbox, true)?;
    ask(
        Method::DELETE,
        &format!("/api/v1/sandboxes/{}", segment(&id)),
        None,
    )?;
    output::print(
        args.output.json,
        &json!({"stopping": id}),
        &format!("{id} is ending"),
    )?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig server …`.
///
/// # Errors
/// When no appliance runs, or it refuses.
pub(crate) fn server(command: ServerCommand) -> anyhow::Result<ExitStatus> {
    match command {
        ServerCommand::Add(args) => add(*args),
        ServerCommand::Ls(output) => {
            let document = whole("/api/v1/servers")?;
            let lines: Vec<String> = items(&document)
                .map(|one| {
                    let command = one.pointer("/spec/command").and_then(Value::as_array);
                    let words = command.into_iter().flatten().filter_map(Value::as_str);
                    let command = words.collect::<Vec<_>>().join(" ");
                    let foreign = one
                        .pointer("/spec/kind")
                        .is_some_and(|kind| kind == "foreign");
                    if foreign {
                        return format!("{:<20} (foreign)", text(one, "name"));
                    }
                    let source = |field| one.pointer(field).and_then(Value::as_str);
                    let source = source("/spec/source/from").zip(source("/spec/source/content"));
                    let source = source.map_or_else(String::new, |(from, content)| {
                        format!("  ({}, content {})", printable(from), printable(content))
                    });
                    format!("{:<20} {}{source}", text(one, "name"), printable(&command))
                })
                .collect();
            let said = match lines.is_empty() {
                true => "no server is registered".to_owned(),
                false => lines.join("\n"),
            };
            output::print(output.json, &document, &said)?;
            Ok(ExitStatus::SUCCESS)
        }
        ServerCommand::Rm(ServerArgs { name, output }) => {
            ask(
                Method::DELETE,
                &format!("/api/v1/servers/{}", segment(&name)),
                None,
            )?;
            server_files::forget(&name)
                .context("the server is forgotten, and its files are not")?;
            output::print(
                output.json,
                &json!({"removed": name}),
                &format!("{name} is forgotten"),
            )?;
            Ok(ExitStatus::SUCCESS)
        }
        ServerCommand::Start(ServerStartArgs { server, profile }) => {
            let ServerArgs { name, output } = server;
            let path = format!("/api/v1/servers/{}/start", segment(&name));
            let mut asking = Asking::new(Method::POST, &path);
            if let Some(profile) = &profile {
                asking = asking.header(PROFILE_HEADER, profile);
            }
            let document = asking.send()?.json()?;
            output::print(output.json, &document, &text(&document, "id"))?;
            Ok(ExitStatus::SUCCESS)
        }
    }
}

fn add(args: ServerAddArgs) -> anyhow::Result<ExitStatus> {
    let utf8 = |word: std::ffi::OsString| {
        let told = || anyhow::anyhow!("the appliance keeps text: the command is not UTF-8");
        word.into_string().map_err(|_| told())
    };
    let mut env = BTreeMap::new();
    for arg in args.env {
        let value = match arg.value {
            Some(value) => value,
            None => gig_vault::environment::var_os(&arg.name)
                .and_then(|value| value.into_string().ok())
                .with_context(|| format!("--env {}: it is not set here", arg.name))?,
        };
        refuse_own_key(&arg.name, value.as_ref())?;
        env.insert(arg.name, value);
    }
    let mut read_only = Vec::new();
    for BindArg { source, dest } in args.ro {
        let path = own_path(&source)
            .with_context(|| format!("cannot make {} absolute", source.display()))?;
        let path = utf8(path.into_os_string())?;
        read_only.push(match dest {
            Some(dest) => format!("{path}:{}", dest.display()),
            None => path,
        });
    }
    let typed = args.program.into_iter().map(utf8);
    let typed = typed.collect::<anyhow::Result<Vec<_>>>()?;
    let brings = args.source.image.is_some() || args.source.folder.is_some();
    refuse_relative(typed.first().filter(|_| !brings))?;
    if let Some(policy) = &args.policy {
        // Before anything is registered: else a server would stand there without what it was to be under.
        let path = format!("/api/v1/policies/{}", segment(policy));
        ask(Method::GET, &path, None).with_context(|| {
            format!("nothing was registered: `gig policy apply {policy} FILE` makes the policy")
        })?;
    }
    let (command, source) = server_files::bring(&args.name, &args.source, typed)?;
    let spec = ServerSpec {
        kind: match args.foreign {
            true => ServerKind::Foreign,
            false => ServerKind::Program,
        },
        command,
        source,
        env,
        secrets: args.secret,
        read_only,
        network: match args.profile {
            ProfileArg::External => Network::External,
            ProfileArg::Local => Network::Local,
            ProfileArg::Disconnected => Network::Disconnected,
        },
        memory: args.memory,
        pids: args.pids,
        cpu_millis: args.cpus.map(gig_sandbox::CpuShare::as_millis),
        idle_seconds: (!args.foreign).then_some(args.idle),
    };
    let body = serde_json::to_value(&spec)?;
    let was_there = register(&args.name, &body)?;
    if let Some(policy) = &args.policy {
        let wanted = json!({"server": args.name, "policy": policy});
        let put = Asking::new(Method::PUT, "/api/v1/assignments").header("if-match", "*");
        put.body(&wanted)
            .send()
            .context("the server is registered, and its policy not in force")?;
    }
    let said = match was_there {
        true => format!(
            "{} is changed: all of it is as this command says",
            args.name
        ),
        false => format!("{} is registered", args.name),
    };
    output::print(
        args.output.json,
        &json!({"server": args.name, "spec": body}),
        &said,
    )?;
    output::remark(unshown(&spec).into_iter().chain(unset(&spec)))?;
    Ok(ExitStatus::SUCCESS)
}

/// Secrets that it is to have, and that nobody has set.
fn unset(spec: &ServerSpec) -> impl Iterator<Item = String> {
    let is_unset = |name: &&String| {
        let path = format!("/api/v1/secrets/{}", segment(name));
        // Where that cannot be told the server is registered all the same.
        let secret = ask(Method::GET, &path, None).and_then(|answer| answer.json());
        secret.is_ok_and(|secret| secret.get("set") == Some(&Value::Bool(false)))
    };
    let unset = spec.secrets.iter().filter(is_unset);
    unset.map(|name| {
        format!(
            "there is no secret {name}, and the server does not start without it: gig secret set {name}"
        )
    })
}

/// What the command names of this host and its sandbox will not find.
fn unshown(spec: &ServerSpec) -> Vec<String> {
    if spec.source.is_some() {
        // Its paths are of what was brought.
        return Vec::new();
    }
    let shown = spec.read_only.iter().flat_map(|text| value::bind(text));
    let (there, absent): (Vec<_>, Vec<_>) = shown.partition(|bind| bind.source.exists());
    let shown = |path: &Path| {
        let mut places = there
            .iter()
            .map(|bind| bind.dest.as_ref().unwrap_or(&bind.source));
        gig_sandbox::is_shown(path) || places.any(|place| path.starts_with(place))
    };
    let named = spec.command.iter().skip(1).map(Path::new);
    let missing = named.filter(|path| path.is_absolute() && path.exists() && !shown(path));
    let missing = missing.map(|path| {
        let path = path.display();
        format!(
            "{path} is on this host and not shown to the server: show the folder that it needs (--ro), or bring it \
             with --folder"
        )
    });
    let absent = absent.iter().map(|bind| {
        let path = bind.source.display();
        format!("{path} is not there now, and the server does not start without it")
    });
    missing.chain(absent).collect()
}

/// A program that is named from where this command runs is somewhere else for the appliance.
fn refuse_relative(program: Option<&String>) -> anyhow::Result<()> {
    let is_relative = |word: &&String| word.contains('/') && !word.starts_with('/');
    if let Some(word) = program.filter(is_relative) {
        bail!(
            "{word} says where the program is from here, and the appliance starts it from somewhere else: name its \
             whole path, as {}",
            own_path(word.as_ref())?.display()
        );
    }
    Ok(())
}

/// Registers a server, or changes what is there now; whether one was.
fn register(name: &str, spec: &Value) -> anyhow::Result<bool> {
    let path = format!("/api/v1/servers/{}", segment(name));
    let there = Asking::new(Method::GET, &path).send_unless_missing()?;
    let put = Asking::new(Method::PUT, &path).body(spec);
    let put = match &there {
        None => put.header("if-none-match", "*"),
        Some(there) => {
            let tag = there
                .tag()
                .context("the appliance did not say what is there")?;
            put.header("if-match", &format!("\"{tag}\""))
        }
    };
    put.send()?;
    Ok(there.is_some())
}

fn is_in(one: &Value, state: &str) -> bool {
    text(one, "state") == state
}

/// A sandbox's id: as it was typed, or the newest of a server; of what runs one of this node's before others.
///
/// # Errors
/// When there is none.
pub(super) fn sandbox(wanted: &str, running: bool) -> anyhow::Result<String> {
    let document = whole("/api/v1/sandboxes")?;
    let fitting: &[&str] = match running {
        true => &["running", "elsewhere"],
        false => &[""],
    };
    let among = |state: &&str| {
        named(&document, wanted, |one| {
            state.is_empty() || is_in(one, state)
        })
    };
    fitting.iter().find_map(among).with_context(|| {
        let how = if running { "runs" } else { "is known" };
        format!("no sandbox {wanted} {how}")
    })
}

/// The same, of those that `fit`, if there is one.
///
/// # Errors
/// When no appliance runs.
pub(super) fn sandbox_among(
    wanted: &str,
    fit: impl Fn(&Value) -> bool,
) -> anyhow::Result<Option<String>> {
    Ok(named(&whole("/api/v1/sandboxes")?, wanted, fit))
}

/// The first of a list that is called so and fits.
fn named(document: &Value, wanted: &str, fit: impl Fn(&Value) -> bool) -> Option<String> {
    let found = items(document).find(|one| {
        let named = text(one, "id") == wanted || text(one, "server") == wanted;
        named && fit(one)
    });
    found.map(|one| text(one, "id"))
}

pub(super) fn items(document: &Value) -> impl Iterator<Item = &Value> {
    document
        .get("items")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

pub(super) fn text(one: &Value, field: &str) -> String {
    one.get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_servers_sandboxes_the_newest_that_fits_is_meant() {
        let document = json!({"items": [
            {"id": "3", "server": "docs", "state": "elsewhere"},
            {"id": "2", "server": "docs", "state": "running"},
            {"id": "1", "server": "mail", "state": "ended"},
        ]});
        let found = |wanted: &str, state: &str| named(&document, wanted, |one| is_in(one, state));
        assert_eq!(found("docs", "running").as_deref(), Some("2"));
        assert_eq!(found("docs", "elsewhere").as_deref(), Some("3"));
        assert_eq!(found("1", "ended").as_deref(), Some("1"));
        assert_eq!(found("mail", "running"), None);
        assert_eq!(named(&document, "docs", |_| true).as_deref(), Some("3"));
    }

    #[test]
    fn a_sandbox_of_another_node_is_listed_with_that() {
        let one = |state: &str| json!({"id": "3", "server": "docs", "state": state, "node": "b"});
        assert!(line(&one("elsewhere")).ends_with("  at b"));
        assert!(line(&one("lost")).ends_with("  at b"));
        assert!(!line(&one("running")).contains("  at "));
    }
}
