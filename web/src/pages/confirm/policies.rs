//! What changes for whom a policy is in force, asked about before: going back to a version, putting one in force or
//! taking it out, setting a floor or taking it away, removing one.
//!
//! Each says for whom it is, and where a document changes what that changes against the one in force now.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;

use super::ConfirmPage;
use crate::{
    api::{floors, policies::version_of},
    api_error::Problem,
    app::App,
    auth::Caller,
    pages::{
        Answer, InAddress, Path, in_query,
        policies::{FloorPlace, Somewhere, compared, in_force_for, reach},
        shown,
    },
    role::Permission,
    store::{Assignment, Place},
};

/// What somebody looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seen {
    on: u64,
}

/// `GET /policies/{name}/remove`: the version that was looked at.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    InAddress(seen): InAddress<Seen>,
) -> Answer {
    caller.require(Permission::EditPolicies)?;
    let wanted = name.clone();
    let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
    let kept = kept.ok_or_else(|| Problem::missing("policy", &name))?;
    let place = format!("/policies/{}", in_query(&kept.head.name));
    let on = seen.on.to_string();
    let page = ConfirmPage::new(
        &caller,
        "/policies",
        format!("Remove the policy {}", kept.head.name),
    )
    .says("It is in force nowhere any more, or it is not removed. Its versions stay readable.")
    .posts(format!("{place}/remove"), &[("on", &on)])
    .back(place);
    Ok(shown(&page))
}

/// `GET /policies/{name}/versions/{version}/back`: against the newest version, which is the one in force.
pub(crate) async fn back(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((name, version)): Path<(String, u64)>,
) -> Answer {
    caller.require(Permission::EditPolicies)?;
    floors::guard(&app, &caller, &name).await?;
    let kept = version_of(&app, &caller, name.clone(), Some(version)).await?;
    let wanted = name.clone();
    let newest = app.ask(move |store| store.policy(&wanted, None)).await?;
    let on = newest.as_ref().map_or(0, |newest| newest.head.version);
    let now = newest.map(|newest| newest.document).unwrap_or_default();
    if now == kept.document {
        return Err(settled(format!(
            "version {version} says what version {on}, the newest one, says: there is nothing to go back to"
        ))
        .into());
    }
    let (meaning, lines) = compared(&app, name.clone(), now, kept.document).await?;
    let place = format!("/policies/{}", in_query(&name));
    let title = format!("Roll {name} back to version {version}");
    let mut page = ConfirmPage::new(&caller, "/policies", title)
        .says(for_whom(&app, &name).await?)
        .says(match on {
            0 => "The policy was removed; this brings it back.".to_owned(),
            on => format!("This is what it changes against version {on}, which is in force now:"),
        })
        .posts(
            format!("{place}/versions/{version}"),
            &[("on", &on.to_string())],
        )
        .back(format!("{place}/versions/{version}"));
    (page.meaning, page.lines) = (meaning, lines);
    Ok(shown(&page.decided_by(&app).await?))
}

/// `GET /policies/{name}/assign`: against the one that is in force there now.
pub(crate) async fn assign(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    InAddress(place): InAddress<Somewhere>,
) -> Answer {
    caller.require(Permission::AssignPolicies)?;
    let place = place.place()?;
    let kept = version_of(&app, &caller, name.clone(), None).await?;
    let assigned = app.ask(|store| store.assignments()).await?;
    if is_there(&assigned, &place, &name) {
        return Err(settled(format!("{name} is in force there already")).into());
    }
    let before = assigned.iter().find(|one| one.place == place);
    let before = before.map(|one| one.policy.clone());
    let (now, says) = match before {
        Some(before) => {
            let old = version_of(&app, &caller, before.clone(), None).await?;
            let says = format!("It takes the place of {before}. This is what that changes:");
            (old.document, says)
        }
        None => {
            let says = "No policy is assigned to just that yet. This is what it says:";
            (String::new(), says.to_owned())
        }
    };
    let (meaning, lines) = compared(&app, name.clone(), now, kept.document).await?;
    let back = format!("/policies/{}", in_query(&name));
    let title = format!("Put {name} in force for {}", in_force_for(&place));
    let mut page = ConfirmPage::new(&caller, "/policies", title);
    if place == Place::All {
        page = page.says("That is every one of them, those that are registered later among them.");
    }
    let mut page = page
        .says(says)
        .posts(
            format!("{back}/assign"),
            &[
                ("server", &place.in_words()),
                ("on", &Assignment::tag(&assigned)),
            ],
        )
        .back(back);
    (page.meaning, page.lines) = (meaning, lines);
    Ok(shown(&page.decided_by(&app).await?))
}

