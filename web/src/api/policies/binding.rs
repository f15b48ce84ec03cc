//! Who lets a secret go where it did not go before: whoever manages secrets, or two people.
//!
//! A version that names a secret at a target sends its value there, to whoever runs that host. Who writes policies
//! changes what else is allowed, also beside a secret; where the secret goes is as it was in some policy. Promises that
//! a version which cannot be compared is not written.

use std::sync::Arc;

use gig_policy::SecretWay;

use crate::{api_error::Problem, app::App, auth::Caller, document, role::Permission};

/// Refuses a version of policy `name` by which a secret goes on a way on which no policy lets it go now, from who manages
/// none; where policies are changed by two people, the second one sees it.
pub(super) async fn guard(
    app: &App,
    caller: &Caller,
    (name, text): (&str, &str),
) -> Result<(), Problem> {
    if caller.may(Permission::ManageSecrets) || app.ask(|store| store.two_person_rule()).await? {
        return Ok(());
    }
    let (store, now) = (Arc::clone(&app.store), document::moment(app.now()));
    let (name, text) = (name.to_owned(), text.to_owned());
    let fresh = app.aside(move || {
        let written = document::compile(&name, 0, &text, None).map_err(Problem::document)?;
        let mut fresh = written.secret_ways();
        if fresh.is_empty() {
            return Ok(fresh);
        }
        // One after the other: a document may be long.
        for head in store.policies().map_err(Problem::store)? {
            let Some(kept) = store.policy(&head.name, None).map_err(Problem::store)? else {
                continue;
            };
            // What cannot be compiled any more, and what has ended, lets nothing go.
            let known = document::compile(&head.name, 0, &kept.document, None);
            let known = known.map_or_else(|_| Vec::new(), |known| known.as_of(now).secret_ways());
            fresh.retain(|way: &SecretWay| !known.iter().any(|known| way.is_within(known)));
            if fresh.is_empty() {
                break;
            }
        }
        Ok::<_, Problem>(fresh)
    });
    match fresh.await??.first() {
        None => Ok(()),
        Some(way) => Err(Problem::forbidden(format!(
            "this lets {way} where no policy lets it go, or not so openly, or not for so long: somebody who manages \
             secrets (an admin) writes that; or turn the two-person rule on, and propose it"
        ))),
    }
}
