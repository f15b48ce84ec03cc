//! The form in which a server is registered and changed, and what comes of what was typed.

use std::collections::BTreeMap;

use gig_policy::ByteCount;
use serde::Deserialize;

use crate::{
    api_error::Problem,
    store::{Network, Server, ServerKind, ServerSpec},
};

/// As it was typed.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Typed {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) kind: ServerKind,
    #[serde(default)]
    pub(super) command: String,
    #[serde(default)]
    pub(super) env: String,
    #[serde(default)]
    pub(super) read_only: String,
    #[serde(default)]
    pub(super) secrets: String,
    #[serde(default)]
    pub(super) network: Network,
    #[serde(default)]
    pub(super) idle: String,
    #[serde(default)]
    pub(super) memory: String,
    #[serde(default)]
    pub(super) pids: String,
    #[serde(default)]
    pub(super) cpus: String,
    /// The tag of what was changed; empty where a server is new.
    #[serde(default)]
    pub(super) on: String,
}

impl Typed {
    /// What is registered, to be changed. What variables hold is not shown: a name alone keeps it.
    pub(super) fn of(server: &Server) -> Self {
        let spec = &server.spec;
        let number = |number: Option<u32>| number.map(|n| n.to_string()).unwrap_or_default();
        let names: Vec<&str> = spec.env.keys().map(String::as_str).collect();
        Self {
            name: server.name.clone(),
            kind: spec.kind,
            command: spec.command.join("\n"),
            env: names.join("\n"),
            read_only: spec.read_only.join("\n"),
            secrets: spec.secrets.join(" "),
            network: spec.network,
            idle: number(spec.idle_seconds),
            memory: spec.memory.map(octets).unwrap_or_default(),
            pids: number(spec.pids),
            cpus: spec.cpu_millis.map(processors).unwrap_or_default(),
            on: server.tag(),
        }
    }

    /// Whether an option is the one that was chosen.
    pub(super) fn is(&self, network: &str) -> bool {
        self.network.as_str() == network
    }

    /// Whether somebody else starts its programs.
    pub(super) fn is_foreign(&self) -> bool {
        self.kind == ServerKind::Foreign
    }

    /// What it means for a server that was registered as `before`: what no field has stays.
    ///
    /// # Errors
    /// When a field is not what it takes.
    pub(super) fn spec(&self, before: Option<&ServerSpec>) -> Result<ServerSpec, Problem> {
        Ok(ServerSpec {
            kind: before.map_or(self.kind, |before| before.kind),
            source: before.and_then(|before| before.source.clone()),
            command: changed(&self.command, before.map(|before| &before.command))?,
            env: self.variables(before)?,
            secrets: self.secrets.split_whitespace().map(str::to_owned).collect(),
            read_only: changed(&self.read_only, before.map(|before| &before.read_only))?,
            network: self.network,
            memory: typed(&self.memory, |said| {
                ByteCount::parse(said)
                    .map(|most| most.0)
                    .map_err(|error| error.to_string())
            })?,
            pids: typed(&self.pids, |said| {
                said.parse()
                    .map_err(|_| format!("{said:?} is no number of processes"))
            })?,
            cpu_millis: typed(&self.cpus, millis)?,
            idle_seconds: typed(&self.idle, |said| {
                said.parse()
                    .map_err(|_| format!("{said:?} is no number of seconds to be idle for"))
            })?,
        })
    }

    fn variables(&self, before: Option<&ServerSpec>) -> Result<BTreeMap<String, String>, Problem> {
        let mut env = BTreeMap::new();
        for line in lines(&self.env) {
            let (name, value) = match line.split_once('=') {
                Some((name, value)) => (name.trim().to_owned(), value.to_owned()),
                None => {
                    let name = line.trim().to_owned();
                    let kept = before.and_then(|before| before.env.get(&name));
                    let kept = kept.cloned();
                    let value = kept.ok_or_else(|| {
                        Problem::invalid(format!(
                            "{line:?} is no NAME=VALUE, and no variable so far"
                        ))
                    })?;
                    (name, value)
                }
            };
            env.insert(name, value);
        }
        Ok(env)
    }
}

/// A word a line. What was not changed stays as it is, also where a word has line breaks of its own or is empty,
/// which a line cannot say.
fn changed(text: &str, before: Option<&Vec<String>>) -> Result<Vec<String>, Problem> {
    let typed = lines(text);
    let Some(before) = before else {
        return Ok(typed);
    };
    if typed == lines(&before.join("\n")) {
        return Ok(before.clone());
    }
    let one_line = |word: &String| !word.is_empty() && lines(word) == [word.clone()];
    if before.iter().all(one_line) {
        return Ok(typed);
    }
    Err(Problem::invalid(
        "what is registered has words that are empty or of several lines, which a form with a word a line \
         cannot hold: change it by `gig server add` or the API"
            .to_owned(),
    ))
}

