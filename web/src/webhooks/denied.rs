//! Denials that webhooks are told of: each destination that a policy denies once a day, by the node that sees it
//! first.
//!
//! It is what waits for somebody on the overview, read anew when this node has denied something since. A program that
//! asks for a thousand hosts is told of in part: as many destinations at once as people are shown, servers in turns.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use crate::{api::held::DeniedView, app::App, credential::Digest, waiting::waiting};

/// What was denied since `counted` denials and is to be told, no more than `most`, and how many have been counted now.
pub(crate) async fn fresh(app: Arc<App>, counted: u64, most: usize) -> (u64, Vec<DeniedView>) {
    let count = app.traffic.denied.load(Relaxed);
    if count == counted || most == 0 {
        return (counted, Vec::new());
    }
    // What could not be read is in the log, and looked at again.
    match app.ask(|store| store.webhooks()).await {
        Err(_) => return (counted, Vec::new()),
        // Whoever is set up later hears of what comes later.
        Ok(webhooks) if webhooks.is_empty() => return (count, Vec::new()),
        Ok(_) => {}
    }
    let theirs = Arc::clone(&app);
    let listed = app.aside(move || waiting(&theirs)).await;
    let Ok(Ok(listed)) = listed else {
        return (counted, Vec::new());
    };
    let mut fresh = Vec::new();
    for one in listed.waiting {
        // What is left is told in the next round; what a person denied is decided.
        if fresh.len() >= most {
            return (counted, fresh);
        }
        if one.newest.row.findings.iter().any(|one| is_by_person(one)) {
            continue;
        }
        if is_new(&app, &one.remedy.policy, &one.newest.row).await {
            fresh.push(DeniedView::from(one));
        }
    }
    // Some are not counted yet: they are looked at in the next round.
    let upto = if listed.behind > 0 { counted } else { count };
    (upto, fresh)
}

/// Whether nobody was told of this destination today.
async fn is_new(app: &App, policy: &str, row: &gig_audit::row::Row) -> bool {
    let (host, port) = (row.host.as_deref().unwrap_or_default(), row.port);
    let what = Digest::of(&format!("{policy}\n{host}\n{port:?}")).words();
    let day = app.now().strftime("%Y-%m-%d").to_string();
    let noted = app.ask(move |store| store.note_told(&what, &day)).await;
    noted.unwrap_or(false)
}

/// Whether a record's word says that somebody was asked and denied it; nobody may have answered, or have been asked.
fn is_by_person(finding: &str) -> bool {
    let who = finding.strip_prefix("denied_by:");
    who.is_some_and(|who| who != "policy")
}

/// Of this node, all together: what waits has the rest of what a webhook is told.
pub(super) const MOST_A_MINUTE: usize = 10;
/// Soon enough for what was denied already, and seldom enough for what is read.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_denied_is_told_from_what_nobody_answered() {
        for (finding, person) in [
            ("denied_by:ana", true),
            ("denied_by:webhook ops (U02)", true),
            ("denied_by:policy", false),
            ("unanswered:60s", false),
            ("held", false),
        ] {
            assert_eq!(is_by_person(finding), person, "{finding}");
        }
    }
}
