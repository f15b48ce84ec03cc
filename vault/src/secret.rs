//! One version of one secret, as the border uses it.

use std::sync::Arc;

use gig_policy::SecretName;

use crate::{kind::HmacDefinition, secret_bytes::SecretBytes};

/// One version of one secret.
#[derive(Debug)]
pub struct Secret {
    /// What policies call it.
    pub name: SecretName,
    /// Counts up with every new value, from 1.
    pub version: u64,
    /// What a sandbox holds a sentinel for, one each. Never empty.
    pub parts: Vec<Part>,
    /// What the border does with them.
    pub treatment: Treatment,
    /// Handed to the program as it is, without a sentinel: only where the policy says so too.
    pub entrusted: bool,
}

impl Secret {
    /// Whether a program may get credentials with it that work, which is worth a warning.
    #[must_use]
    pub fn hands_out(&self) -> bool {
        matches!(&self.treatment, Treatment::Aws(scope) if scope.hands_out)
    }

    /// What the border does instead of placing a value, where it does: a place means nothing to such a secret.
    #[must_use]
    pub const fn placeless(&self) -> Option<&'static str> {
        match self.treatment {
            Treatment::Replace | Treatment::Bearer => None,
            Treatment::Aws(_) => Some("the program's own signature is made anew where it stands"),
            Treatment::Hmac(_) => Some("the signature stands where its definition says"),
            Treatment::ClientCertificate => Some("the certificate is shown on the connection"),
        }
    }
}

/// One value of a secret.
#[derive(Debug)]
pub struct Part {
    /// The variable that holds its sentinel inside a sandbox. The first part's is the secret's name.
    pub variable: Arc<str>,
    /// The value.
    pub value: SecretBytes,
    /// What its sentinel looks like.
    pub shape: Shape,
}

/// What a sentinel looks like, so that a client's own checks let it through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Shape {
    /// `gigph-` and 32 hexadecimal digits.
    #[default]
    Plain,
    /// A fixed beginning and as many characters of an alphabet as the real thing has.
    Like {
        /// Such as `ghp_`.
        prefix: String,
        /// Characters after the prefix; enough of them that a sentinel cannot be guessed.
        length: usize,
        /// The characters to draw from, each once.
        alphabet: String,
    },
    /// Three base64url parts and two dots, the first two of which decode to JSON objects (RFC 7519).
    Jwt,
}

impl Shape {
    /// Whether half of `value` or more could be read off a sentinel of this shape.
    #[must_use]
    pub fn tells_half_of(&self, value: &[u8]) -> bool {
        let Self::Like { prefix, .. } = self else {
            return false;
        };
        let alike = prefix.bytes().zip(value).take_while(|(a, b)| a == *b);
        let told = alike.count();
        told > 0 && 2 * told >= value.len()
    }
}

/// What the border does with a secret.
#[derive(Debug, Clone, Default)]
pub enum Treatment {
    /// Each sentinel is replaced by its value wherever it stands.
    #[default]
    Replace,
    /// The same for a token that gig got: such go in header fields. Elsewhere it is replaced only where the
    /// policy names the place.
    Bearer,
    /// What the program signed with sentinels is signed again with the real keys: AWS Signature
    /// Version 4 and 4A. The parts are key id, secret key and, for temporary keys, session token.
    Aws(Arc<AwsScope>),
    /// Every request that it is granted to is signed with the one part, as the template says.
    Hmac(Arc<HmacDefinition>),
    /// The one part, a certificate with its key in PEM, is presented on connections of requests that it
    /// is granted to.
    ClientCertificate,
}

/// What an AWS key signs for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsScope {
    /// Regions; all when empty.
    pub regions: Vec<String>,
    /// Services; all when empty.
    pub services: Vec<String>,
    /// Also for requests whose answers are credentials.
    pub hands_out: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_begins_like_half_of_a_value_tells_it() {
        let like = |prefix: &str| Shape::Like {
            prefix: prefix.to_owned(),
            length: 20,
            alphabet: "0123456789abcdef".to_owned(),
        };
        for (prefix, value, tells) in [
            ("ghp_", "ghp_0123456789abcdef", false),
            ("ghp_012345", "ghp_0123456789abcdef", true),
            ("ghp_01234", "ghp_0123456789abcdef", false),
            // Whatever follows what is alike.
            ("ghp_012345-and-more", "ghp_0123456789abcdef", true),
            ("other", "ghp_0123456789abcdef", false),
            ("", "ghp_", false),
            ("x", "", false),
        ] {
            assert_eq!(
                like(prefix).tells_half_of(value.as_bytes()),
                tells,
                "{prefix}"
            );
        }
        assert!(!Shape::Plain.tells_half_of(b"gigph-"));
    }
}
