//! What somebody of a sign-on provider is called here: for people to read, never to find them by.

use sha2::{Digest as _, Sha256};

use super::id_token::Claims;
use crate::store::Name;

/// By what the provider says; of who has no name, a part of the digest of what it calls them.
pub(super) fn name_of(claims: &Claims, issuer: &str) -> Name {
    let said = ["preferred_username", "email"]
        .into_iter()
        .find_map(|claim| plain(claims.text(claim)?));
    said.unwrap_or_else(|| digest_name(issuer, &claims.subject))
}

/// As much of it as a name can have.
fn plain(said: &str) -> Option<Name> {
    let fits = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' | '@' => c,
        _ => '-',
    };
    let begins = |c: char| !c.is_ascii_alphanumeric();
    // Room for what tells two of one name apart.
    let name: String = said
        .trim_start_matches(begins)
        .chars()
        .map(fits)
        .take(60)
        .collect();
    name.parse().ok()
}

/// A name and, for who comes later, others like it.
pub(super) fn free_names(name: &Name) -> Vec<Name> {
    let others = (2..=20).filter_map(|n| format!("{name}-{n}").parse().ok());
    std::iter::once(name.clone()).chain(others).collect()
}

#[expect(
    clippy::expect_used,
    reason = "sso- and 24 hexadecimal digits are a name"
)]
fn digest_name(issuer: &str, subject: &str) -> Name {
    let digest = Sha256::digest(format!("{issuer}\n{subject}").as_bytes());
    let hex: String = digest.iter().take(12).map(|o| format!("{o:02x}")).collect();
    format!("sso-{hex}").parse().expect("a name")
}
