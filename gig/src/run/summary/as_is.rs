//! Sentinels that went out as they are: nothing was refused, and what got one in a value's place will have said
//! that it is wrong.

use std::{fmt::Write as _, sync::Arc};

use gig_audit::{Entry, VerdictWord};
use gig_proxy::credential::misuse::{Literal, OF_ANOTHER_RUN, sentinel_in};

use super::{at_port, bracketed, lines::Lines, shown, times};

/// How often which went where.
#[derive(Debug, Default)]
pub(super) struct AsTheyAre(Lines<Sent>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    host: Arc<str>,
    port: Option<u16>,
    name: String,
    place: String,
}

impl AsTheyAre {
    /// Counts what a record tells of them; where it was refused it did not go.
    pub(super) fn note(&mut self, entry: &Entry) {
        let Some(host) = entry.host.as_ref().filter(|_| passed(entry)) else {
            return;
        };
        for (name, place) in entry.findings.iter().filter_map(|told| sentinel_in(told)) {
            let sent = Sent {
                host: Arc::clone(host),
                port: entry.port,
                name: name.to_owned(),
                place: place.to_owned(),
            };
            self.0.add(sent, 1);
        }
    }

    /// Nothing where none went.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if self.0.is_empty() {
            return text;
        }
        text.push_str("gig: went out as sentinels during this run, with no value put in\n");
        for (sent, count) in self.0.iter() {
            let port = at_port(sent.port);
            let (host, name, place) = (shown(&sent.host), shown(&sent.name), shown(&sent.place));
            // Writing to a String cannot fail.
            writeln!(text, "  {host}{port}  {name} in {place}{}", times(count)).ok();
            writeln!(text, "      {}", sent.cure()).ok();
        }
        text + &self.0.rest()
    }
}

impl Sent {
    fn cure(&self) -> String {
        let (name, host) = (shown(&self.name), bracketed(&self.host));
        let port = at_port(self.port);
        if self.place.starts_with(STREAM) {
            return format!(
                "gig opens nothing there; if the program is to hold the value: gig secret set {name} --entrusted, and \
                 `secrets: [{{name: {name}, entrusted: true}}]` in the rule for {host}{port}"
            );
        }
        if self.place.ends_with(NO_TEXT) {
            return "only text is looked into for where a value goes".to_owned();
        }
        if self.place.ends_with(OF_ANOTHER_RUN) {
            return "the program kept it in a file or setting of its own, and each run has others: have it read its \
                    variable, or log it in anew in each run"
                .to_owned();
        }
        let known = |why: &&Literal| self.place.ends_with(why.told());
        if let Some(why) = Literal::ALL.iter().find(known) {
            return why.cure().to_owned();
        }
        if self.place.ends_with(UNPLACED) {
            return format!(
                "if it belongs there, add the place to `in` of {name} (--secret {name}:PLACE@{host}{port})"
            );
        }
        format!(
            "if it belongs there, bind it: --secret {name}@{host}{port}, or under `secrets` of its rule"
        )
    }
}

fn passed(entry: &Entry) -> bool {
    entry.verdict == Some(VerdictWord::Allow)
}

/// How a place of bytes that are not opened is told.
const STREAM: &str = "the stream";
/// How is told that no value goes into what is no text.
const NO_TEXT: &str = "where no value goes";
/// How is told that the policy does not take a secret at a place.
const UNPLACED: &str = "where the policy does not take it";
