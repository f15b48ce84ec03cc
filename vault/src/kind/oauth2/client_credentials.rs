//! `oauth2_client_credentials`: a client asks in its own name (RFC 6749 §4.4).
//!
//! The stored value is the client's secret, or its private key in PEM for `private_key_jwt`.

use serde::{Deserialize, Serialize};

use super::{ClientDefinition, TokenEndpoint, ask, ends, token_part};
use crate::{
    kind::{Kind, MintFuture, MintRequest, Minted, UnusableValueError},
    secret::Treatment,
    secret_bytes::SecretBytes,
};

/// Its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oauth2ClientCredentialsDefinition {
    /// Where tokens are given.
    pub endpoint: TokenEndpoint,
    /// Who asks.
    pub client: ClientDefinition,
    /// Scopes, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Whom the token is for, where the endpoint wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
}

/// The kind.
#[derive(Debug, Clone)]
pub struct Oauth2ClientCredentials(pub Oauth2ClientCredentialsDefinition);

impl Kind for Oauth2ClientCredentials {
    fn name(&self) -> &'static str {
        "oauth2_client_credentials"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        self.0.client.check(value, self.name())
    }

    fn may_be_entrusted(&self) -> bool {
        false
    }

    fn is_minted(&self) -> bool {
        true
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            self.check(request.value)?;
            let options = &self.0;
            let shown = options
                .client
                .show(request.value, &options.endpoint, &request)?;
            let mut fields: Vec<(&str, &[u8])> = vec![("grant_type", b"client_credentials")];
            if let Some(scope) = &options.scope {
                fields.push(("scope", scope.as_bytes()));
            }
            if let Some(audience) = &options.audience {
                fields.push(("audience", audience.as_bytes()));
            }
            fields.extend(
                shown
                    .fields
                    .iter()
                    .map(|(name, value)| (*name, value.expose())),
            );
            let fetch = request.fetch.as_ref();
            let granted = ask(fetch, &options.endpoint, &fields, shown.authorization).await?;
            Ok(Minted {
                expires: ends(request.clock.now(), granted.expires_in),
                parts: vec![token_part(&request, granted.access_token)],
                treatment: Treatment::Bearer,
                replacement: None,
            })
        })
    }
}
