//! What somebody typed into the editor when their session had ended meanwhile: kept for who signs in again.
//!
//! It is theirs alone, by the session that their browser still shows, and of this node, in memory: a few of each
//! person, for a quarter of an hour. Nothing of it is in an address. Who never had a session here, whom an admin signed
//! out, or whose request another site sent, keeps nothing.

use std::sync::Arc;

use axum::{
    Form,
    body::Body,
    extract::{FromRequest as _, Request},
    http::{Method, request::Parts},
};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::{
    app::App,
    auth::{cookie, is_long, origin},
    credential::read_session,
    pages::in_query,
};

/// A document that is not saved, as its form sent it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Draft {
    /// That it is built on.
    pub(crate) version: u64,
    pub(crate) document: String,
    #[serde(default)]
    pub(crate) reason: String,
    /// The server for which saving puts it in force.
    #[serde(default)]
    pub(crate) assign: String,
}

/// One that is kept.
#[derive(Debug)]
struct Kept {
    /// In lower case.
    person: String,
    policy: String,
    until: Timestamp,
    draft: Draft,
}

/// All that are kept, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Drafts(Mutex<Vec<Kept>>);

impl Drafts {
    /// Keeps one, in place of what this person typed into the same policy before.
    fn keep(&self, (person, policy): (&str, &str), draft: Draft, now: Timestamp) {
        let person = person.to_lowercase();
        let mut all = self.0.lock();
        all.retain(|one| one.until > now && !(one.person == person && one.policy == policy));
        let theirs = all.iter().filter(|one| one.person == person).count();
        let oldest = all.iter().position(|one| one.person == person);
        if let Some(oldest) = oldest.filter(|_| theirs >= MOST_OF_ONE) {
            all.remove(oldest);
        }
        // Nobody's goes for another's.
        if all.len() >= MOST {
            tracing::warn!("no room to keep what was typed by somebody whose session had ended");
            return;
        }
        all.push(Kept {
            person,
            policy: policy.to_owned(),
            until: now.checked_add(LASTS).unwrap_or(now),
            draft,
        });
    }

    /// What this person typed into this policy, if it is kept still.
    pub(crate) fn of(&self, person: &str, policy: &str, now: Timestamp) -> Option<Draft> {
        let person = person.to_lowercase();
        let mut all = self.0.lock();
        all.retain(|one| one.until > now);
        let mut all = all.iter();
        let found = all.find(|one| one.person == person && one.policy == policy);
        found.map(|one| one.draft.clone())
    }

    /// It is saved, or not wanted any more.
    pub(crate) fn drop(&self, person: &str, policy: &str) {
        let person = person.to_lowercase();
        let mut all = self.0.lock();
        all.retain(|one| !(one.person == person && one.policy == policy));
    }
}

/// Keeps what a request without a session sent to an editor, where it may be kept. Where that editor is; `None` where
/// it is none.
pub(crate) async fn kept(app: &Arc<App>, parts: Parts, body: Body) -> Option<String> {
    let policy = parts.uri.path().strip_prefix("/policies/")?;
    let policy = policy.strip_suffix("/edit")?.to_owned();
    if parts.method != Method::POST || policy.contains('/') || policy.contains('%') {
        return None;
    }
    let place = format!("/policies/{}/edit", in_query(&policy));
    // Before anything of it is read.
    let Some(person) = was(app, &parts).await.filter(|_| !is_long(&parts.headers)) else {
        return Some(place);
    };
    let request = Request::from_parts(parts, body);
    if let Ok(Form(draft)) = Form::<Draft>::from_request(request, &()).await {
        app.drafts.keep((&person, &policy), draft, app.now());
    }
    Some(place)
}

/// Who this browser was signed in as until a while ago.
async fn was(app: &App, parts: &Parts) -> Option<String> {
    origin::check(app, &parts.headers).ok()?;
    let presented = cookie::read(app, &parts.headers);
    let presented = presented.as_deref().and_then(read_session)?;
    let (id, now) = (presented.id, app.now());
    let lapsed = app.ask(move |store| store.lapsed_session(&id, now)).await;
    let (digest, person) = lapsed.ok()??;
    digest.is(&presented.digest).then_some(person)
}

/// To find one's password, and a second factor.
const LASTS: SignedDuration = SignedDuration::from_mins(15);
const MOST_OF_ONE: usize = 4;
/// Of all together; each is no longer than a form that is none of a document.
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(document: &str) -> Draft {
        Draft {
            version: 1,
            document: document.to_owned(),
            reason: String::new(),
            assign: String::new(),
        }
    }

    #[test]
    fn what_was_typed_is_its_persons_alone_for_a_while_and_bounded() {
        let at = |minutes: i64| Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap();
        let drafts = Drafts::default();
        drafts.keep(("Ana", "web"), draft("a"), at(0));
        drafts.keep(("ana", "web"), draft("b"), at(1));
        let of = |person: &str, policy: &str, now| {
            drafts.of(person, policy, now).map(|one| one.document)
        };
        assert_eq!(of("ana", "web", at(2)).as_deref(), Some("b"));
        assert_eq!(of("ben", "web", at(2)), None);
        assert_eq!(of("ana", "other", at(2)), None);
        assert_eq!(of("ana", "web", at(16)), None, "its time is over");
        for number in 0..10 {
            drafts.keep(("ana", &format!("p{number}")), draft("x"), at(20));
        }
        assert_eq!(of("ana", "p5", at(20)), None);
        assert!(of("ana", "p6", at(20)).is_some() && of("ana", "p9", at(20)).is_some());
        for number in 0..100 {
            drafts.keep((&format!("u{number}"), "web"), draft("x"), at(20));
        }
        assert!(
            of("ana", "p9", at(20)).is_some(),
            "nobody's goes for another's"
        );
        assert_eq!(drafts.0.lock().len(), MOST);
        drafts.drop("ANA", "p9");
        assert_eq!(of("ana", "p9", at(20)), None);
    }
}
