//! `gig logs SANDBOX|SERVER`: what was printed. Without options the last of it, octet for octet; with them,
//! lines that were kept, searched and followed.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use anyhow::{Context, bail};
use hyper::Method;
use serde_json::{Value, json};

use super::sandboxes::{items, sandbox, text};
use crate::{
    args::serve::LogsArgs,
    exit_status::ExitStatus,
    local_api::{Asking, ask, segment, whole},
    output::{self, printable},
};

/// Does it.
///
/// # Errors
/// When no appliance runs, or it knows neither.
pub(crate) fn execute(args: &LogsArgs) -> anyhow::Result<ExitStatus> {
    let searched = args.since.is_some() || args.grep.is_some() || args.follow;
    if searched {
        return search(args, &place(&args.which)?);
    }
    match sandbox(&args.which, false) {
        Ok(id) => last(args, &id),
        // None that is remembered: what a server printed before is still kept.
        Err(unknown) if is_server(&args.which)? => search(args, &Place::server(&args.which))
            .map_err(|error| error.context(unknown.to_string())),
        Err(_) => bail!(
            "no sandbox and no server is known as {}: gig ps and gig server ls name them",
            printable(&args.which)
        ),
    }
}

/// The last of what one sandbox printed; on a terminal, control characters are escaped.
fn last(args: &LogsArgs, id: &str) -> anyhow::Result<ExitStatus> {
    let path = format!("/api/v1/sandboxes/{}/log", segment(id));
    let answer = ask(Method::GET, &path, None)?;
    if args.output.json {
        let log = String::from_utf8_lossy(answer.octets());
        output::print(true, &json!({"sandbox": id, "log": log}), "")?;
        return Ok(ExitStatus::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    let written = if out.is_terminal() {
        let log = String::from_utf8_lossy(answer.octets());
        let shown: Vec<String> = log.lines().map(printable).collect();
        writeln!(out, "{}", shown.join("\n"))
    } else {
        out.write_all(answer.octets())
    };
    written
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    Ok(ExitStatus::SUCCESS)
}

/// A server, and perhaps one of its sandboxes.
struct Place {
    server: String,
    sandbox: Option<String>,
}

impl Place {
    fn server(name: &str) -> Self {
        Self {
            server: name.to_owned(),
            sandbox: None,
        }
    }
}

/// What is meant: a sandbox by its id, else a server by its name.
fn place(which: &str) -> anyhow::Result<Place> {
    let document = whole("/api/v1/sandboxes")?;
    let found = items(&document).find(|one| text(one, "id") == which);
    Ok(match found {
        Some(one) => Place {
            server: text(one, "server"),
            sandbox: Some(which.to_owned()),
        },
        None => Place::server(which),
    })
}

fn is_server(name: &str) -> anyhow::Result<bool> {
    let path = format!("/api/v1/servers/{}", segment(name));
    let found = Asking::new(Method::GET, &path).send_unless_missing()?;
    Ok(found.is_some())
}

fn search(args: &LogsArgs, place: &Place) -> anyhow::Result<ExitStatus> {
    let mut query = vec![format!("limit={PAGE}")];
    let said = [
        ("sandbox", &place.sandbox),
        ("since", &args.since),
        ("grep", &args.grep),
    ];
    for (name, value) in said {
        query.extend(
            value
                .iter()
                .map(|value| format!("{name}={}", segment(value))),
        );
    }
    let path = format!("/api/v1/servers/{}/log", segment(&place.server));
    let mut next = String::new();
    let mut all = Vec::new();
    let mut nodes = None;
    loop {
        let asked = format!("{path}?{}&after={next}", query.join("&"));
        let page = ask(Method::GET, &asked, None)?.json()?;
        next = text(&page, "next");
        if args.output.json {
            all.extend(lines(&page).cloned());
        } else {
            print(&page)?;
        }
        if page.get("more").and_then(Value::as_bool) == Some(true) {
            continue;
        }
        if nodes.is_none() {
            let of = |name: &str| page.get(name).cloned().unwrap_or_default();
            nodes = Some((of("node"), of("elsewhere")));
            tell_of_others(&page)?;
        }
        if !args.follow {
            break;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    if args.output.json {
        let (node, elsewhere) = nodes.unwrap_or_default();
        let document =
            json!({"server": place.server, "lines": all, "node": node, "elsewhere": elsewhere});
        output::print(true, &document, "")?;
    }
    Ok(ExitStatus::SUCCESS)
}

/// Each node keeps what its own sandboxes print: nothing found here is not nothing at all.
fn tell_of_others(page: &Value) -> anyhow::Result<()> {
    let others = page.get("elsewhere").and_then(Value::as_array);
    let others = others.into_iter().flatten().filter_map(Value::as_str);
    let others: Vec<&str> = others.collect();
    let words = (!others.is_empty()).then(|| {
        format!(
            "only what ran on {} is searched here: ask {} for theirs",
            text(page, "node"),
            others.join(", ")
        )
    });
    output::remark(words)
}

/// Whatever a program printed, a line is a line: control characters are escaped.
fn print(page: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut print = || {
        for line in lines(page) {
            let (time, said) = (text(line, "time"), text(line, "text"));
            writeln!(out, "{time}  {}", printable(&said))?;
        }
        out.flush()
    };
    print().context("cannot write to standard output")
}

fn lines(page: &Value) -> impl Iterator<Item = &Value> {
    let lines = page.get("lines").and_then(Value::as_array);
    lines.into_iter().flatten()
}

/// As many as the API gives at once.
const PAGE: usize = 1000;
/// Between two looks at what is new.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
