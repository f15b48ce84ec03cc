//! What a server printed: the newest lines, or those that hold a word.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde::Deserialize;

use super::{Answer, Frame, Path, records::cut, shown};
use crate::{
    api::{
        Asked,
        server_log::{Line, LinesAsked, find},
    },
    app::App,
    auth::Caller,
    control::LogFrom,
    profile::Sight,
};

/// As it was typed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Typed {
    #[serde(default)]
    grep: String,
    #[serde(default)]
    sandbox: String,
    #[serde(default)]
    since: String,
    #[serde(default)]
    node: String,
}

#[derive(Template)]
#[template(path = "server_log.html")]
struct LogPage {
    frame: Frame,
    server: String,
    typed: Typed,
    lines: Vec<Line>,
    more: bool,
    /// The node whose lines these are.
    node: String,
    /// The others.
    elsewhere: Vec<String>,
}

/// `GET /servers/{name}/log`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(server): Path<String>,
    Asked(typed): Asked<Typed>,
) -> Answer {
    let asked = LinesAsked {
        grep: typed.grep.clone(),
        sandbox: typed.sandbox.clone(),
        since: typed.since.clone(),
        node: typed.node.clone(),
        limit: Some(SHOWN),
        ..LinesAsked::default()
    };
    let place = (server.clone(), LogFrom::Newest);
    let found = find(&app, &caller, place, &asked, &Sight::plain(&caller)).await?;
    let mut lines = found.lines;
    for line in &mut lines {
        line.text = on_one_line(&cut(&line.text, LONGEST));
    }
    let page = LogPage {
        frame: Frame::new(&caller, "/servers"),
        server,
        typed,
        lines,
        more: found.more,
        node: found.node,
        elsewhere: found.elsewhere,
    };
    Ok(shown(&page))
}

/// Browsers break lines at a carriage return, too: a program would print lines with any time it likes.
fn on_one_line(text: &str) -> String {
    text.replace('\r', "⟨U+000D⟩")
}

/// As many as somebody scrolls through.
const SHOWN: usize = 500;
/// Characters of a line; the API gives all of it.
const LONGEST: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carriage_return_begins_no_line() {
        let forged = on_one_line("x\r2026-11-22T09:30:00.000Z  all is well\r");
        assert_eq!(
            forged,
            "x⟨U+000D⟩2026-11-22T09:30:00.000Z  all is well⟨U+000D⟩"
        );
    }
}