fn typed<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Problem> {
    match text.trim() {
        "" => Ok(None),
        said => read(said).map(Some).map_err(Problem::invalid),
    }
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::to_owned);
    lines.filter(|line| !line.is_empty()).collect()
}

/// `1.5` processors are 1500 thousandths.
fn millis(said: &str) -> Result<u32, String> {
    let wrong = || format!("{said:?} is no number of processors: 2, 0.5");
    let (whole, part) = said.split_once('.').unwrap_or((said, ""));
    let digits = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
    if whole.is_empty() || part.len() > 3 || !digits(whole) || !digits(part) {
        return Err(wrong());
    }
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let part: u32 = format!("{part:0<3}").parse().map_err(|_| wrong())?;
    let whole = whole.checked_mul(1000).ok_or_else(wrong)?;
    whole.checked_add(part).ok_or_else(wrong)
}

/// As [`millis`] reads it.
pub(super) fn processors(millis: u32) -> String {
    let (whole, part) = (millis / 1000, millis % 1000);
    let text = format!("{whole}.{part:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// In the largest unit that it is a whole number of.
pub(super) fn octets(count: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units
        .into_iter()
        .find(|(size, _)| count > 0 && count.is_multiple_of(*size));
    match whole {
        Some((size, unit)) => format!("{}{unit}", count / size),
        None => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again_as_it_was_and_values_stay_unseen() {
        let server = Server {
            name: "docs".to_owned(),
            spec: ServerSpec {
                command: vec!["/bin/sh".to_owned(), "-c".to_owned()],
                env: [("KEY".to_owned(), "v4lue".to_owned())].into(),
                read_only: vec!["/srv".to_owned()],
                memory: Some(512 << 20),
                pids: Some(64),
                cpu_millis: Some(1250),
                idle_seconds: Some(0),
                ..ServerSpec::default()
            },
            author: String::new(),
            changed: jiff::Timestamp::UNIX_EPOCH,
        };
        let mut form = Typed::of(&server);
        assert_eq!(
            (form.memory.as_str(), form.cpus.as_str()),
            ("512MiB", "1.25")
        );
        assert!(!format!("{form:?}").contains("v4lue"));
        assert_eq!(form.spec(Some(&server.spec)).unwrap(), server.spec);
        // Words that no line can say stay, unless somebody would write over them.
        let mut scripted = server.spec.clone();
        scripted.command = ["sh", "-c", "set -e\nexec tool", ""]
            .map(str::to_owned)
            .into();
        let shown = Typed::of(&Server {
            spec: scripted.clone(),
            ..server.clone()
        });
        let sent = Typed {
            command: shown.command.replace('\n', "\r\n"),
            memory: "1GiB".to_owned(),
            ..shown
        };
        let kept = sent.spec(Some(&scripted)).unwrap();
        assert_eq!(
            (&kept.command, kept.memory),
            (&scripted.command, Some(1 << 30))
        );
        let changed = Typed {
            command: "sh\n-c\nset -e\nexec other".to_owned(),
            ..sent
        };
        assert!(changed.spec(Some(&scripted)).is_err());
        form.env = "KEY=other\nNEW=1".to_owned();
        let changed = form.spec(Some(&server.spec)).unwrap();
        assert_eq!(
            (changed.env["KEY"].as_str(), changed.env["NEW"].as_str()),
            ("other", "1")
        );
        form.env = "GUESSED".to_owned();
        assert!(
            form.spec(Some(&server.spec)).is_err(),
            "a name that holds nothing yet"
        );
        form.env.clear();
        assert!(form.spec(Some(&server.spec)).unwrap().env.is_empty());
    }

    #[test]
    fn numbers_are_read_as_they_are_written_and_not_otherwise() {
        for (text, count) in [("2", 2000), ("0.5", 500), ("1.125", 1125), ("0.001", 1)] {
            assert_eq!(millis(text), Ok(count));
            assert_eq!(processors(count), text);
        }
        for text in ["", ".5", "1.0001", "-1", "1e3", "one", "5000000"] {
            assert!(millis(text).is_err(), "{text}");
        }
        for (count, text) in [
            (1, "1"),
            (1024, "1KiB"),
            (3 << 30, "3GiB"),
            (1000, "1000"),
            (0, "0"),
        ] {
            assert_eq!(octets(count), text);
        }
    }
}
