//! Webhooks: where people are told what waits for them. Set up by admins; answered from elsewhere in
//! [`answer`].

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Asked, Body, Items, Order, Paging, Path, precondition::holds, put, time};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{
        Change, ChangeError, Name, Webhook, WebhookKind,
        webhooks::{place_of, there},
    },
    webhooks::{TellError, key, message_id, once},
};

pub(crate) mod answer;

/// A webhook, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookView {
    pub(crate) name: String,
    pub(crate) kind: WebhookKind,
    /// Its scheme and host; empty: in a file of each node. What follows may be a secret.
    pub(crate) place: String,
    /// Who may answer from there; empty: nobody.
    pub(crate) answerers: Vec<String>,
    /// Those of them who are users here and write policies write rules for ever from there.
    pub(crate) rules: bool,
    /// What this node lacks to sign for it; empty: nothing.
    pub(crate) lacks: String,
    pub(crate) author: String,
    pub(crate) changed: String,
}

/// A webhook to set up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewWebhook {
    pub(crate) kind: WebhookKind,
    /// `https://…`; empty: each node reads it from a file, as one that is a secret. It is not shown again.
    #[serde(default)]
    pub(crate) url: String,
    /// Who may answer from there: Slack's user ids, or what a program calls its users. Empty: nobody. `U012AB3CD=ana`: that
    /// member of Slack's is the user `ana` here.
    #[serde(default)]
    pub(crate) answerers: Vec<String>,
    /// Answerers who are users here and write policies write rules for ever, or for all of a host, from there, too. What
    /// signs, a program or Slack, is trusted to say who they are.
    #[serde(default)]
    pub(crate) rules: bool,
}

/// All webhooks.
#[utoipa::path(get, path = "/api/v1/webhooks", tag = "approvals",
    params(Paging), responses((status = 200, body = Items<WebhookView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<WebhookView>>, Problem> {
    let items = webhooks(&app, &caller).await?;
    let page = paging.page(items, Order::Rising, |one| one.name.clone())?;
    Ok(Json(page))
}

/// Sets up a webhook, or changes it as a whole.
#[utoipa::path(put, path = "/api/v1/webhooks/{name}", tag = "approvals", request_body = NewWebhook,
    params(("If-None-Match" = Option<String>, Header, description = "`*`: the webhook is new")),
    responses((status = 201, description = "the webhook is new"), (status = 204), (status = 400, body = Problem),
              (status = 409, body = Problem), (status = 412, body = Problem)))]
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(new): Body<NewWebhook>,
) -> Result<Response, Problem> {
    caller.require(Permission::ManageWebhooks)?;
    let there = find(&app, &name).await?;
    let what = format!("webhook {name}");
    let changed = || ChangeError::Meanwhile { what }.into();
    let place = format!("/api/v1/webhooks/{name}");
    let (status, place) = put(there.is_none(), place, StatusCode::NO_CONTENT);
    let said = holds(&headers, there.map(|_| ""), changed)?;
    save_webhook(&app, &caller, name, new, said.new).await?;
    Ok((status, place, ()).into_response())
}

