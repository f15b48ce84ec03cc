//! Secrets that are not put anywhere: with them the border signs, or shows who it is.
//!
//! | treatment | when | what |
//! | --- | --- | --- |
//! | `aws` | the request is signed with sentinels | it is signed again with the keys |
//! | `hmac` | every request that it is granted to | a field with the signature is added |
//! | `client_certificate` | every connection for such requests | the origin is shown the certificate |

pub mod aws;
pub mod certificate;
pub mod hmac;

use std::sync::Arc;

use gig_policy::DenyReason;
use gig_vault::{Secret, Treatment};

use super::treat::{Treat, Untreatable};

/// The treatment of a secret whose sentinels `sentinels` (one for each part) stand in a request; `None`
/// where they are replaced by values.
#[must_use]
pub fn treatment(secret: &Arc<Secret>, sentinels: &[Arc<str>]) -> Option<Arc<dyn Treat>> {
    match &secret.treatment {
        Treatment::Replace | Treatment::Bearer => None,
        Treatment::Aws(scope) => Some(Arc::new(aws::Aws::new(secret, scope, sentinels))),
        Treatment::Hmac(definition) => Some(Arc::new(hmac::Hmac::new(secret, definition))),
        Treatment::ClientCertificate => Some(Arc::new(certificate::Nowhere::new(secret))),
    }
}

/// Whether requests are treated without holding a sentinel: it is enough that policy grants it.
#[must_use]
pub const fn treats_every_request(treatment: &Treatment) -> bool {
    match treatment {
        Treatment::Replace | Treatment::Bearer | Treatment::Aws(_) => false,
        Treatment::Hmac(_) | Treatment::ClientCertificate => true,
    }
}

fn untreatable(secret: &Secret, reason: DenyReason, why: impl Into<String>) -> Untreatable {
    Untreatable {
        name: secret.name.clone(),
        reason,
        why: why.into(),
    }
}