/// `GET /policies/{name}/unassign`.
pub(crate) async fn unassign(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    InAddress(place): InAddress<Somewhere>,
) -> Answer {
    caller.require(Permission::AssignPolicies)?;
    let place = place.place()?;
    let assigned = app.ask(|store| store.assignments()).await?;
    if !is_there(&assigned, &place, &name) {
        return Err(settled(format!("{name} is not in force there any more: look again")).into());
    }
    let next = match place {
        Place::All => {
            "Servers that have none of their own are then denied everything, and so is what runs of them now."
        }
        _ => {
            "What runs there is then under the policy that is assigned next behind this one: of its server, of all \
              servers, or none, which denies everything."
        }
    };
    let back = format!("/policies/{}", in_query(&name));
    let title = format!("Take {name} out of force for {}", in_force_for(&place));
    let page = ConfirmPage::new(&caller, "/policies", title)
        .says(for_whom(&app, &name).await?)
        .says(next)
        .posts(format!("{back}/unassign"), &[("server", &place.in_words())])
        .back(back);
    Ok(shown(&page.decided_by(&app).await?))
}

/// `GET /policies/{name}/floor`.
pub(crate) async fn floor(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    InAddress(wanted): InAddress<FloorPlace>,
) -> Answer {
    caller.require(Permission::SetFloors)?;
    let place = wanted.place.place()?;
    let set = app.ask(|store| store.floors()).await?;
    let is_floor = is_there(&set, &place, &name);
    let mut compares = None;
    let (title, says) = match wanted.act.as_str() {
        "set" if is_floor => {
            return Err(settled(format!("{name} is the floor of {place} already")).into());
        }
        "set" => {
            let before = set.iter().find(|one| one.place == place);
            let instead = before.map(|one| format!(" It takes the place of {}.", one.policy));
            let all = match place {
                Place::All => " Those that are registered later are among them.",
                _ => "",
            };
            let says = format!(
                "What {name} does not allow is then denied there at once, whatever is assigned.{all}{} This is what it \
                 says:",
                instead.unwrap_or_default()
            );
            let kept = version_of(&app, &caller, name.clone(), None).await?;
            let now = match before.map(|one| one.policy.clone()) {
                Some(before) => version_of(&app, &caller, before, None).await?.document,
                None => String::new(),
            };
            compares = Some(compared(&app, name.clone(), now, kept.document).await?);
            (format!("Make {name} the floor of {place}"), says)
        }
        "take" if is_floor => (
            format!("Take the floor {name} away from {place}"),
            "What is assigned there then allows all that it says, without this bound.".to_owned(),
        ),
        "take" => {
            return Err(settled(format!("{name} is not the floor of {place} any more")).into());
        }
        _ => return Err(Problem::invalid("set or take").into()),
    };
    let back = format!("/policies/{}", in_query(&name));
    let words = place.in_words();
    let mut page = ConfirmPage::new(&caller, "/policies", title)
        .says(says)
        .posts(
            format!("{back}/floor"),
            &[("act", &wanted.act), ("server", &words)],
        )
        .back(back);
    (page.meaning, page.lines) = compares.unwrap_or_default();
    Ok(shown(&page.decided_by(&app).await?))
}

impl ConfirmPage {
    /// Says so where somebody else decides on it.
    async fn decided_by(self, app: &App) -> Result<Self, Problem> {
        Ok(match app.ask(|store| store.two_person_rule()).await? {
            true => {
                self.says("The two-person rule is on: it waits until somebody else approves it.")
            }
            false => self,
        })
    }
}

/// Whether the policy is what is assigned to, or bounds, exactly this place.
pub(in crate::pages) fn is_there(those: &[Assignment], place: &Place, policy: &str) -> bool {
    let mut those = those.iter();
    those.any(|one| one.place == *place && one.policy == policy)
}

/// For whom it is in force, and what it bounds.
async fn for_whom(app: &App, name: &str) -> Result<String, Problem> {
    let assignments = app.ask(|store| store.assignments()).await?;
    let floors = app.ask(|store| store.floors()).await?;
    let reach = reach(&assignments, &floors, name);
    Ok(match reach.is_empty() {
        true => "It is in force for no server.".to_owned(),
        false => format!("It is in force for: {}.", reach.join(", ")),
    })
}

/// What is asked for is so already, or somebody made it another thing meanwhile, which was not meant.
pub(in crate::pages) fn settled(words: impl Into<String>) -> Problem {
    Problem::new(StatusCode::CONFLICT, "changed_meanwhile", words)
}
