//! A registry, as the distribution specification has it: documents and blobs by digest, with a token where
//! it asks for one.
//!
//! A login goes to the registry, or to the place that it names for tokens, over TLS or this machine's own
//! loopback, and to nobody a redirect leads to. The registry was named by a person; where it leads gig was
//! not, and is vetted ([`elsewhere`]).

use std::net::IpAddr;

use anyhow::{Context, bail};
use gig_proxy::UpstreamProxy;
use gig_sandbox::image::{INDEX_TYPES, MANIFEST_TYPES, Reference};
use hyper::{
    StatusCode,
    header::{
        ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE,
    },
};

use super::{
    arriving::{Arriving, To},
    http::{self, Answer},
    login::Login,
};
use crate::{
    fetch::{NetworkFetch, Stream, Target, is_loopback, is_no_tls},
    local_api::segment,
    run::settings::trusted_roots,
};

mod challenge;
mod elsewhere;

use challenge::Challenge;

/// How gig goes out to a registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outside<'a> {
    /// `--upstream-ca`.
    pub(super) upstream_ca: Option<&'a [u8]>,
    /// The host's proxy.
    pub(super) proxy: Option<&'a UpstreamProxy>,
    /// Whether a registry elsewhere may be asked without TLS.
    pub(super) clear_text: bool,
}

/// One repository of a registry.
pub(super) struct Registry {
    fetch: NetworkFetch,
    proxy: Option<UpstreamProxy>,
    /// `https://host[:port]`.
    base: String,
    /// Where it answers; unknown before it is asked, and behind the host's proxy.
    at: Option<IpAddr>,
    repository: String,
    login: Option<Login>,
    authorization: Option<HeaderValue>,
}

impl Registry {
    /// Looks how the registry is to be reached.
    ///
    /// # Errors
    /// When its name is none, or what it needs cannot be had.
    pub(super) async fn find(reference: &Reference, outside: &Outside<'_>) -> anyhow::Result<Self> {
        let roots = trusted_roots(outside.upstream_ca)?;
        let fetch = NetworkFetch::new(roots, outside.proxy.cloned());
        let host = reference.host();
        let secure = format!("https://{host}");
        let target = parse(&secure)?;
        let base = if outside.clear_text {
            format!("http://{host}")
        } else if is_loopback(&target.host) && speaks_no_tls(&fetch, &target).await {
            // Registries for trying things out are like this, and nobody else is on the way.
            format!("http://{host}")
        } else {
            secure
        };
        let login = Login::of(reference.registry())?;
        Ok(Self {
            fetch,
            proxy: outside.proxy.cloned(),
            base,
            at: None,
            repository: reference.repository().to_owned(),
            login,
            authorization: None,
        })
    }

    /// An index or a manifest by tag or digest, and what the registry calls it.
    ///
    /// # Errors
    /// When the registry has it not, or sends too much.
    pub(super) async fn document(
        &mut self,
        name: &str,
        most: u64,
    ) -> anyhow::Result<(Arriving, String)> {
        let path = format!("/v2/{}/manifests/{name}", self.repository);
        let mut arriving = Arriving::new(To::Memory(Vec::new()), most);
        let accept = [INDEX_TYPES, MANIFEST_TYPES].concat().join(", ");
        let answer = self.get(&path, &accept, &mut arriving).await?;
        let kind = answer
            .headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        Ok((arriving, kind.unwrap_or_default().to_owned()))
    }

    /// A blob, into `arriving`.
    ///
    /// # Errors
    /// When the registry has it not, or `arriving` takes no more.
    pub(super) async fn blob(&mut self, name: &str, arriving: &mut Arriving) -> anyhow::Result<()> {
        let path = format!("/v2/{}/blobs/{name}", self.repository);
        self.get(&path, "*/*", arriving).await.map(|_| ())
    }

    async fn get(
        &mut self,
        path: &str,
        accept: &str,
        arriving: &mut Arriving,
    ) -> anyhow::Result<Answer> {
        let url = format!("{}{path}", self.base);
        let (mut answer, own) = self.follow(&url, accept, arriving).await?;
        // Once for each: a token lives for a minute or some, and a pull for longer. What somebody else
        // asks for to whom the registry led is nothing to sign in for.
        if answer.status == StatusCode::UNAUTHORIZED && own {
            self.authorization = Some(self.sign_in(&answer.headers).await?);
            (answer, _) = self.follow(&url, accept, arriving).await?;
        }
        let base = &self.base;
        match answer.status {
            StatusCode::OK => Ok(answer),
            StatusCode::NOT_FOUND => bail!("{base} has no {path}"),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => bail!(
                "{base} does not give {path} to {}: `docker login` writes down what gig sends",
                if self.login.is_some() {
                    "this login"
                } else {
                    "anybody"
                }
            ),
            StatusCode::TOO_MANY_REQUESTS => {
                bail!("{base} takes no more requests for now; try later")
            }
            other => bail!("{base} answers {other} to {path}"),
        }
    }

