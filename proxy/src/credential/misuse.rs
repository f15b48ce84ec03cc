//! Finds sentinels and values on their way to where their secret is not bound.
//!
//! | where | a sentinel | a value |
//! | --- | --- | --- |
//! | header fields and their names, trailers, path, query, method, host, form bodies | refused | refused |
//! | fields of multipart forms, JSON strings that are called a key, token, secret, password … | refused | refused |
//! | other bodies, WebSocket messages | noted | refused |
//!
//! Every header field counts as a place for credentials: APIs invent their own, and nobody writes prose
//! into one. A value is refused wherever it stands, unless its secret may go to this very request. What
//! is written in pieces is looked for in the header section (all header values in a row, all cookies,
//! all query values) and in bodies whose values are told apart (`pieces`), letters and digits alone.

use std::sync::Arc;

use gig_policy::{SandboxId, SecretGrant, SecretPlace};
use http::{
    HeaderMap, Method,
    header::{COOKIE, HOST},
};

mod guard;
pub mod hidden;
mod nowhere;
mod pieces;
mod standing;
mod strand;

pub(super) use self::standing::Standing;
pub use self::{
    guard::Guard,
    nowhere::{HOST_NAME, in_method, in_name},
    pieces::Pieces,
    strand::Strand,
};
use super::{
    inject::basic_credentials,
    place::Places,
    tally::{Misuse, Tally},
    unescape::escapes,
    watch::{Found, Watch, What},
};

/// Who asks, and what its request may carry.
#[derive(Debug, Clone, Copy)]
pub struct Bearer<'a> {
    /// Whose request it is.
    pub sandbox: SandboxId,
    /// The secrets that may be swapped into it.
    pub granted: &'a [SecretGrant],
}

/// How a place is told in which a sentinel of another run stands.
pub const OF_ANOTHER_RUN: &str = super::bygone::NOTHING;

/// The name and the place, where a finding tells of a sentinel of the sandbox's own.
#[must_use]
pub fn sentinel_in(finding: &str) -> Option<(&str, &str)> {
    finding.strip_prefix("sentinel of ")?.split_once(" in ")
}

/// Why no value goes into a body though its secret may go to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    /// It is no text.
    NoText,
    /// It has chunks of AWS's own, with lengths and sums.
    AwsChunks,
    /// It, or what it is a part of, says its length, or is in a coding that cannot be undone.
    Bound,
}

impl Literal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NoText, Self::AwsChunks, Self::Bound];

    /// In the words of a record, behind the place.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::NoText => "where no value goes: it is no text",
            Self::AwsChunks => "where no value goes: it is sent in chunks of AWS's own",
            Self::Bound => "where no value goes: its length or coding cannot be another",
        }
    }

    /// What would have a value go there.
    #[must_use]
    pub const fn cure(self) -> &'static str {
        match self {
            Self::NoText => {
                "it is bound there, but no value is put into what is no text: have the program send it as JSON, a \
                 form or text, or in a header field (gRPC: metadata)"
            }
            Self::AwsChunks => {
                "it is bound there, but no value is put into an upload in chunks: have the SDK send it in one piece, \
                 --env AWS_REQUEST_CHECKSUM_CALCULATION=when_required (boto3: \
                 Config(request_checksum_calculation='when_required'))"
            }
            Self::Bound => {
                "it is bound there, but no value is put into what says its length or is coded so: have the program \
                 send it whole and without a content coding"
            }
        }
    }
}

/// What a find comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matter {
    /// It may be there.
    Fine,
    /// It is passed on as it is and noted.
    Noted,
    /// It must not pass.
    Refused,
}

impl Bearer<'_> {
    /// Whether the request may carry this secret.
    fn may_carry(&self, found: &Found) -> bool {
        let mut granted = self.granted.iter().filter(|grant| !grant.captures);
        granted.any(|grant| grant.name == found.name)
    }

    /// Whether the policy takes it in a body.
    fn may_stand_in_body(&self, found: &Found) -> bool {
        Places::of(&found.name, self.granted).allow(|place| *place == SecretPlace::Body)
    }

    /// What a find comes to, in a place for credentials or in other text.
    #[must_use]
    pub fn judge(&self, found: &Found, credential: bool) -> Matter {
        match found.what {
            What::Sentinel(owner) if owner == self.sandbox && self.may_carry(found) => Matter::Fine,
            What::Value { current: true, .. } if self.may_carry(found) => Matter::Fine,
            What::Captured(owner) if owner != self.sandbox || self.may_carry(found) => Matter::Fine,
            What::Sentinel(_) if !credential => Matter::Noted,
            What::Sentinel(_) | What::Value { .. } | What::Captured(_) => Matter::Refused,
        }
    }

    /// The words for a record.
    #[must_use]
    pub fn told(&self, found: &Found, place: &str) -> String {
        let what = match found.what {
            What::Sentinel(owner) if owner == self.sandbox => "sentinel",
            What::Sentinel(_) => "another sandbox's sentinel",
            What::Value { current: true, .. } | What::Captured(_) => "value",
            What::Value { current: false, .. } => "revoked value",
        };
        format!(
            "{what} of {} in {place} ({})",
            found.name,
            found.form.as_str()
        )
    }

    /// Tells, of a value that may go where it goes, that the program holds it: as one that it was handed, or that it
    /// should not have.
    pub fn tell_held(&self, tally: &Tally, found: &Found, place: &str) {
        let What::Value { version, .. } = found.what else {
            return;
        };
        let mut granted = self.granted.iter();
        let form = found.form.as_str();
        if granted.any(|grant| grant.entrusted && grant.name == found.name) {
            tally.swapped(&found.name, version);
            return tally.found(format!(
                "value of {}, which the program was handed, in {place} ({form})",
                found.name
            ));
        }
        tally.found(format!(
            "the program holds the value of {}: it wrote it into {place} ({form})",
            found.name
        ));
    }

    /// A find that is refused.
    #[must_use]
    pub fn misuse(&self, found: &Found, place: &str) -> Misuse {
        Misuse {
            name: found.name.clone(),
            text: self.told(found, place).into(),
            own: found.what == What::Sentinel(self.sandbox),
            revoked: matches!(found.what, What::Value { current: false, .. }),
        }
    }
}

