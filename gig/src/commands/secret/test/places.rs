//! A request that holds the sentinel, readied by the proxy's own code and shown with the sentinel where the
//! value would be.
//!
//! Each place is tried twice: once with the value, which says whether it may stand there, and once with the
//! sentinel in the value's stead, which is what is shown.

use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use gig_policy::{
    DenyReason, Explanation, Host, Policy, Port, RequestPermit, SandboxId, SecretGrant, SecretName,
    SecretPlace,
};
use gig_proxy::credential::{
    Border, Wallet,
    rehearsal::{Refused, Rehearsal, Rehearsed},
};
use gig_vault::{
    Guarded, Keeper, Part, Secret, SecretBytes, SecretFuture, SecretUnavailable, Treatment,
};
use parking_lot::Mutex;
use serde::Serialize;

use super::{
    kept::{Kept, now},
    unclosed::{misspelt, unclosed},
};
use crate::args::secret::SecretTestArgs;

/// One place of a request, and what came of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Place {
    /// As a policy's `in` spells it.
    pub(super) place: String,
    pub(super) placed: bool,
    /// The request's line with the sentinel, or why not.
    pub(super) shown: String,
}

/// What is shown of a request.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) places: Vec<Place>,
    pub(super) treatment: Option<String>,
    pub(super) lack: Option<String>,
}

/// A wallet with sentinels for one secret, and the request.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    args: &'a SecretTestArgs,
    name: SecretName,
    keeper: Arc<OneSecret>,
    wallet: Arc<Wallet>,
    real: Arc<Secret>,
    shown: Arc<Secret>,
}

/// Keeps one secret, or what is shown in its stead.
#[derive(Debug)]
struct OneSecret {
    secret: Mutex<Arc<Secret>>,
    guarded: Arc<Guarded>,
}

impl Keeper for OneSecret {
    fn at_hand(&self, name: &SecretName) -> Option<Arc<Secret>> {
        let secret = self.secret.lock();
        (secret.name == *name).then(|| Arc::clone(&secret))
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        let missing = || SecretUnavailable::Unknown { name: name.clone() };
        Box::pin(std::future::ready(self.at_hand(name).ok_or_else(missing)))
    }

    fn guarded(&self) -> Arc<Guarded> {
        Arc::clone(&self.guarded)
    }
}

