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
        .context(output::UNWRITTEN)?;
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
    let asked = format!("{path}?{}", query.join("&"));
    let mut telling = Telling::new(args.output.json);
    let mut own = Log::default();
    let others = own.read(&asked, &mut telling)?;
    let mut others: Vec<Log> = others.into_iter().map(Log::of).collect();
    let mut unread = Vec::new();
    for log in &mut others {
        if let Err(error) = log.read(&asked, &mut telling) {
            log.silent = true;
            unread.push(format!("{}: {error:#}", printable(&log.node)));
        }
    }
    if args.follow {
        return follow(&asked, &mut own, &mut others, &mut telling);
    }
    if args.output.json {
        let nodes = std::iter::once(&own).chain(&others);
        let nodes = nodes.filter(|log| !log.silent);
        let nodes: Vec<_> = nodes.map(|log| &log.node).collect();
        let document = json!({"server": place.server, "lines": telling.all, "nodes": nodes});
        output::print(true, &document, "")?;
    }
    if !unread.is_empty() {
        bail!("not all nodes could be asked: {}", unread.join("; "));
    }
    Ok(ExitStatus::SUCCESS)
}

/// Tells of what is new, until it is ended.
fn follow(
    asked: &str,
    own: &mut Log,
    others: &mut [Log],
    telling: &mut Telling,
) -> anyhow::Result<ExitStatus> {
    loop {
        std::thread::sleep(LOOK_AGAIN);
        own.read(asked, telling)?;
        for log in &mut *others {
            // One that does not answer now may do so at the next look, and nothing of it is lost.
            let read = log.read(asked, telling);
            let silent = std::mem::replace(&mut log.silent, read.is_err());
            if let Err(error) = read
                && !silent
            {
                let node = printable(&log.node);
                output::remark(Some(format!("what runs on {node} is not read: {error:#}")))?;
            }
        }
    }
}

/// Prints pages, or keeps their lines for one document.
struct Telling {
    json: bool,
    all: Vec<Value>,
    /// Whose lines were printed last.
    node: String,
}

impl Telling {
    const fn new(json: bool) -> Self {
        Self {
            json,
            all: Vec::new(),
            node: String::new(),
        }
    }

    fn tell(&mut self, page: &Value, node: &str) -> anyhow::Result<()> {
        if self.json {
            let lines = lines(page).map(|line| of_node(line, node));
            self.all.extend(lines);
            return Ok(());
        }
        if lines(page).next().is_some() && self.node != node {
            let before = std::mem::replace(&mut self.node, node.to_owned());
            let words = (!before.is_empty()).then(|| format!("what ran on {}:", printable(node)));
            output::remark(words)?;
        }
        print(page)
    }
}

/// What one node keeps: each has what its own sandboxes print.
#[derive(Default)]
struct Log {
    /// Empty until the one that answers has said which it is.
    node: String,
    /// From where it is read on.
    next: String,
    /// It did not answer last.
    silent: bool,
}

impl Log {
    fn of(node: String) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    /// Reads on to its end; which other nodes there are.
    fn read(&mut self, asked: &str, telling: &mut Telling) -> anyhow::Result<Vec<String>> {
        loop {
            let (node, next) = (segment(&self.node), segment(&self.next));
            let path = format!("{asked}&node={node}&after={next}");
            let page = ask(Method::GET, &path, None)?.json()?;
            (self.node, self.next) = (text(&page, "node"), text(&page, "next"));
            telling.tell(&page, &self.node)?;
            if page.get("more").and_then(Value::as_bool) != Some(true) {
                let others = page.get("elsewhere").and_then(Value::as_array);
                let others = others.into_iter().flatten().filter_map(Value::as_str);
                return Ok(others.map(ToOwned::to_owned).collect());
            }
        }
    }
}

/// A line, and where it was printed.
fn of_node(line: &Value, node: &str) -> Value {
    let mut line = line.clone();
    if let Some(fields) = line.as_object_mut() {
        fields.insert("node".to_owned(), node.into());
    }
    line
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
    print().context(output::UNWRITTEN)
}

fn lines(page: &Value) -> impl Iterator<Item = &Value> {
    let lines = page.get("lines").and_then(Value::as_array);
    lines.into_iter().flatten()
}

/// As many as the API gives at once.
const PAGE: usize = 1000;
/// Between two looks at what is new.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
