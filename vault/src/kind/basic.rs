//! `basic`: a user and a password for HTTP Basic (RFC 7617), stored as `user:password`.
//!
//! `NAME` holds the password's sentinel and `NAME_USER` the user's, so that a program can put them
//! wherever it wants a pair; the border finds them in an encoded `Authorization` field too.

use super::{Kind, MintFuture, MintRequest, Minted, UnusableValueError};
use crate::{
    secret::{Part, Shape},
    secret_bytes::SecretBytes,
};

/// The kind `basic`.
#[derive(Debug, Clone, Copy)]
pub struct Basic;

impl Basic {
    fn halves(value: &SecretBytes) -> Result<(&[u8], &[u8]), UnusableValueError> {
        let octets = value.expose();
        // The user ends at the first colon; the password may hold more of them (RFC 7617 §2).
        let colon = octets.iter().position(|octet| *octet == b':');
        let halves = colon.and_then(|at| octets.split_at_checked(at));
        match halves.and_then(|(user, rest)| rest.split_first().map(|(_, word)| (user, word))) {
            Some((user, word)) if !user.is_empty() && !word.is_empty() => Ok((user, word)),
            _ => Err(UnusableValueError {
                kind: "basic",
                expected: "it has to be user:password, neither of them empty".to_owned(),
            }),
        }
    }
}

impl Kind for Basic {
    fn name(&self) -> &'static str {
        "basic"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        Self::halves(value).map(drop)
    }

    fn guards(&self, part: usize) -> bool {
        part == 0
    }

    fn stored_parts(&self, value: &SecretBytes) -> Option<Vec<SecretBytes>> {
        let (_, password) = Self::halves(value).ok()?;
        Some(vec![SecretBytes::copy_of(password)])
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            let (user, password) = Self::halves(request.value)?;
            Ok(Minted::replaced(vec![
                Part {
                    variable: request.name.shared().clone(),
                    value: SecretBytes::copy_of(password),
                    shape: request.shape.cloned().unwrap_or_default(),
                },
                Part {
                    variable: format!("{}_USER", request.name).into(),
                    value: SecretBytes::copy_of(user),
                    shape: Shape::Plain,
                },
            ]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_split_at_the_first_colon() {
        let value = SecretBytes::copy_of(b"ann:pa:ss");
        assert_eq!(Basic::halves(&value).unwrap(), (&b"ann"[..], &b"pa:ss"[..]));
    }

    #[test]
    fn half_a_pair_is_refused() {
        for bad in ["", ":", "ann", "ann:", ":pass"] {
            assert!(Basic.check(&SecretBytes::copy_of(bad.as_bytes())).is_err());
        }
    }
}