/// A request that is tried.
struct Attempt {
    place: String,
    target: String,
    fields: Vec<String>,
    body: Option<String>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        name: &SecretName,
        kept: &Kept,
        args: &'a SecretTestArgs,
    ) -> anyhow::Result<Self> {
        let texts = [&args.url]
            .into_iter()
            .chain(&args.header)
            .chain(&args.body);
        for text in texts.filter(|_| kept.real) {
            if kept
                .secret
                .parts
                .iter()
                .any(|part| holds(text, &part.value))
            {
                bail!(
                    "the command line holds the value of {name}; the shell put it there: write \
                     {{{name}}} where the program would write its variable"
                );
            }
        }
        let real = Arc::clone(&kept.secret);
        let keeper = Arc::new(OneSecret {
            secret: Mutex::new(Arc::clone(&real)),
            guarded: Arc::default(),
        });
        let border = Border::new(Arc::clone(&keeper) as Arc<dyn Keeper>);
        let wallet = border.wallet(SandboxId::new(uuid::Uuid::now_v7()));
        wallet
            .hold(&real)
            .with_context(|| format!("cannot make a sentinel for {name}"))?;
        let held = wallet.held();
        let with_sentinel = |(number, part): (usize, &Part)| Part {
            variable: Arc::clone(&part.variable),
            value: SecretBytes::from(held.get(number).map_or("", |held| &*held.sentinel)),
            shape: part.shape.clone(),
        };
        let shown = Secret {
            name: name.clone(),
            version: real.version,
            parts: real.parts.iter().enumerate().map(with_sentinel).collect(),
            treatment: real.treatment.clone(),
            entrusted: real.entrusted,
        };
        Ok(Self {
            args,
            name: name.clone(),
            keeper,
            wallet,
            real,
            shown: Arc::new(shown),
        })
    }

    /// The first part's.
    pub(super) fn sentinel(&self) -> Option<String> {
        self.wallet
            .held()
            .first()
            .map(|held| held.sentinel.to_string())
    }

    /// `text` with the sentinel where `{NAME}` stands.
    pub(super) fn filled(&self, text: &str) -> String {
        let held = self.wallet.held();
        held.iter().fold(text.to_owned(), |text, held| {
            text.replace(&format!("{{{}}}", held.variable), &held.sentinel)
        })
    }

    /// Refuses a URL with braces around what is no variable of the secret: it would go out as it is.
    pub(super) fn refuse_misspelt(&self) -> anyhow::Result<()> {
        let held = self.wallet.held();
        let names = held.iter().map(|held| &*held.variable);
        misspelt(&self.filled(&self.args.url), names)
            .map_or(Ok(()), |words| bail!("--url: {words}"))
    }

    /// Readies the request, in all the ways that are asked for.
    pub(super) fn act(&self, policy: &Policy, explanation: &Explanation) -> anyhow::Result<Shown> {
        if matches!(self.real.treatment, Treatment::Replace | Treatment::Bearer) {
            return self.try_places(policy, explanation);
        }
        let attempt = self.whole();
        Ok(
            match self.ready(policy, explanation, &attempt, &self.real)? {
                Err(refused) => Shown {
                    lack: Some(refused.to_string()),
                    ..Shown::default()
                },
                Ok((_, rehearsed)) => Shown {
                    treatment: Some(self.treatment(&rehearsed)),
                    ..Shown::default()
                },
            },
        )
    }

    fn try_places(&self, policy: &Policy, explanation: &Explanation) -> anyhow::Result<Shown> {
        let whole = self.whole();
        let url = self.filled(&self.args.url);
        let texts = [&url].into_iter().chain(&whole.fields);
        let texts = texts.chain(&whole.body);
        let held = self.wallet.held();
        let filled = texts
            .into_iter()
            .any(|text| held.iter().any(|held| text.contains(&*held.sentinel)));
        let says_where = filled || self.unclosed().is_some();
        let attempts = if says_where {
            vec![whole]
        } else {
            let permit = self.decided(policy, explanation, &self.rehearsal(explanation, &whole)?);
            self.attempts(permit.as_ref().map_or(&[], RequestPermit::secrets))?
        };
        let mut places = Vec::new();
        for attempt in &attempts {
            places.push(self.attempt(policy, explanation, attempt)?);
        }
        let lack = match places.as_slice() {
            [only] if !only.placed => Some(only.shown.clone()),
            places if places.iter().any(|place| place.placed) => None,
            _ => Some(format!("{} goes into no part of this request", self.name)),
        };
        Ok(Shown {
            places,
            treatment: None,
            lack,
        })
    }

    /// One place: judged with the value, shown with the sentinel.
    fn attempt(
        &self,
        policy: &Policy,
        explanation: &Explanation,
        attempt: &Attempt,
    ) -> anyhow::Result<Place> {
        let place = |placed, shown| Place {
            place: attempt.place.clone(),
            placed,
            shown,
        };
        match self.ready(policy, explanation, attempt, &self.real)? {
            Err(refused) => return Ok(place(false, refused.to_string())),
            // Nothing of the request with the value in it is kept.
            Ok((_, rehearsed)) => {
                let named = |name: &Arc<str>| **name == *self.name.as_str();
                if !rehearsed.secrets.iter().any(named) {
                    return Ok(place(false, self.unplaced()));
                }
            }
        }
        let shown = self.ready(policy, explanation, attempt, &self.shown)?;
        let shown = shown.map_err(|refused| anyhow!(refused))?;
        Ok(place(true, self.line(&shown.0)))
    }

    /// What was meant for a place, and is sent as it is written.
    pub(super) fn unclosed(&self) -> Option<String> {
        let texts = [&self.args.url].into_iter().chain(&self.args.header);
        let held = self.wallet.held();
        let variables: Vec<&str> = held.iter().map(|held| &*held.variable).collect();
        let mut texts = texts.chain(&self.args.body);
        texts.find_map(|text| unclosed(text, &variables))
    }

    /// Why nothing was placed.
    fn unplaced(&self) -> String {
        if let Some(unclosed) = self.unclosed() {
            return unclosed;
        }
        let url = self.filled(&self.args.url);
        let fragment = url.split_once('#').map_or("", |(_, fragment)| fragment);
        let held = self.wallet.held();
        match held.iter().any(|held| fragment.contains(&*held.sentinel)) {
            true => "no client sends what stands behind the `#` of a URL".to_owned(),
            false => "it stays what it is there".to_owned(),
        }
    }

    /// Readies one request with `secret`; the policy decides on its own path.
    fn ready(
        &self,
        policy: &Policy,
        explanation: &Explanation,
        attempt: &Attempt,
        secret: &Arc<Secret>,
    ) -> anyhow::Result<Result<(Rehearsal, Rehearsed), Refused>> {
        let mut request = self.rehearsal(explanation, attempt)?;
        let permit = match self.decided(policy, explanation, &request) {
            Ok(permit) => permit,
            Err(refused) => return Ok(Err(refused)),
        };
        *self.keeper.secret.lock() = Arc::clone(secret);
        let readied = now(request.ready(&self.wallet, &permit))?;
        Ok(readied.map(|rehearsed| (request, rehearsed)))
    }

    /// The request, not decided on yet.
    fn rehearsal(&self, explanation: &Explanation, attempt: &Attempt) -> anyhow::Result<Rehearsal> {
        let authority = match (explanation.protocol, explanation.port) {
            ("https", 443) | ("http", 80) => explanation.host.clone(),
            (_, port) => format!("{}:{port}", explanation.host),
        };
        let scheme = (explanation.protocol, authority.as_str());
        let mut request = Rehearsal::new(&self.args.method, scheme, &attempt.target)?;
        for field in &attempt.fields {
            request.field(field)?;
        }
        request.body = attempt.body.as_ref().map(|body| body.as_bytes().to_vec());
        Ok(request)
    }

    /// What lets the request go.
    fn decided(
        &self,
        policy: &Policy,
        explanation: &Explanation,
        request: &Rehearsal,
    ) -> Result<RequestPermit, Refused> {
        let refused = |reason, why: &str| Refused {
            reason,
            why: why.to_owned(),
        };
        if !matches!(explanation.protocol, "https" | "http") {
            let why = "bytes that are not looked into carry no secret";
            return Err(refused(DenyReason::ProtocolNotAllowed, why));
        }
        let host = Host::parse(&explanation.host).ok();
        let (Some(host), Some(port)) = (host, Port::new(explanation.port)) else {
            return Err(refused(DenyReason::MalformedRequest, "it names no host"));
        };
        request.decided(policy, &host, port)
    }

    /// The request as the options say it.
    fn whole(&self) -> Attempt {
        let url = self.filled(&self.args.url);
        let fields = self.args.header.iter().map(|field| self.filled(field));
        Attempt {
            place: "the request".to_owned(),
            target: target(&url),
            fields: fields.collect(),
            body: self.args.body.as_ref().map(|body| self.filled(body)),
        }
    }

    /// The request with the sentinel in each place that clients use, and that the policy names.
    fn attempts(&self, grants: &[SecretGrant]) -> anyhow::Result<Vec<Attempt>> {
        let of = |grant: &&SecretGrant| grant.name == self.name;
        let named = grants
            .iter()
            .filter(of)
            .filter_map(|grant| grant.places.as_ref());
        let mut places: Vec<SecretPlace> = Vec::new();
        let usual = USUAL
            .into_iter()
            .map(str::parse)
            .collect::<Result<Vec<_>, _>>()?;
        let writes = matches!(self.args.method.as_str(), "POST" | "PUT" | "PATCH");
        let usual = usual
            .into_iter()
            .filter(|place| writes || *place != SecretPlace::Body);
        for place in named.flat_map(|some| some.iter().cloned()).chain(usual) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Ok(places.iter().map(|place| self.holding(place)).collect())
    }

    fn holding(&self, place: &SecretPlace) -> Attempt {
        let mut attempt = self.whole();
        attempt.place = place.to_string();
        let held = self.wallet.held();
        let of = |part: usize| held.get(part).map_or("", |held| &*held.sentinel);
        let sentinel = of(0);
        match place {
            // Of any field, the one that most have.
            SecretPlace::Header(name) if ["authorization", "*"].contains(&&**name) => {
                attempt
                    .fields
                    .push(format!("authorization: Bearer {sentinel}"));
            }
            SecretPlace::Header(name) => attempt.fields.push(format!("{name}: {sentinel}")),
            SecretPlace::Basic => {
                let user = if held.len() > 1 { of(1) } else { "user" };
                let pair = STANDARD.encode(format!("{user}:{sentinel}"));
                attempt.fields.push(format!("authorization: Basic {pair}"));
            }
            SecretPlace::Cookie(name) => attempt.fields.push(format!("cookie: {name}={sentinel}")),
            SecretPlace::Query(name) => {
                let mark = if attempt.target.contains('?') {
                    '&'
                } else {
                    '?'
                };
                attempt.target += &format!("{mark}{name}={sentinel}");
            }
            SecretPlace::Path => {
                let (path, query) = match attempt.target.split_once('?') {
                    Some((path, query)) => (path, format!("?{query}")),
                    None => (attempt.target.as_str(), String::new()),
                };
                attempt.target = format!("{}/{sentinel}{query}", path.trim_end_matches('/'));
            }
            SecretPlace::Body => {
                attempt
                    .fields
                    .push("content-type: application/json".to_owned());
                attempt.body = Some(format!("{{\"key\":\"{sentinel}\"}}"));
            }
            // Of answers: no request has it.
            SecretPlace::Member(_) => {}
        }
        attempt
    }

    /// The lines of a request that hold the sentinel.
    fn line(&self, request: &Rehearsal) -> String {
        let held = self.wallet.held();
        let holds = |text: &str| held.iter().any(|held| text.contains(&*held.sentinel));
        let mut lines = Vec::new();
        if holds(request.target.as_str()) {
            lines.push(format!("{} {}", request.method, request.target));
        }
        for (name, value) in &request.headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            let pair = value
                .strip_prefix("Basic ")
                .and_then(|pair| STANDARD.decode(pair).ok());
            let pair = pair.map(|pair| String::from_utf8_lossy(&pair).into_owned());
            if let Some(pair) = pair.filter(|pair| holds(pair)) {
                lines.push(format!("{name}: {value} (which is {pair})"));
            } else if holds(&value) {
                lines.push(format!("{name}: {value}"));
            }
        }
        let body = request.body.as_deref().map(String::from_utf8_lossy);
        lines.extend(
            body.filter(|body| holds(body))
                .map(std::borrow::Cow::into_owned),
        );
        lines.join(", ")
    }

    /// What is done instead of placing a value, in words.
    fn treatment(&self, rehearsed: &Rehearsed) -> String {
        let all = |some: &[String]| match some {
            [] => "all".to_owned(),
            some => some.join(", "),
        };
        match &self.real.treatment {
            Treatment::Aws(scope) => format!(
                "what the program signs with its sentinels (AWS Signature Version 4 or 4A) is checked \
                 and signed again with the keys: regions {}, services {}",
                all(&scope.regions),
                all(&scope.services)
            ),
            Treatment::Hmac(_) => {
                let fields: Vec<&str> = rehearsed.treated.iter().map(|f| f.as_str()).collect();
                format!("the request is signed with the key: {}", fields.join(", "))
            }
            Treatment::ClientCertificate => {
                "the request's connection shows the origin the certificate".to_owned()
            }
            Treatment::Replace | Treatment::Bearer => String::new(),
        }
    }
}

/// Path and query of a URL.
fn target(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('#').next().unwrap_or_default();
    match rest.find(['/', '?']).map(|at| rest.split_at(at)) {
        Some((_, target)) if target.starts_with('?') => format!("/{target}"),
        Some((_, target)) => target.to_owned(),
        None => "/".to_owned(),
    }
}

/// Whether `text` holds a value; a very short one is in anything.
fn holds(text: &str, value: &SecretBytes) -> bool {
    let value = value.expose();
    value.len() >= crate::secrets::SHORTEST
        && text
            .as_bytes()
            .windows(value.len())
            .any(|window| window == value)
}

/// Where clients put a secret.
const USUAL: [&str; 7] = [
    "header:authorization",
    "basic",
    "header:x-api-key",
    "cookie:session",
    "query:key",
    "path",
    "body",
];
