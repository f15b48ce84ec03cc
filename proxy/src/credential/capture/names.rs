//! What tokens and other credentials are called in the answers of token endpoints.

use memchr::memmem;

use crate::credential::{
    letters::word,
    naming::{CREDENTIALS, is_sent},
};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    /// For requests to an API.
    Access,
    /// Says who logged in; some APIs take it instead of an access token.
    Identity,
    /// For more tokens.
    Refresh,
    /// For tokens, once somebody agreed (RFC 8628).
    Device,
}

impl Field {
    /// `access_token`, `accessToken`, and what some servers put before it, such as `bot_`.
    pub(super) fn named(name: &str) -> Option<Self> {
        let plain = |c: &char| *c != '_' && *c != '-';
        let bare: String = name.chars().filter(plain).collect();
        let bare = bare.to_ascii_lowercase();
        let fields = [
            ("accesstoken", Self::Access),
            ("refreshtoken", Self::Refresh),
            ("idtoken", Self::Identity),
            ("devicecode", Self::Device),
        ];
        let mut ends = fields.iter().filter(|(word, _)| bare.ends_with(word));
        ends.next().map(|(_, field)| *field)
    }

    /// As the RFC calls it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access_token",
            Self::Identity => "id_token",
            Self::Refresh => "refresh_token",
            Self::Device => "device_code",
        }
    }

    /// The fields that say how long such a token lives.
    pub(super) const fn lifetimes(self) -> &'static [&'static str] {
        match self {
            Self::Access | Self::Identity | Self::Device => &["expires_in", "expiresIn"],
            Self::Refresh => &["refresh_token_expires_in", "refresh_expires_in"],
        }
    }
}

/// How long a token lives, where an answer says so in whole seconds: 0 is said of one that does not end
/// (Keycloak's offline tokens), and of one that is given out and over at once nobody has any use.
pub(super) fn lifetime(seconds: u64) -> Option<u64> {
    Some(seconds).filter(|seconds| *seconds > 0)
}

/// Whether something is called as credentials are (`provider_token`, `client_secret`, `SecretKey`): it opens
/// something, and nobody said that the program may have it. What guards a form is none.
pub(super) fn is_credential(name: &str) -> bool {
    let bare = word(name.as_bytes());
    let holds = |part: &&str| memmem::find(&bare, part.as_bytes()).is_some();
    let ends = |word: &&str| bare.ends_with(word.as_bytes());
    CREDENTIALS.iter().any(ends) && !FORMS.iter().any(holds)
}

/// The same of a long value without blanks, of which more names say so.
pub(super) fn is_called_credential(name: &str, value: &[u8]) -> bool {
    if is_credential(name) {
        return true;
    }
    let long = value.len() >= LONG && !value.iter().any(u8::is_ascii_whitespace);
    let bare = word(name.as_bytes());
    let holds = |part: &&str| memmem::find(&bare, part.as_bytes()).is_some();
    long && is_sent(&bare) && !FORMS.iter().chain(&HARMLESS).any(holds)
}

/// What is shorter may be the key of something else: of a map, of a translation.
const LONG: usize = 16;
/// In names of what guards a form against other sites.
const FORMS: [&str; 4] = ["csrf", "xsrf", "verificationtoken", "authenticitytoken"];
/// In names of keys that open nothing: halves of pairs that everybody may have, and what is used once.
const HARMLESS: [&str; 4] = ["public", "publishable", "nonce", "idempotency"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_opens_something_and_what_does_not() {
        let long = b"0123456789abcdef0123456789abcdef";
        for (name, is) in [
            ("key", true),
            ("api_key", true),
            ("deploy-key", true),
            ("Authorization", true),
            ("session_cookie", true),
            ("auth", true),
            ("client_secret", true),
            // It is exchanged for a token, once.
            ("public_token", true),
            ("nonce_secret", true),
            ("csrf_token", false),
            ("csrf_key", false),
            ("csrfKey", false),
            ("X-XSRF-Key", false),
            ("xsrf_cookie", false),
            ("csrf_auth_bearer", false),
            ("nonce_key", false),
            ("idempotency_key", false),
            ("Idempotency-Key", false),
            ("public_key", false),
            ("ssh-public-key", false),
            ("publishableKey", false),
            ("monkey_business", false),
            ("bypass", false),
        ] {
            assert_eq!(is_called_credential(name, long), is, "{name}");
        }
        assert!(!is_called_credential("key", b"short"));
        assert!(!is_called_credential(
            "key",
            b"words that are a text of several"
        ));
    }
}
