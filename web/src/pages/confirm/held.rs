//! What a rule would change that lets go a request that waits: shown before it is written for ever.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap};
use serde::Deserialize;

use super::ConfirmPage;
use crate::{
    allow::{Lasting, Width},
    api::{allowing::planned, held::waiting_as_denied},
    app::App,
    auth::{Caller, origin},
    pages::{
        Answer, InAddress, Path, clock, in_query,
        policies::{compared, in_force_for, reach},
        shown, to,
    },
    profile::Sight,
    store::Place,
};

/// How much the rule opens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Opened {
    #[serde(default)]
    width: Width,
}

/// `GET /approvals/held/{id}/allow`.
pub(crate) async fn allow(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    InAddress(opened): InAddress<Opened>,
    headers: HeaderMap,
) -> Answer {
    // Another site leads to no form that is one click from being saved.
    if origin::is_led_here(&headers) {
        return Ok(to("/approvals"));
    }
    let sight = Sight::deciding(&caller);
    let (row, waits) = waiting_as_denied(&app, &caller, (&id, &sight)).await?;
    let planned = planned(&app, &caller, &row, (opened.width, Lasting::Ever)).await?;
    let mark = planned.mark();
    let places = reach(
        &planned.stands.assigned,
        &planned.stands.floors,
        &planned.policy,
    )
    .join("; ");
    let (policy, on) = (planned.policy.clone(), planned.version);
    let two = app.ask(|store| store.two_person_rule()).await?;
    let (meaning, lines) = compared(&app, planned.policy, planned.base, planned.document).await?;
    let act = match opened.width {
        Width::Path => "ever-path",
        Width::Host => "ever-host",
    };
    let title = match two {
        true => "Propose to allow it for ever",
        false => "Allow it for ever",
    };
    let mut page = ConfirmPage::new(&caller, "/approvals", title.to_owned())
        .says(format!(
            "{} asks for {}. It waits until {} UTC; then it is denied, and this page writes nothing any more.",
            waits.server,
            waits.asks,
            clock(&waits.until)
        ))
        .says(match &planned.server {
            Some(server) => {
                let place = in_force_for(&Place::Server(server.clone()));
                format!("Policy {policy} is new, and put in force for {place} with this rule:")
            }
            None => format!(
                "This is what it changes in policy {policy}, against version {on}. That is in force for {places}:"
            ),
        })
        .posts(
            format!("/approvals/held/{}", in_query(&id)),
            &[("act", act), ("shown", &mark)],
        );
    if let Some(id) = planned.beside {
        page = page.says(format!(
            "Your proposal {id} for this policy waits still: this takes its place, with what that asks for as well."
        ));
    }
    if let Some(found) = waits.lookalike {
        page = page.says(format!("Look twice: {} {found}.", waits.host));
    }
    (page.meaning, page.lines) = (meaning, lines);
    page.why = format!("allow what request {id} waits for");
    page.opens = true;
    Ok(shown(&page))
}
