//! Single sign-on by OpenID Connect: code flow with PKCE, groups to roles and teams.
//!
//! Who somebody is, is what the provider calls them (`iss` and `sub`); a name and an e-mail address may
//! be given to somebody else and are for people to read. What they may follows their groups at each
//! sign-in. Every refusal is recorded, once it is from a browser that began a round here.

use std::{collections::BTreeMap, fmt, net::SocketAddr, sync::Arc};

use axum::http::{HeaderMap, HeaderValue};
use gig_audit::{
    Deed, Entry, Event, VerdictWord,
    search::{Filter, Query},
};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    api_error::Problem,
    app::App,
    auth::limits::Tried,
    credential::mint_session,
    outbound::OutboundError,
    pages::in_query,
    role::Role,
    store::{Account, Actor, Change, ChangeError, Name, Place, Standing, folded},
};

mod id_token;
mod keys;
mod lost;
mod naming;
mod provider;
mod round;
#[cfg(test)]
mod signer;
mod state;

use self::{
    id_token::{Claims, Expected, TokenRefused, Unchecked},
    provider::{Code, Provider},
    round::Round,
};

/// `GIG_OIDC_*`.
pub struct OidcSettings {
    /// Exactly as the provider names itself.
    pub issuer: String,
    /// As which gig is registered there.
    pub client_id: String,
    /// `None` for a public client.
    pub client_secret: Option<Zeroizing<String>>,
    /// Separated by spaces; `openid` among them.
    pub scopes: String,
    /// Which claim names somebody's groups.
    pub groups_claim: String,
    /// Group and role; the first group of the list that somebody has decides.
    pub roles: Vec<(String, Role)>,
    /// Group and team: who has the group is of the team, who has none of a team's groups is not. Teams that are
    /// not named are made by people here.
    pub teams: Vec<(String, String)>,
    /// Of who has none of these groups; `None` refuses them.
    pub default_role: Option<Role>,
    /// Where browsers come back to: our [`CALLBACK`] as they reach it.
    pub redirect: String,
}

/// Without the client's secret.
impl fmt::Debug for OidcSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcSettings")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// Where browsers come back from the provider.
pub const CALLBACK: &str = "/sign-in/oidc/callback";

/// The provider and what is known of it.
pub(crate) struct SingleSignOn {
    settings: OidcSettings,
    provider: Provider,
}

/// What a browser brings back.
pub(crate) struct Returned<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) state: &'a str,
    pub(crate) code: Option<&'a str>,
    /// RFC 9207: who says so.
    pub(crate) issuer: Option<&'a str>,
    pub(crate) error: Option<&'a str>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) agent: String,
}

/// A round that ended well.
pub(crate) struct SignedOn {
    /// The cookie of the session.
    pub(crate) session: Zeroizing<String>,
    /// Where they wanted to go.
    pub(crate) next: String,
}

