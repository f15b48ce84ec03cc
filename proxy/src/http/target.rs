//! What a request names: one authority, one path.
//!
//! `:authority`, absolute-form and `Host` must all say the same (RFC 9112 §3.2 would let the first
//! win; two names in one request are how a front is built, so they are refused instead).

use gig_policy::{DenyReason, path};
use http::{
    HeaderMap, Uri,
    header::HOST,
    uri::{PathAndQuery, Scheme},
};
use parking_lot::Mutex;

use crate::authority::{
    Authority,
    names::{Names, Place},
};

/// Why a request's target is not one target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No authority anywhere.
    #[error("the request names no host")]
    Missing,
    /// More than one `Host`, or a text that is no authority.
    #[error("the request's host is not one host name with an optional port, and nothing else")]
    Malformed,
    /// `Host` and the request target differ.
    #[error("the request target and the Host header differ")]
    Differ(Box<Names>),
}

impl From<TargetError> for DenyReason {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Missing => Self::NameMissing,
            TargetError::Malformed => Self::MalformedRequest,
            TargetError::Differ(_) => Self::NamesDisagree,
        }
    }
}

/// Reads authorities, and remembers the last: the requests of one connection name one host mostly, in
/// the same octets.
#[derive(Debug, Default)]
pub struct Reader(Mutex<Option<(Box<str>, Authority)>>);

impl Reader {
    fn read(&self, text: &str) -> Result<Authority, TargetError> {
        let mut last = self.0.lock();
        if let Some((read, authority)) = &*last
            && **read == *text
        {
            return Ok(authority.clone());
        }
        let authority = Authority::parse(text).map_err(|_| TargetError::Malformed)?;
        *last = Some((text.into(), authority.clone()));
        Ok(authority)
    }
}

/// The one authority that the request target and the `Host` header name.
///
/// # Errors
/// When there is none, it is malformed, or there are two.
pub fn authority(
    uri: &Uri,
    headers: &HeaderMap,
    reader: &Reader,
) -> Result<Authority, TargetError> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(TargetError::Malformed);
    }
    let header = host
        .map(|value| reader.read(value.to_str().map_err(|_| TargetError::Malformed)?))
        .transpose()?;
    let target = uri
        .authority()
        .map(|authority| reader.read(authority.as_str()))
        .transpose()?;
    match (target, header) {
        (Some(target), Some(header)) if !same(&target, &header, uri.scheme()) => {
            Err(TargetError::Differ(Box::new(Names {
                first: (Place::Target, target),
                then: (Place::Host, header),
            })))
        }
        (Some(one), _) | (None, Some(one)) => Ok(one),
        (None, None) => Err(TargetError::Missing),
    }
}

fn same(one: &Authority, other: &Authority, scheme: Option<&Scheme>) -> bool {
    let default = if scheme == Some(&Scheme::HTTPS) {
        gig_policy::Port::HTTPS
    } else {
        gig_policy::Port::HTTP
    };
    one.host == other.host && one.port.unwrap_or(default) == other.port.unwrap_or(default)
}

/// The path that is decided on and the target that is forwarded: the same spelling, with the query.
///
/// # Errors
/// When the path has no single meaning.
pub fn path(uri: &Uri) -> Result<(String, PathAndQuery), path::NormalisePathError> {
    let sent = uri.path_and_query();
    let raw = match sent.map(PathAndQuery::path) {
        None | Some("") => "/",
        Some(path) => path,
    };
    let normal = path::normalise(raw)?;
    let unchanged = normal.is_unchanged();
    let decided = normal.into_string();
    if let Some(sent) = sent
        && unchanged
        // A target that is a query alone is told to have the path `/`, and does not have it.
        && sent.as_str().starts_with(&decided)
        && sent.path() == decided
    {
        return Ok((decided, sent.clone()));
    }
    let target = match sent.and_then(PathAndQuery::query) {
        Some(query) => PathAndQuery::try_from(format!("{decided}?{query}")),
        None => PathAndQuery::try_from(decided.as_str()),
    };
    let target = target.map_err(|_| path::NormalisePathError::NotPath)?;
    Ok((decided, target))
}

/// What a record shows of a path that has no normal form: as sent, without the query, bounded.
#[must_use]
pub fn shown(uri: &Uri) -> String {
    bounded(uri.path())
}

/// As much of a path as a record shows.
#[must_use]
pub fn bounded(path: &str) -> String {
    path.chars().take(SHOWN).collect()
}

/// A record's line stays readable.
const SHOWN: usize = 1024;

#[cfg(test)]
mod tests {
    use gig_policy::Policy;

    use super::*;

    #[test]
    fn what_policies_are_tested_with_is_read_as_requests_are() {
        let policy = "version: 1\negress: [{host: a.test}]\n";
        let policy = Policy::compile(policy, "p").unwrap();
        for octet in (1..127_u8).filter(|octet| !matches!(octet, b'?' | b'#')) {
            for before in ["/a", "/a?q="] {
                let sent = format!("{before}{}b", char::from(octet));
                let read = sent.parse::<Uri>().is_ok_and(|uri| path(&uri).is_ok());
                let told = policy.explain("GET", &format!("http://a.test{sent}"));
                assert_eq!(told.unwrap().passes(), read, "{sent:?}");
            }
        }
    }

    #[test]
    fn what_is_forwarded_begins_with_the_path_that_was_decided() {
        for (uri, wanted) in [
            ("http://api.test?x=1", "/?x=1"),
            ("http://api.test", "/"),
            ("http://api.test/?x=1", "/?x=1"),
            ("/a/../b?c=/d", "/b?c=/d"),
            ("/b?c=/d", "/b?c=/d"),
        ] {
            let (decided, target) = path(&uri.parse().unwrap()).unwrap();
            assert_eq!(target.as_str(), wanted, "{uri}");
            assert!(target.as_str().starts_with(&decided), "{uri}");
        }
    }
}
