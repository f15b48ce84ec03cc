//! The whole record with its checkpoints, oldest first: what `gig audit verify` proves without the database, and
//! without anybody's word but the key's.
//!
//! Sent as it is read, and recorded before the first of it goes, as other exports are. What the record was when it was
//! asked for is what is sent: records that come meanwhile are the next one's. Where old records are removed meanwhile
//! what was sent would not hold, as if somebody had taken them out of it: it is broken off then, and taken again.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use gig_audit::{
    log::ChainProof,
    search::{Marks, Position},
};
use serde_json::Value;

use super::audit_export::{from_here, taken, turn_of, unsized_body};
use crate::{api_error::Problem, app::App, auth::Caller, places::on_behalf, role::Permission};

/// The whole record with its signed checkpoints, as `gig audit export --with-checkpoints` writes it: `gig audit verify
/// FILE --key KEY` proves that nothing is missing or changed.
#[utoipa::path(get, path = "/api/v1/audit/proof", tag = "audit",
    responses((status = 200, description = "chain by chain: its end, its checkpoints, its records, oldest first",
               content((String = "application/jsonl")))))]
pub(crate) async fn proof(
    State(app): State<Arc<App>>,
    caller: Caller,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Permission::ReadAudit)?;
    from_here(&caller, &headers)?;
    let told = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"gig-record-proof.jsonl\"",
        ),
    ];
    // Nobody takes anything away by that.
    if method == Method::HEAD {
        return Ok((told, unsized_body()).into_response());
    }
    app.record(taken(&app, &caller, "jsonl with its checkpoints", ""))
        .await?;
    // Behind that: the export holds that it was taken.
    let chains = app.proof().await?;
    let begun = |chain: &ChainProof| (chain.end(), chain.checkpoints.len());
    let rest = Rest {
        app,
        caller,
        begun: chains.iter().map(begun).collect(),
        chains: chains.into(),
        reading: None,
    };
    let parts = stream::try_unfold(rest, Rest::part);
    Ok((told, Body::from_stream(parts)).into_response())
}

/// What has not been sent yet.
struct Rest {
    app: Arc<App>,
    caller: Caller,
    /// The ends of all chains, and how many checkpoints each had.
    begun: Vec<(Position, usize)>,
    /// Not begun yet.
    chains: VecDeque<ChainProof>,
    /// The end of the chain whose records are sent, and how far that is; the others are passed over.
    reading: Option<(Position, Marks)>,
}

impl Rest {
    /// The next of it; `None` at its end. Whoever reads on must still be let.
    async fn part(mut self) -> Result<Option<(Bytes, Self)>, String> {
        let still = self.caller.still(&self.app).await;
        still.map_err(|problem| problem.detail)?;
        if let Some((end, marks)) = self.reading.take() {
            let text = self.records(end, marks).await?;
            return Ok(Some((Bytes::from(text), self)));
        }
        let Some(chain) = self.chains.pop_front() else {
            return self.still_holds().await.map(|()| None);
        };
        let end = chain.end();
        let mut marks = Marks::default();
        for (other, _) in &self.begun {
            if other.chain != end.chain {
                marks.set(*other);
            }
        }
        let mut text = chain.exported.line();
        for line in &chain.checkpoints {
            text.push('\n');
            text.push_str(line);
        }
        text.push('\n');
        self.reading = (end.seq > 0).then_some((end, marks));
        Ok(Some((Bytes::from(text), self)))
    }

    /// Whether nothing was removed of what was sent, which its checkpoints would have to list.
    async fn still_holds(&self) -> Result<(), String> {
        let now = self.app.proof().await.map_err(|problem| problem.detail)?;
        for (end, before) in &self.begun {
            let of_chain = now.iter().find(|chain| chain.end().chain == end.chain);
            let checkpoints = of_chain.map_or(&[][..], |chain| &chain.checkpoints);
            let mut since = checkpoints.iter().skip(*before);
            if since.any(|line| removes(line, end.seq)) {
                return Err("records were removed while they were sent".to_owned());
            }
        }
        Ok(())
    }

    /// Some records of the chain that is read; what follows is kept to be read next.
    async fn records(&mut self, end: Position, mut marks: Marks) -> Result<String, String> {
        let turn = turn_of(&self.caller);
        let some = on_behalf(turn, self.app.recorded_after(marks.clone(), AT_ONCE)).await;
        let some = some.map_err(|problem| problem.detail)?;
        let mut text = String::new();
        for found in &some {
            marks.set(found.at);
            if found.at.chain == end.chain && found.at.seq <= end.seq {
                text.push_str(&found.line);
                text.push('\n');
            }
        }
        let more = !some.is_empty() && marks.of(end.chain) < end.seq;
        self.reading = more.then_some((end, marks));
        Ok(text)
    }
}

/// Whether a checkpoint lists what was removed up to a place.
fn removes(line: &str, end: u64) -> bool {
    let Ok(said) = serde_json::from_str::<Value>(line) else {
        return true;
    };
    let pruned = said.get("pruned").and_then(Value::as_array);
    let first = said.get("first").and_then(Value::as_u64);
    pruned.is_some_and(|runs| !runs.is_empty()) && first.is_none_or(|first| first <= end)
}

const AT_ONCE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_of_what_is_sent_breaks_it_off() {
        let line = |first: u64, pruned: &str| format!("{{\"first\":{first},\"pruned\":{pruned}}}");
        assert!(removes(&line(1, "[[2,3]]"), 10));
        assert!(!removes(&line(11, "[[12,13]]"), 10), "of later records");
        assert!(!removes(&line(1, "[]"), 10), "one that only signs");
        assert!(removes("no checkpoint", 10));
    }
}
