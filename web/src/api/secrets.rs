//! Secrets: listed by name, given values, rotated, removed. No answer ever holds a value.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::{Json, extract::State, http::StatusCode};
use gig_policy::{ParseSecretNameError, SecretName};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::{Asked, Body, Items, Made, Order, Paging, Path, time};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    document,
    role::Permission,
    secrets::{Described, SecretChange, SecretDoing, SecretFacts, SecretMade, SecretVersion},
    store::{PolicyVersion, Store, StoreError},
};

/// A secret, as shown.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as the API shows it"
)]
pub(crate) struct SecretView {
    pub(crate) name: String,
    /// What is made of the value; empty where only its name is known.
    pub(crate) kind: &'static str,
    /// Where the value comes from.
    pub(crate) provider: &'static str,
    /// URLs that gig itself asks, for the value or for what is minted from it, as the definition names them.
    pub(crate) services: Vec<String>,
    /// Whether the vault has it; else policies or servers name what is not there, or not any more (`removed`).
    pub(crate) set: bool,
    /// The vault has it, and each version is revoked or over its time: whoever needs it is refused.
    pub(crate) ended: bool,
    /// A warning: programs may be handed the real value.
    pub(crate) entrusted: bool,
    /// A warning: programs may get credentials with it that work, and hold them.
    pub(crate) hands_out: bool,
    /// Opening it takes its owner's passphrase.
    pub(crate) custody: bool,
    pub(crate) created: Option<String>,
    pub(crate) removed: Option<String>,
    /// When the version in use ends.
    pub(crate) expires: Option<String>,
    /// The version in use.
    pub(crate) version: Option<u64>,
    pub(crate) versions: Vec<VersionView>,
    /// Where rules let it go.
    pub(crate) places: Vec<PlaceView>,
    /// Registered servers that are given its sentinel.
    pub(crate) servers: Vec<String>,
}

/// One version, as shown.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct VersionView {
    pub(crate) version: u64,
    /// `current`, `grace`, `expired`, `revoked`.
    pub(crate) state: &'static str,
    pub(crate) created: String,
    pub(crate) until: Option<String>,
}

/// A rule that lets a secret go somewhere.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct PlaceView {
    pub(crate) policy: String,
    /// Host and ports, as the rule spells them.
    pub(crate) target: String,
    /// The rule lets programs hold the real value.
    pub(crate) entrusted: bool,
    /// Tokens in the answers of this host become the secret.
    pub(crate) captures: bool,
    /// The rule names it, and no request that it allows can carry it: all of them are in clear text.
    pub(crate) unplaced: bool,
    /// For whom the policy is in force, in words; empty: for nobody, so that the secret goes nowhere by this rule.
    pub(crate) in_force: Vec<String>,
}

/// A value to keep.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSecret {
    /// The value; it never comes out again.
    #[serde(deserialize_with = "crate::password::typed")]
    #[schema(value_type = String)]
    value: Zeroizing<String>,
    /// `static` (also where nothing is said), or `basic` for `user:password`. Other kinds have options: `definition`.
    #[serde(default)]
    kind: Option<String>,
    /// Instead of `kind`: kind, shape and `entrusted` as a YAML or JSON document, as `gig secret set --definition` takes
    /// it. Providers other than the vault itself are named on gig's own machine alone.
    #[serde(default)]
    definition: Option<String>,
    /// Days until it ends; absent: never.
    #[serde(default)]
    days: Option<u16>,
}

/// A value in place of another.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewValue {
    /// The value; it never comes out again.
    #[serde(deserialize_with = "crate::password::typed")]
    #[schema(value_type = String)]
    value: Zeroizing<String>,
    /// Days until it ends; absent: never.
    #[serde(default)]
    days: Option<u16>,
    /// Hours for which the value before stays known.
    #[serde(default)]
    grace_hours: u16,
}

/// What is to end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ending {
    #[serde(default)]
    version: Option<u64>,
}

/// What came of a change.
#[derive(Serialize, ToSchema)]
pub(crate) struct VersionMade {
    version: u64,
    /// What a person should know of what was kept.
    warnings: Vec<String>,
}

impl From<SecretMade> for VersionMade {
    fn from(made: SecretMade) -> Self {
        Self {
            version: made.version,
            warnings: made.warnings,
        }
    }
}

