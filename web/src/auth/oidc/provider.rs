//! The sign-on provider: its discovery document, its keys, and the exchange of a code for a token.
//!
//! All of it comes over [`crate::Outbound`]: vetted addresses, no redirects, bounded answers. What a
//! provider says of itself is believed only as far as it names itself as configured.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{OidcSettings, Refused, keys::Keys};
use crate::{
    outbound::{Outbound, OutboundRequest},
    pages::in_query,
};

/// What is known of it.
#[derive(Default)]
pub(super) struct Provider {
    described: Mutex<Option<Kept<Described>>>,
    keys: Mutex<Option<Kept<Keys>>>,
    /// When it failed last: it is not asked again at once, whoever wants to sign in.
    failed: Mutex<Option<(Timestamp, String)>>,
}

struct Kept<T> {
    at: Timestamp,
    value: Arc<T>,
}

/// The members of a discovery document that matter (OpenID Connect Discovery 1.0, 3).
#[derive(Debug, Deserialize)]
pub(super) struct Described {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    /// RFC 9207: it names itself where it answers.
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// What is given for a token.
pub(super) struct Code<'a> {
    pub(super) code: &'a str,
    pub(super) verifier: &'a str,
}

/// What a token endpoint says where it gives none.
#[derive(Deserialize)]
struct TokenError {
    error: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
}

impl Provider {
    /// Where it is asked what.
    pub(super) async fn described(
        &self,
        settings: &OidcSettings,
        outbound: &dyn Outbound,
        now: Timestamp,
    ) -> Result<Arc<Described>, Refused> {
        if let Some(kept) = fresh(&self.described, now, HOUR) {
            return Ok(kept);
        }
        if let Some((failed, why)) = &*self.failed.lock()
            && now.duration_since(*failed) < BREATH
        {
            return Err(Refused::Asked(why.clone()));
        }
        let url = format!(
            "{}/.well-known/openid-configuration",
            settings.issuer.trim_end_matches('/')
        );
        let asked = async {
            let body = get(outbound, url).await?;
            let described: Described = serde_json::from_slice(&body)
                .map_err(|_| Refused::provider("its discovery document is none"))?;
            described.checked(settings)
        };
        let described = asked.await.inspect_err(|refused| {
            if let Refused::Provider(why) = refused {
                *self.failed.lock() = Some((now, why.clone()));
            }
        })?;
        let value = Arc::new(described);
        let kept = Arc::clone(&value);
        *self.described.lock() = Some(Kept { at: now, value });
        Ok(kept)
    }

    /// Its keys: those that are known, where they are what is `wanted`; else those that it has now, but
    /// not oftener than once a minute, whoever presents tokens by keys that nobody has.
    pub(super) async fn keys(
        &self,
        described: &Described,
        outbound: &dyn Outbound,
        now: Timestamp,
        wanted: impl Fn(&Keys) -> bool,
    ) -> Result<Arc<Keys>, Refused> {
        if let Some(kept) = fresh(&self.keys, now, HOUR).filter(|kept| wanted(kept)) {
            return Ok(kept);
        }
        if let Some(kept) = fresh(&self.keys, now, MINUTE) {
            return Ok(kept);
        }
        let body = get(outbound, described.jwks_uri.clone()).await?;
        let keys = Keys::parse(&body).ok_or_else(|| Refused::provider("its key set is none"))?;
        let value = Arc::new(keys);
        let kept = Arc::clone(&value);
        *self.keys.lock() = Some(Kept { at: now, value });
        Ok(kept)
    }
}

fn fresh<T>(kept: &Mutex<Option<Kept<T>>>, now: Timestamp, most: SignedDuration) -> Option<Arc<T>> {
    let kept = kept.lock();
    let kept = kept.as_ref()?;
    (now.duration_since(kept.at) < most).then(|| Arc::clone(&kept.value))
}