/// Takes a webhook away: it is told no more, and nobody answers from there.
#[utoipa::path(delete, path = "/api/v1/webhooks/{name}", tag = "approvals",
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    remove_webhook(&app, &caller, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tells a webhook that nothing waits, to try it out.
#[utoipa::path(post, path = "/api/v1/webhooks/{name}/test", tag = "approvals",
    responses((status = 204), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    try_out(&app, &caller, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// As shown; the console shows the same.
pub(crate) async fn webhooks(app: &App, caller: &Caller) -> Result<Vec<WebhookView>, Problem> {
    caller.require(Permission::ManageWebhooks)?;
    let kept = app.ask(|store| store.webhooks()).await?;
    let mut shown = Vec::with_capacity(kept.len());
    for webhook in kept {
        let lacks = match key(app, &webhook).await {
            Ok(_) => String::new(),
            Err(lacks) => lacks.to_string(),
        };
        shown.push(WebhookView {
            place: place_of(&webhook.url),
            name: webhook.name,
            kind: webhook.kind,
            answerers: webhook.answerers,
            rules: webhook.rules,
            lacks,
            author: webhook.author,
            changed: time(webhook.changed),
        });
    }
    Ok(shown)
}

/// Sets one up, `is_new` where none of this name may be; the console does the same.
pub(crate) async fn save_webhook(
    app: &App,
    caller: &Caller,
    name: String,
    new: NewWebhook,
    is_new: bool,
) -> Result<(), Problem> {
    caller.require(Permission::ManageWebhooks)?;
    let name: Name = name.parse()?;
    let url = new.url.trim().to_owned();
    if !url.is_empty() && !is_place(&url) {
        return Err(Problem::invalid(
            "a webhook's address is https://host/path, without a name or password; left empty, each node \
             reads it from its file",
        ));
    }
    let refused = app.outbound().refuses(&url).filter(|_| !url.is_empty());
    if let Some(why) = refused {
        let words = format!("nothing would ever arrive there: {why}");
        return Err(Problem::invalid(words));
    }
    if new.answerers.len() > MOST_ANSWERERS {
        return Err(Problem::invalid(format!(
            "at most {MOST_ANSWERERS} people answer from one webhook"
        )));
    }
    let answerers = new.answerers.iter().map(|one| answerer(one, new.kind));
    let answerers: Vec<String> = answerers.collect::<Result<_, _>>()?;
    let known: BTreeSet<&str> = answerers.iter().map(|one| there(one)).collect();
    if known.len() < answerers.len() {
        return Err(Problem::invalid(
            "somebody stands among those who answer twice",
        ));
    }
    let slack = new.kind == WebhookKind::Slack;
    if new.rules && slack && !answerers.iter().any(|one| one.contains('=')) {
        return Err(Problem::invalid(
            "none of them is a user here who could write a rule: say who is who, as U012AB3CD=ana",
        ));
    }
    let change = Change::SaveWebhook {
        name,
        kind: new.kind,
        url,
        answerers,
        rules: new.rules,
        new: is_new,
    };
    app.change(caller.actor(app), change).await.map(drop)
}

/// `U012AB3CD`, or `U012AB3CD=ana` for whom is `ana` here; a program calls its users as they are called here.
fn answerer(text: &str, kind: WebhookKind) -> Result<String, Problem> {
    let named = |name: &str| {
        let read = name.parse::<Name>();
        read.map_err(|error| {
            Problem::invalid(format!("{text:?} says of nobody who they are: {error}"))
        })
    };
    let said = match text.split_once('=') {
        Some(_) if kind == WebhookKind::Generic => {
            let words = format!("{text:?}: a program calls its users as they are called here");
            return Err(Problem::invalid(words));
        }
        Some((there, here)) => format!("{}={}", named(there)?.as_str(), named(here)?.as_str()),
        None => named(text)?.into(),
    };
    Ok(said)
}

/// Takes one away; the console does the same.
pub(crate) async fn remove_webhook(
    app: &App,
    caller: &Caller,
    name: String,
) -> Result<(), Problem> {
    caller.require(Permission::ManageWebhooks)?;
    let change = Change::RemoveWebhook { name };
    app.change(caller.actor(app), change).await.map(drop)
}

/// Tries one out; the console does the same.
pub(crate) async fn try_out(app: &App, caller: &Caller, name: String) -> Result<(), Problem> {
    caller.require(Permission::ManageWebhooks)?;
    let webhook = find(app, &name).await?;
    let webhook = webhook.ok_or_else(|| Problem::missing("webhook", &name))?;
    let told = once(app, &webhook, (None, &message_id())).await;
    told.map_err(|error: TellError| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "webhook",
            error.to_string(),
        )
    })
}

/// One by its name.
pub(crate) async fn find(app: &App, name: &str) -> Result<Option<Webhook>, Problem> {
    let kept = app.ask(|store| store.webhooks()).await?;
    Ok(kept.into_iter().find(|one| one.name == name))
}

/// Whether it is an address at all; which one it leads to is vetted when it is asked.
fn is_place(url: &str) -> bool {
    let plain = url.len() <= LONGEST_URL && url.chars().all(|c| c.is_ascii_graphic());
    let scheme = url.starts_with("https://") || url.starts_with("http://");
    let parsed = url.parse::<Uri>().ok().filter(|_| plain && scheme);
    let authority = parsed.as_ref().and_then(Uri::authority);
    authority.is_some_and(|one| !one.as_str().contains('@') && !one.host().is_empty())
        && !url.contains('#')
}

/// They fit a line of a page.
const MOST_ANSWERERS: usize = 50;
const LONGEST_URL: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_where_nothing_would_arrive_is_not_kept() {
        let lab = crate::app::tests::Lab::new();
        let caller = Caller::itself("ana");
        let save = async |url: &str| {
            let new = NewWebhook {
                kind: WebhookKind::Generic,
                url: url.to_owned(),
                answerers: Vec::new(),
                rules: false,
            };
            save_webhook(&lab.app, &caller, "ops".to_owned(), new, false).await
        };
        let refused = save("https://192.0.2.66/hook").await.unwrap_err();
        assert!(refused.detail.contains("nothing opens"), "{refused:?}");
        assert!(
            lab.app
                .ask(|store| store.webhooks())
                .await
                .unwrap()
                .is_empty()
        );
        save("https://hooks.example/x").await.unwrap();
        save("").await.unwrap();
    }

    #[test]
    fn who_answers_is_named_as_the_webhook_calls_them_and_as_they_are_called_here() {
        let read = |text: &str, kind| answerer(text, kind).map_err(|problem| problem.detail);
        let (slack, generic) = (WebhookKind::Slack, WebhookKind::Generic);
        for good in ["U012AB3CD", "U012AB3CD=ana", "U1=ana@corp.example"] {
            assert_eq!(read(good, slack).unwrap(), good);
        }
        assert_eq!(read("ana", generic).unwrap(), "ana");
        for bad in ["", "=", "U1=", "=ana", "U1=a=b", "U1 = ana", "U1=a b"] {
            assert!(read(bad, slack).is_err(), "{bad}");
        }
        assert!(
            read("U1=ana", generic)
                .unwrap_err()
                .contains("as they are called here")
        );
    }

    #[test]
    fn an_address_has_a_host_and_no_password_and_is_shown_without_its_path() {
        for good in [
            "https://hooks.slack.com/services/T0/B0/x",
            "http://10.0.0.1:8080/x",
        ] {
            assert!(is_place(good), "{good}");
        }
        for bad in [
            "",
            "hooks.slack.com",
            "ftp://a/",
            "https://",
            "https:///x",
            "https://u:p@a/",
            "https://a/#b",
            "https://a/ b",
            "file:///etc/passwd",
            "https://a/\u{e9}",
        ] {
            assert!(!is_place(bad), "{bad}");
        }
        assert_eq!(
            place_of("https://hooks.example:8443/T0/secret"),
            "https://hooks.example:8443"
        );
        assert_eq!(place_of(""), "");
    }
}
