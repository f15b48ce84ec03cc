//! A request's target and header section: one authority, one path, nothing left that belongs to the
//! connection it came on.

use gig_proxy::http::{headers, target};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

/// The first line is the target, the others are fields.
pub fn run(data: &[u8]) {
    let mut lines = data.split(|octet| *octet == b'\n');
    let Ok(uri) = Uri::try_from(lines.next().unwrap_or_default()) else {
        return;
    };
    let mut fields = HeaderMap::new();
    for line in lines.take(40) {
        let Some(colon) = line.iter().position(|octet| *octet == b':') else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default());
        if let (Ok(name), Ok(value)) = (name, value) {
            fields.append(name, value);
        }
    }
    if let Ok(authority) = target::authority(&uri, &fields, &target::Reader::default()) {
        let again = gig_policy::Host::parse(&authority.host.to_string());
        assert_eq!(again.as_ref(), Ok(&authority.host));
    }
    if let Ok((decided, sent)) = target::path(&uri) {
        // What is decided on is what is sent.
        assert_eq!(decided, sent.path());
        assert_eq!(sent.query(), uri.query());
        let again = gig_policy::path::normalise(&decided).expect("a normal path");
        assert_eq!(again.as_str(), decided);
    }
    assert!(target::shown(&uri).chars().count() <= 1024);
    let _asked = (
        headers::framing_is_ambiguous(&fields),
        headers::is_grpc(&fields),
        headers::content_length(&fields),
    );
    both_ways(&fields);
}

fn both_ways(fields: &HeaderMap) {
    for ready in [headers::outgoing, headers::incoming] {
        let mut passed = fields.clone();
        ready(&mut passed);
        for gone in [
            header::CONNECTION,
            header::TRANSFER_ENCODING,
            header::UPGRADE,
        ] {
            assert!(!passed.contains_key(&gone), "{gone} passed");
        }
        let mut again = passed.clone();
        ready(&mut again);
        assert_eq!(again, passed, "what has been readied is ready");
    }
}