impl Described {
    /// Refuses one that is another's, or that cannot do what is needed.
    fn checked(self, settings: &OidcSettings) -> Result<Self, Refused> {
        // Discovery 1.0, 4.3: exactly the same.
        if self.issuer != settings.issuer {
            return Err(Refused::provider(
                "it names itself otherwise than GIG_OIDC_ISSUER",
            ));
        }
        let endpoints = [
            &self.authorization_endpoint,
            &self.token_endpoint,
            &self.jwks_uri,
        ];
        let tls = settings.issuer.starts_with("https://");
        let fits =
            |url: &&String| url.starts_with("https://") || (!tls && url.starts_with("http://"));
        if !endpoints.iter().all(fits) {
            return Err(Refused::provider(
                "it names an endpoint that is not https://",
            ));
        }
        // What is not said may be so all the same.
        let methods = self.code_challenge_methods_supported.as_ref();
        if methods.is_some_and(|methods| !methods.iter().any(|one| one == "S256")) {
            return Err(Refused::provider("it does not take PKCE with S256"));
        }
        Ok(self)
    }

    /// Gives a code for an ID token.
    pub(super) async fn exchange(
        &self,
        settings: &OidcSettings,
        outbound: &dyn Outbound,
        code: Code<'_>,
    ) -> Result<Zeroizing<String>, Refused> {
        let mut body = Zeroizing::new(format!(
            "grant_type=authorization_code&code={}&redirect_uri={}&code_verifier={}",
            in_query(code.code),
            in_query(&settings.redirect),
            in_query(code.verifier)
        ));
        let mut authorization = None;
        let client = in_query(&settings.client_id);
        match &settings.client_secret {
            Some(secret) if self.takes_basic() => {
                // RFC 6749 §2.3.1: both as in a form.
                let pair = Zeroizing::new(format!("{client}:{}", in_query(secret)));
                let text = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(&*pair)));
                let value = HeaderValue::from_str(&text);
                authorization = Some(value.map_err(|_| Refused::provider("no such secret"))?);
            }
            Some(secret) => {
                body.push_str(&format!(
                    "&client_id={client}&client_secret={}",
                    in_query(secret)
                ));
            }
            None => body.push_str(&format!("&client_id={client}")),
        }
        let octets = body.as_bytes().to_vec().into();
        let mut request = OutboundRequest::post(self.token_endpoint.clone(), FORM, octets)
            .header(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let answer = outbound.send(request).await.map_err(Refused::unreached)?;
        match answer.status {
            StatusCode::OK => {}
            // RFC 6749 §5.2: all else is the client's, which gig is, or its own.
            StatusCode::BAD_REQUEST if is_invalid_grant(&answer.body) => {
                return Err(Refused::NotTaken);
            }
            _ => {
                return Err(Refused::provider(
                    "it does not answer what comes of the code",
                ));
            }
        }
        let answer: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| Refused::provider("its answer to the code is none"))?;
        let token = answer.id_token.map(Zeroizing::new);
        token.ok_or_else(|| Refused::provider("it gives no ID token"))
    }

    /// The default of the standard, and of who says nothing.
    fn takes_basic(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_ref();
        methods.is_none_or(|methods| methods.iter().any(|one| one == "client_secret_basic"))
    }
}

fn is_invalid_grant(body: &[u8]) -> bool {
    let said = serde_json::from_slice::<TokenError>(body);
    said.is_ok_and(|said| said.error == "invalid_grant")
}

async fn get(outbound: &dyn Outbound, url: String) -> Result<bytes::Bytes, Refused> {
    let request = OutboundRequest::get(url)
        .header(header::ACCEPT, HeaderValue::from_static("application/json"));
    let answer = outbound.send(request).await.map_err(Refused::unreached)?;
    match answer.status {
        StatusCode::OK => Ok(answer.body),
        _ => Err(Refused::provider("it does not answer what it is asked")),
    }
}

const FORM: &str = "application/x-www-form-urlencoded";
/// Keys that were withdrawn are not believed for longer.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// Enough that a page that is reloaded does not ask a provider that is down each time.
const BREATH: SignedDuration = SignedDuration::from_secs(5);