/// Nobody was signed in.
#[derive(Debug, Error)]
pub(crate) enum Refused {
    /// Not from here, over, or used.
    #[error("this sign-in was not begun in this browser, or too long ago: begin again")]
    NotBegun,
    /// Another one answers than was asked (mix-up).
    #[error("another sign-on provider answered than was asked: begin again")]
    MixedUp,
    /// It says no.
    #[error("the sign-on provider refused: {0}")]
    Denied(&'static str),
    /// It does not know the code, or not for this client.
    #[error("the sign-on provider cannot be used: it does not take the code")]
    NotTaken,
    /// It cannot be asked, or answers what cannot be used.
    #[error("the sign-on provider cannot be used: {0}")]
    Provider(String),
    /// The same a moment ago: it was not asked again.
    #[error("the sign-on provider cannot be used, as a moment ago: {0}")]
    Asked(String),
    /// What it says is not to be believed.
    #[error("{0}")]
    Token(#[from] TokenRefused),
    /// No group of theirs has one.
    #[error("none of your groups has a role here: ask an admin")]
    NoRole,
    /// From there it failed too often; seconds to wait.
    #[error("too many failed sign-ins: wait {0} seconds")]
    TooMany(u64),
    /// Our own fault, or somebody was faster.
    #[error("{}", .0.detail)]
    Problem(Problem),
}

impl Refused {
    fn provider(why: &str) -> Self {
        Self::Provider(why.to_owned())
    }

    fn unreached(error: OutboundError) -> Self {
        Self::Provider(error.to_string())
    }

    /// As it is shown.
    pub(crate) fn problem(self) -> Problem {
        let words = self.to_string();
        match self {
            Self::Problem(problem) => problem,
            Self::TooMany(seconds) => Problem::too_many(seconds),
            Self::Provider(_) | Self::Asked(_) | Self::NotTaken => {
                Problem::new(http::StatusCode::BAD_GATEWAY, "sign_on_provider", words)
            }
            _ => Problem::forbidden(words),
        }
    }
}

impl<E: Into<Problem>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

impl SingleSignOn {
    pub(crate) fn new(settings: OidcSettings) -> Self {
        Self {
            settings,
            provider: Provider::default(),
        }
    }

    /// Of the provider, for people.
    pub(crate) fn host(&self) -> &str {
        let issuer = self.settings.issuer.as_str();
        let rest = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }

    /// Where to send a browser, and what it keeps meanwhile.
    pub(crate) async fn begin(
        &self,
        app: &App,
        next: &str,
    ) -> Result<(String, HeaderValue), Refused> {
        let described = self
            .provider
            .described(&self.settings, app.outbound(), app.now())
            .await;
        let described = described.inspect_err(|refused| self.failed(app, refused))?;
        let round = Round::begin(next, app.now()).map_err(Problem::internal)?;
        let endpoint = &described.authorization_endpoint;
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        let settings = &self.settings;
        let url = format!(
            "{endpoint}{joint}response_type=code&client_id={}&redirect_uri={}&scope={}&state={}&nonce={}\
             &code_challenge={}&code_challenge_method=S256",
            in_query(&settings.client_id),
            in_query(&settings.redirect),
            in_query(&settings.scopes),
            round.state,
            round.nonce,
            round.challenge()
        );
        Ok((url, round.kept(app)?))
    }

    /// Where who comes back wanted to go, where their browser began that round.
    pub(crate) fn next(app: &App, back: &Returned<'_>) -> Option<String> {
        Round::of(app, back.headers, back.state, app.now()).map(|round| round.next)
    }

    /// Signs somebody in whom the provider vouches for.
    pub(crate) async fn finish(
        &self,
        app: &Arc<App>,
        back: Returned<'_>,
    ) -> Result<SignedOn, Refused> {
        let Some(round) = Round::of(app, back.headers, back.state, app.now()) else {
            return Err(Refused::NotBegun);
        };
        let from = app.whereabouts(back.address);
        let tried = app.limits.attempt(Tried::Provider, from, app.now());
        tried.map_err(Refused::TooMany)?;
        // Each asks the provider, whoever's fault it is that nothing comes of it.
        let asked = app.limits.attempt(Tried::Asked, from, app.now());
        asked.map_err(Refused::TooMany)?;
        let address = back.address;
        let done = self.admit(app, &round, back).await;
        match done {
            Ok(session) => {
                app.limits.succeeded(Tried::Provider, from);
                app.limits.unmade(Tried::Asked, from);
                let next = round.next;
                Ok(SignedOn { session, next })
            }
            Err((name, refused)) => {
                // Its fault is nobody's try: who comes from there next is not to wait for it.
                if matches!(refused, Refused::Provider(_) | Refused::Asked(_)) {
                    app.limits.unmade(Tried::Provider, from);
                }
                app.figures.refused();
                app.record(refusal(name, address, &refused)).await?;
                Err(refused)
            }
        }
    }

    async fn admit(
        &self,
        app: &Arc<App>,
        round: &Round,
        back: Returned<'_>,
    ) -> Result<Zeroizing<String>, (Option<Name>, Refused)> {
        let claims = self.claims(app, round, &back).await;
        let claims = claims.map_err(|refused| {
            self.failed(app, &refused);
            (None, refused)
        })?;
        self.works(app);
        let name = naming::name_of(&claims, &self.settings.issuer);
        let done = self.start(app, &claims, name.clone(), back).await;
        done.map_err(|refused| (Some(name), refused))
    }

    /// What the provider vouches for.
    async fn claims(
        &self,
        app: &App,
        round: &Round,
        back: &Returned<'_>,
    ) -> Result<Claims, Refused> {
        let (settings, outbound, now) = (&self.settings, app.outbound(), app.now());
        let described = self.provider.described(settings, outbound, now).await?;
        match back.issuer {
            Some(issuer) if issuer != settings.issuer => return Err(Refused::MixedUp),
            None if described.authorization_response_iss_parameter_supported => {
                return Err(Refused::MixedUp);
            }
            _ => {}
        }
        let code = match (back.error, back.code) {
            (Some(error), _) => return Err(Refused::Denied(known(error))),
            (None, None) => return Err(Refused::Denied("it sends neither code nor error")),
            (None, Some(code)) => code,
        };
        let code = Code {
            code,
            verifier: &round.verifier,
        };
        let token = described.exchange(settings, outbound, code).await?;
        let token = Unchecked::read(&token)?;
        let now = app.now();
        let keys = self
            .provider
            .keys(&described, outbound, now, |keys| token.is_of(keys));
        let expected = Expected {
            issuer: &settings.issuer,
            client: &settings.client_id,
            nonce: &round.nonce,
            now,
        };
        Ok(token.check(&*keys.await?, &expected)?)
    }

    /// A session for the account, which is made at its first sign-in.
    async fn start(
        &self,
        app: &Arc<App>,
        claims: &Claims,
        name: Name,
        back: Returned<'_>,
    ) -> Result<Zeroizing<String>, Refused> {
        let account = Account {
            issuer: self.settings.issuer.clone(),
            subject: claims.subject.clone(),
        };
        let wanted = account.clone();
        let known = app.ask(move |store| store.user_of(&wanted)).await?;
        let Some(role) = self.role_of(claims) else {
            if let Some(user) = known {
                let out_of = self.teams_of(claims).into_iter();
                let out_of = out_of.filter_map(|(team, of)| (!of).then_some(team));
                lost::lose(app, (user, account), (out_of.collect(), back.address)).await?;
            }
            return Err(Refused::NoRole);
        };
        let names = match &known {
            Some(user) => vec![user.name.parse::<Name>()?],
            None => naming::free_names(&name),
        };
        for name in names {
            if known.is_none() && (is_named(app, &name).await? || has_run(app, &name).await?) {
                continue;
            }
            let minted = mint_session().map_err(Problem::internal)?;
            let now = app.now();
            let expires = now.checked_add(super::sign_in::LONGEST);
            let actor = themselves(app, name.as_str(), back.address);
            let change = Change::SignOn {
                id: minted.id,
                digest: minted.digest,
                name,
                account: account.clone(),
                role,
                teams: self.teams_of(claims),
                first: known.is_none(),
                expires: expires.map_err(Problem::internal)?,
                agent: back.agent.clone(),
            };
            match app.change(actor, change).await {
                Ok(_) => return Ok(minted.text),
                // Somebody else has that name.
                Err(problem) if known.is_none() && problem.is_of_name() => {}
                Err(problem) => return Err(Refused::Problem(problem)),
            }
        }
        Err(Refused::Problem(ChangeError::Lapsed.into()))
    }

    /// Each team that groups are asked for, and whether they are of it. A token that says nothing of groups takes
    /// nobody out of a team: what bounds them there stays.
    fn teams_of(&self, claims: &Claims) -> Vec<(String, bool)> {
        let Some(groups) = claims.groups(&self.settings.groups_claim) else {
            return Vec::new();
        };
        let mut teams: BTreeMap<String, bool> = BTreeMap::new();
        for (group, team) in &self.settings.teams {
            *teams.entry(team.clone()).or_default() |= groups.contains(group.as_str());
        }
        teams.into_iter().collect()
    }

    fn role_of(&self, claims: &Claims) -> Option<Role> {
        let groups = claims.groups(&self.settings.groups_claim);
        let groups = groups.unwrap_or_default();
        let roles = self.settings.roles.iter();
        let mut found = roles.filter(|(group, _)| groups.contains(group.as_str()));
        let found = found.next().map(|(_, role)| *role);
        found.or(self.settings.default_role)
    }
}

/// Whether a team, a policy or floor for one person, or those who answer by a webhook, has this name: that was meant for
/// somebody else, whom a gateway names or who was a user once.
async fn is_named(app: &App, name: &Name) -> Result<bool, Problem> {
    let wanted = folded(name.as_str());
    let named = app.ask(move |store| {
        let is_theirs = |place: &Place| matches!(place, Place::Profile(name) if *name == wanted);
        Ok(store
            .teams()?
            .iter()
            .any(|team| team.members.contains(&wanted))
            || store.assignments()?.iter().any(|one| is_theirs(&one.place))
            || store.floors()?.iter().any(|one| is_theirs(&one.place))
            || store.webhooks()?.iter().any(|one| one.names(&wanted)))
    });
    named.await
}

/// Whether something has run under this name, for somebody whom a gateway named or who was a user once: what ran, what
/// it printed and what waits is nobody's who only calls themselves so.
async fn has_run(app: &Arc<App>, name: &Name) -> Result<bool, Problem> {
    let is_theirs = |profile: &str| folded(profile) == folded(name.as_str());
    if app
        .control
        .sandboxes()
        .iter()
        .any(|one| is_theirs(&one.profile))
    {
        return Ok(true);
    }
    let query = Query {
        filter: Filter {
            event: vec![Event::SandboxStart.to_string()],
            profile: vec![name.to_string(), folded(name.as_str())],
            ..Filter::default()
        },
        before: None,
        limit: 1,
    };
    Ok(!app.search(query).await?.records.is_empty())
}

/// Somebody whom the provider vouches for, at this moment.
fn themselves(app: &App, name: &str, address: Option<SocketAddr>) -> Actor {
    Actor {
        request: None,
        once: None,
        name: name.into(),
        person: Some(name.into()),
        owner: false,
        standing: Standing::Itself,
        address,
        at: app.now(),
    }
}

/// The words of RFC 6749 §4.1.2.1 and OpenID Connect Core, 3.1.2.6; others are not repeated.
fn known(error: &str) -> &'static str {
    let all = [
        "access_denied",
        "invalid_request",
        "unauthorized_client",
        "unsupported_response_type",
        "invalid_scope",
        "server_error",
        "temporarily_unavailable",
        "interaction_required",
        "login_required",
        "account_selection_required",
        "consent_required",
    ];
    let found = all.into_iter().find(|word| *word == error);
    found.unwrap_or("it gives a reason that no standard names")
}

fn refusal(name: Option<Name>, address: Option<SocketAddr>, refused: &Refused) -> Entry {
    let mut entry = Entry::new(Event::Auth);
    entry.profile = name.map(|name| Arc::from(name.as_str()));
    entry.src = address;
    entry.verdict = Some(VerdictWord::Deny);
    entry.deed = Some(Deed::SignInRefused);
    entry.findings = vec![format!("single sign-on refused: {refused}").into()];
    entry
}

#[cfg(test)]
mod tests;