/// Every secret, and every name that policies or servers use for one that is not set.
#[utoipa::path(get, path = "/api/v1/secrets", tag = "secrets",
    params(Paging), responses((status = 200, body = Items<SecretView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<SecretView>>, Problem> {
    let items = views(&app, &caller).await?;
    let page = paging.page(items, Order::Rising, |one| one.name.clone())?;
    Ok(Json(page))
}

/// One secret.
#[utoipa::path(get, path = "/api/v1/secrets/{name}", tag = "secrets",
    responses((status = 200, body = SecretView), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<SecretView>, Problem> {
    view(&app, &caller, &name).await.map(Json)
}

/// Keeps a new secret.
#[utoipa::path(put, path = "/api/v1/secrets/{name}", tag = "secrets", request_body = NewSecret,
    params(("If-None-Match" = Option<String>, Header, description = "`*`: the secret is new, as it has to be")),
    responses((status = 201, body = VersionMade), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(new): Body<NewSecret>,
) -> Result<Made<VersionMade>, Problem> {
    let place = format!("/api/v1/secrets/{name}");
    let doing = SecretDoing::Add {
        value: new.value,
        described: described(new.kind, new.definition)?,
        expires: new.days.map(days),
    };
    let view = change(&app, &caller, name, doing).await?.into();
    Ok(Made { place, view })
}

/// Gives a secret another value. Sandboxes that run use it from their next request on.
#[utoipa::path(post, path = "/api/v1/secrets/{name}/rotate", tag = "secrets", request_body = NewValue,
    responses((status = 200, body = VersionMade), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(new): Body<NewValue>,
) -> Result<Json<VersionMade>, Problem> {
    let doing = SecretDoing::Rotate {
        value: new.value,
        expires: new.days.map(days),
        grace: hours(new.grace_hours),
    };
    let made = change(&app, &caller, name, doing).await?;
    Ok(Json(made.into()))
}

/// Ends a secret, or one version. Its value stays known to gig, so that it may leave nowhere.
#[utoipa::path(delete, path = "/api/v1/secrets/{name}", tag = "secrets",
    params(("version" = Option<u64>, Query, description = "this version only")),
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Asked(ending): Asked<Ending>,
) -> Result<StatusCode, Problem> {
    let version = ending.version;
    change(&app, &caller, name, SecretDoing::Remove { version }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Does it; the console does the same.
pub(crate) async fn change(
    app: &App,
    caller: &Caller,
    name: String,
    doing: SecretDoing,
) -> Result<SecretMade, Problem> {
    caller.require(Permission::ManageSecrets)?;
    let name: SecretName = name
        .parse()
        .map_err(|error: ParseSecretNameError| unusable(&error.to_string()))?;
    if let SecretDoing::Add { value, .. } | SecretDoing::Rotate { value, .. } = &doing
        && value.is_empty()
    {
        return Err(unusable("the value is empty"));
    }
    if let SecretDoing::Add { expires, .. } | SecretDoing::Rotate { expires, .. } = &doing
        && expires.is_some_and(|expires| expires.is_zero())
    {
        return Err(unusable(
            "days is 0: the value would have ended before anything could use it; leave days out for one that does \
             not end",
        ));
    }
    caller.still(app).await?;
    let name = name.as_str().to_owned();
    let change = SecretChange { name, doing };
    app.change_secret(caller.actor(app), change).await
}

fn unusable(words: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "secret", words)
}

pub(crate) fn days(days: u16) -> Duration {
    Duration::from_secs(u64::from(days) * 24 * 3600)
}

pub(crate) fn hours(hours: u16) -> Duration {
    Duration::from_secs(u64::from(hours) * 3600)
}

/// What the new secret is, of the two ways to say it.
pub(crate) fn described(
    kind: Option<String>,
    definition: Option<String>,
) -> Result<Described, Problem> {
    match (kind, definition) {
        (Some(_), Some(_)) => Err(unusable(
            "kind and definition: say one of them, as a definition names its kind",
        )),
        (None, Some(text)) => Ok(Described::Definition(text)),
        (kind, None) => Ok(Described::Kind(kind.unwrap_or_else(plain))),
    }
}

fn plain() -> String {
    "static".to_owned()
}

/// All of them with where each may go; of removed ones those that something still names, as not set.
pub(crate) async fn views(app: &App, caller: &Caller) -> Result<Vec<SecretView>, Problem> {
    let mut all = known(app, caller).await?;
    all.retain(|_, one| {
        one.set &= one.removed.is_none();
        one.set || !(one.places.is_empty() && one.servers.is_empty())
    });
    Ok(all.into_values().collect())
}

/// One of them, removed or not.
pub(crate) async fn view(app: &App, caller: &Caller, name: &str) -> Result<SecretView, Problem> {
    let mut all = known(app, caller).await?;
    all.remove(name)
        .ok_or_else(|| Problem::missing("secret", name))
}

async fn known(app: &App, caller: &Caller) -> Result<BTreeMap<String, SecretView>, Problem> {
    caller.require(Permission::Look)?;
    let kept = app.secrets().await?.into_iter().map(SecretView::from);
    let mut all: BTreeMap<String, SecretView> = kept.map(|one| (one.name.clone(), one)).collect();
    let servers = app.ask(|store| store.servers()).await?;
    let mut entry = |name: &str, put: &mut dyn FnMut(&mut SecretView)| {
        let one = all.entry(name.to_owned());
        put(one.or_insert_with(|| SecretView::only_named(name)));
    };
    for server in servers {
        for name in &server.spec.secrets {
            entry(name, &mut |one| one.servers.push(server.name.clone()));
        }
    }
    let (store, known) = (Arc::clone(&app.store), Arc::clone(&app.secret_places));
    // One after the other, where it is this caller's turn: documents are long, and there may be many.
    let places = app.aside(move || known.of_all(store.as_ref()));
    let places = places.await?.map_err(Problem::store)?;
    let assignments = app.ask(|store| store.assignments()).await?;
    let mut whom: HashMap<String, Vec<String>> = HashMap::new();
    for one in assignments {
        let of = whom.entry(one.policy).or_default();
        of.push(one.place.to_string());
    }
    for place in places {
        for (name, place) in place.iter() {
            let in_force = whom.get(&place.policy).cloned().unwrap_or_default();
            let place = PlaceView {
                in_force,
                ..place.clone()
            };
            entry(name.as_str(), &mut |one| one.places.push(place.clone()));
        }
    }
    // What holds now stands before what would if it were put in force.
    for one in all.values_mut() {
        one.places.sort_by_key(|place| place.in_force.is_empty());
    }
    Ok(all)
}

/// Where the newest versions of policies let secrets go: a version does not change, so that whoever looks again and again
/// has nothing read or compiled anew.
#[derive(Debug, Default)]
pub(crate) struct SecretPlaces {
    known: Mutex<HashMap<(String, u64), Places>>,
}

/// Of one version.
type Places = Arc<[(SecretName, PlaceView)]>;

impl SecretPlaces {
    fn of_all(&self, store: &dyn Store) -> Result<Vec<Places>, StoreError> {
        let heads = store.policies()?;
        let newest: HashMap<&str, u64> = heads
            .iter()
            .map(|head| (head.name.as_str(), head.version))
            .collect();
        let is_newest =
            |(name, version): &(String, u64)| newest.get(name.as_str()) == Some(version);
        self.known.lock().retain(|key, _| is_newest(key));
        let each = heads.iter().map(|head| {
            let key = (head.name.clone(), head.version);
            if let Some(known) = self.known.lock().get(&key) {
                return Ok(Arc::clone(known));
            }
            let kept = store.policy(&head.name, Some(head.version))?;
            let places: Places = kept.iter().flat_map(places_of).collect();
            let mut known = self.known.lock();
            let count: usize = known.values().map(|places| places.len()).sum();
            if count + places.len() <= MOST_KEPT {
                known.insert(key, Arc::clone(&places));
            }
            Ok(places)
        });
        each.collect()
    }
}

/// Of all policies together: some ten megabytes.
const MOST_KEPT: usize = 50_000;

/// Where a policy lets which secret go. Compiles it, which takes long where it is long.
fn places_of(kept: &PolicyVersion) -> Vec<(SecretName, PlaceView)> {
    // What is kept was compiled before; a later gig may refuse it, and then nothing goes anywhere.
    let Ok(policy) = document::compile(&kept.head.name, 0, &kept.document, None) else {
        return Vec::new();
    };
    let mut places = Vec::new();
    for name in policy.secret_names() {
        for one in policy.uses_of(&name) {
            let place = PlaceView {
                policy: kept.head.name.clone(),
                target: one.target,
                entrusted: one.entrusted,
                captures: one.captures,
                unplaced: one.unplaced,
                in_force: Vec::new(),
            };
            places.push((name.clone(), place));
        }
    }
    places
}

impl SecretView {
    /// Of a secret that the vault does not have.
    fn only_named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: "",
            provider: "",
            services: Vec::new(),
            set: false,
            ended: false,
            entrusted: false,
            hands_out: false,
            custody: false,
            created: None,
            removed: None,
            expires: None,
            version: None,
            versions: Vec::new(),
            places: Vec::new(),
            servers: Vec::new(),
        }
    }

    /// Where it may go now: hosts and ports, each once.
    pub(crate) fn goes_to(&self) -> Vec<&str> {
        let now = self.places.iter();
        let now =
            now.filter(|place| !place.captures && !place.unplaced && !place.in_force.is_empty());
        let mut targets: Vec<&str> = now.map(|place| place.target.as_str()).collect();
        let mut seen = HashSet::new();
        targets.retain(|target| seen.insert(*target));
        targets
    }

    /// Whether a value can be given to it here: those of other providers are changed there.
    pub(crate) fn is_kept_here(&self) -> bool {
        self.set && self.provider == "embedded" && !self.custody && self.removed.is_none()
    }
}

impl From<SecretFacts> for SecretView {
    fn from(facts: SecretFacts) -> Self {
        let current = facts.versions.iter().find(|one| one.state == "current");
        let has_versions = facts.removed.is_none() && !facts.versions.is_empty();
        Self {
            ended: has_versions && current.is_none(),
            kind: facts.kind,
            provider: facts.provider,
            services: facts.services,
            set: true,
            entrusted: facts.entrusted,
            hands_out: facts.hands_out,
            custody: facts.custody,
            created: Some(time(facts.created)),
            removed: facts.removed.map(time),
            expires: current.and_then(|one| one.until).map(time),
            version: current.map(|one| one.version),
            versions: facts.versions.into_iter().rev().map(Into::into).collect(),
            ..Self::only_named(&facts.name)
        }
    }
}

impl From<SecretVersion> for VersionView {
    fn from(one: SecretVersion) -> Self {
        Self {
            version: one.version,
            state: one.state,
            created: time(one.created),
            until: one.until.map(time),
        }
    }
}

#[cfg(test)]
mod tests;