/// The texts of a header section, one after the other, with their places.
#[derive(Debug, Default)]
pub struct HeadText {
    text: Vec<u8>,
    /// Values alone, in the order in which somebody would put pieces together.
    values: Vec<u8>,
    /// The last letters of the header section that it is the trailer section of.
    before: Arc<[u8]>,
    places: Vec<(usize, Place)>,
    /// What Basic credentials hold: it may be encoded once more.
    credentials: Vec<(Place, Vec<u8>)>,
}

#[derive(Debug, Clone)]
enum Place {
    Path,
    Query,
    Header(http::HeaderName),
}

impl Place {
    fn word(&self, watch: &Watch) -> String {
        match self {
            Self::Path => "path".to_owned(),
            Self::Query => "query".to_owned(),
            Self::Header(name) => hidden::named(Some(watch), "header", name.as_str().as_bytes()),
        }
    }
}

impl HeadText {
    /// Of a request.
    #[must_use]
    pub fn of(method: &Method, (path, query): (&str, Option<&str>), headers: &HeaderMap) -> Self {
        let mut head = Self::default();
        if !ORDINARY.contains(method) {
            head.values.extend_from_slice(method.as_str().as_bytes());
        }
        head.add(Place::Path, path.as_bytes());
        head.values.extend_from_slice(path.as_bytes());
        if let Some(query) = query {
            head.add(Place::Query, query.as_bytes());
            for pair in query.split('&') {
                let value = pair.split_once('=').map_or(pair, |(_, value)| value);
                head.values.extend_from_slice(value.as_bytes());
            }
        }
        head.add_headers(headers);
        head
    }

    /// Of a trailer section, behind a header section with these values.
    #[must_use]
    pub fn of_trailers(before: &Arc<[u8]>, trailers: &HeaderMap) -> Self {
        let mut head = Self {
            before: Arc::clone(before),
            ..Self::default()
        };
        head.add_headers(trailers);
        head
    }

    /// The last letters and digits of its values, as many as a piece may have: a trailer section may go on with
    /// them. All of them would be kept for as long as a body streams.
    #[must_use]
    pub fn into_values(self, watch: &Watch) -> Arc<[u8]> {
        watch.last_bare(&self.values).into()
    }

    fn add_headers(&mut self, headers: &HeaderMap) {
        for cookies in headers.get_all(COOKIE) {
            for pair in cookies.as_bytes().split(|octet| *octet == b';') {
                let value = pair.splitn(2, |octet| *octet == b'=').last();
                self.values.extend_from_slice(value.unwrap_or_default());
            }
        }
        for (name, value) in headers {
            // The host is decided on and checked where connections are.
            if name == HOST {
                continue;
            }
            self.add(Place::Header(name.clone()), name.as_str().as_bytes());
            self.add(Place::Header(name.clone()), value.as_bytes());
            if let Some(credentials) = basic_credentials(value.as_bytes()) {
                let place = Place::Header(name.clone());
                self.credentials.push((place, credentials));
            }
            if name != COOKIE {
                self.values.extend_from_slice(value.as_bytes());
            }
        }
    }

    fn add(&mut self, place: Place, text: &[u8]) {
        self.places.push((self.text.len(), place));
        self.text.extend_from_slice(text);
        self.text.push(b'\n');
    }

    fn place(&self, watch: &Watch, at: usize) -> String {
        let after = self.places.partition_point(|(start, _)| *start <= at);
        let found = after.checked_sub(1).and_then(|n| self.places.get(n));
        found.map_or_else(|| "the header section".to_owned(), |(_, p)| p.word(watch))
    }

    /// Tells every find with the words for its place.
    pub fn find<'a>(&self, watch: &'a Watch, mut tell: impl FnMut(&'a Found, String)) {
        let mut known: Vec<&Found> = Vec::new();
        watch.find(&self.text, |found, at| {
            known.push(found);
            tell(found, self.place(watch, at.start));
        });
        if escapes(&self.text) {
            for (number, (start, place)) in self.places.iter().enumerate() {
                let end = self.places.get(number + 1).map_or(self.text.len(), |p| p.0);
                let text = self.text.get(*start..end).unwrap_or_default();
                if escapes(text) {
                    watch.find_escaped(text, |found| {
                        known.push(found);
                        tell(found, place.word(watch));
                    });
                }
            }
        }
        let is = |one: &Found, other: &Found| one.name == other.name && one.what == other.what;
        for (place, credentials) in &self.credentials {
            let mut within: Vec<&Found> = Vec::new();
            watch.find_escaped(credentials, |found| within.push(found));
            watch.find_split(credentials, |found| within.push(found));
            for found in within {
                // As it is there it is found in the field as well.
                if !known.iter().any(|known| is(known, found)) {
                    known.push(found);
                    tell(
                        found,
                        format!("the Basic credentials of {}", place.word(watch)),
                    );
                }
            }
        }
        watch.find_split_behind(&self.before, &self.values, |found| {
            if !known.iter().any(|known| is(known, found)) {
                tell(found, "several fields".to_owned());
            }
        });
    }
}

/// Methods that are no piece of anything.
const ORDINARY: [Method; 7] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::HEAD,
    Method::DELETE,
    Method::PATCH,
    Method::OPTIONS,
];

#[cfg(test)]
mod tests;