    /// Goes where the registry points, without its authorization; tells whether the registry itself answers.
    async fn follow(
        &mut self,
        url: &str,
        accept: &str,
        arriving: &mut Arriving,
    ) -> anyhow::Result<(Answer, bool)> {
        let mut url = url.to_owned();
        for _ in 0..REDIRECTS {
            let target = parse(&url)?;
            let mut fields = vec![(ACCEPT, HeaderValue::from_str(accept)?)];
            let own = url
                .strip_prefix(&self.base)
                .is_some_and(|rest| rest.starts_with('/'));
            if let Some(authorization) = self.authorization.as_ref().filter(|_| own) {
                fields.push((AUTHORIZATION, authorization.clone()));
            }
            let answer = http::get(self.open(&target), &target, fields, arriving).await?;
            if !answer.status.is_redirection() {
                return Ok((answer, own));
            }
            let location = answer
                .headers
                .get(LOCATION)
                .and_then(|field| field.to_str().ok());
            let location = location.context("the registry redirects to nowhere")?;
            url = match location.starts_with('/') && !location.starts_with("//") {
                true => format!("{}{location}", origin(&url)),
                false => location.to_owned(),
            };
            self.refuse_weaker(&url)?;
        }
        bail!("{} redirects in circles", self.base)
    }

    /// Opens a stream: to the registry wherever its name leads, to anybody else where it may lead gig.
    async fn open(&mut self, target: &Target) -> Result<Box<dyn Stream>, String> {
        let own = parse(&self.base).map_err(|error| error.to_string())?;
        let stream = if own.host == target.host && own.port == target.port {
            let (stream, at) = self.fetch.dial(&target.host, target.port).await?;
            self.at = at;
            stream
        } else {
            elsewhere::dial(target, self.at, self.proxy.as_ref()).await?
        };
        let within = self.fetch.within(stream, &target.host, target.tls).await;
        within.map_err(|error| error.to_string())
    }

    /// What a registry points to is as private as it is itself.
    fn refuse_weaker(&self, url: &str) -> anyhow::Result<()> {
        let target = parse(url)?;
        let own = parse(&self.base)?;
        let beside = !own.tls && is_loopback(&own.host) && is_loopback(&target.host);
        let same = !own.tls && own.authority == target.authority;
        if target.tls || beside || same {
            return Ok(());
        }
        bail!("{} points to {} without TLS", self.base, target.authority)
    }

    /// What to send in answer to a 401.
    async fn sign_in(&mut self, headers: &HeaderMap) -> anyhow::Result<HeaderValue> {
        let own = parse(&self.base)?;
        if self.login.is_some() && !own.tls && !is_loopback(&own.host) {
            bail!(
                "{} asks for a login, which is not sent without TLS",
                self.base
            );
        }
        let asked = headers.get_all(WWW_AUTHENTICATE).iter();
        let asked = asked.filter_map(|field| field.to_str().ok());
        let asked: Vec<Challenge> = asked.filter_map(Challenge::parse).collect();
        let bearer = asked.iter().find(|challenge| challenge.is("bearer"));
        let Some(bearer) = bearer else {
            let basic = asked.iter().any(|challenge| challenge.is("basic"));
            return match self.login.as_ref().filter(|_| basic) {
                Some(login) => Ok(login.field()),
                None => bail!(
                    "{} asks for a login: `docker login` writes down what gig sends",
                    self.base
                ),
            };
        };
        let realm = bearer
            .value("realm")
            .context("the registry names no place for tokens")?;
        self.refuse_weaker(realm)?;
        let mut url = realm.to_owned();
        url.push(if realm.contains('?') { '&' } else { '?' });
        if let Some(service) = bearer.value("service") {
            url.push_str(&format!("service={}&", segment(service)));
        }
        url.push_str(&format!(
            "scope={}",
            segment(&format!("repository:{}:pull", self.repository))
        ));
        let target = parse(&url)?;
        let login = self
            .login
            .as_ref()
            .map(|login| (AUTHORIZATION, login.field()));
        let mut arriving = Arriving::new(To::Memory(Vec::new()), LONGEST_TOKEN);
        let fields = login.into_iter().collect();
        let answer = http::get(self.open(&target), &target, fields, &mut arriving).await?;
        if answer.status != StatusCode::OK {
            bail!(
                "{} gives no token: it answers {}",
                target.authority,
                answer.status
            );
        }
        let (To::Memory(body), _) = arriving.whole() else {
            bail!("a token is no file");
        };
        challenge::token(&body).with_context(|| format!("{} gives no token", target.authority))
    }
}

fn parse(url: &str) -> anyhow::Result<Target> {
    Target::parse(url).map_err(|why| anyhow::anyhow!("{why}"))
}

/// `https://host[:port]` of a URL.
fn origin(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url
        .get(begin..)
        .and_then(|rest| rest.find('/'))
        .map_or(url.len(), |at| begin + at);
    url.get(..end).unwrap_or(url)
}

/// Whether it answers, and with something that is no TLS. Silence, an alert or a certificate that nobody
/// trusts is no reason to do without.
async fn speaks_no_tls(fetch: &NetworkFetch, target: &Target) -> bool {
    let greeted = async {
        let (stream, _) = fetch.dial(&target.host, target.port).await.ok()?;
        fetch.within(stream, &target.host, true).await.err()
    };
    let greeted = tokio::time::timeout(LOOPBACK_ANSWERS, greeted).await;
    greeted.is_ok_and(|refused| refused.is_some_and(|error| is_no_tls(&error)))
}

/// As browsers and other clients of registries bound them.
const REDIRECTS: u32 = 10;
/// Tokens are a few thousand octets.
const LONGEST_TOKEN: u64 = 1 << 18;
/// It is on this machine.
const LOOPBACK_ANSWERS: std::time::Duration = std::time::Duration::from_secs(5);

#[cfg(test)]
mod tests;
