//! What an answer says of itself and a request asks by it: entity tags, dates and digests, honest where values
//! become sentinels.

use http::{
    HeaderMap, HeaderValue, Method,
    header::{ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH},
};

use crate::credential::digested::DIGESTS;

/// The header section of a body that is, or may be, another than was sent.
pub(super) fn changed(headers: &mut HeaderMap) {
    forget_digests(headers);
    if let Some(tag) = headers.get(ETAG)
        && tag.as_bytes().starts_with(b"\"")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        headers.insert(ETAG, weak);
    }
}

/// Has the request ask for what there is, not whether it is still what the program kept. A strong tag is of
/// what no sandbox was given changed, and may be asked about.
pub(super) fn ask_anew(method: &Method, headers: &mut HeaderMap) {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return;
    }
    let tags = headers.get_all(IF_NONE_MATCH).iter();
    let strong = tags.map(|tags| !tags.as_bytes().windows(2).any(|two| two == b"W/"));
    match strong.reduce(|all, one| all && one) {
        // Beside tags a date says nothing (RFC 9110 §13.1.3).
        Some(true) => {}
        Some(false) => {
            headers.remove(IF_NONE_MATCH);
            headers.remove(IF_MODIFIED_SINCE);
        }
        None => {
            headers.remove(IF_MODIFIED_SINCE);
        }
    }
}

/// `If-Match` compares strongly: tags are given back as the origin made them. One that was weak at the
/// origin matches nothing there either way (RFC 9110 §13.1.1).
pub(super) fn strengthen(headers: &mut HeaderMap) {
    for value in headers
        .get_all(IF_MATCH)
        .iter()
        .cloned()
        .collect::<Vec<_>>()
    {
        let text = String::from_utf8_lossy(value.as_bytes());
        if text.contains("W/\"")
            && let Ok(strong) = HeaderValue::from_str(&text.replace("W/\"", "\""))
        {
            headers.insert(IF_MATCH, strong);
        }
    }
}

/// Has a section say nothing of what a body hashes to.
pub(super) fn forget_digests(headers: &mut HeaderMap) {
    for name in DIGESTS {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_strong_tag_is_asked_for_again() {
        let date = "Mon, 23 Nov 2026 03:00:00 GMT";
        for (method, tags, asked) in [
            (Method::GET, vec!["\"a\""], 2),
            (Method::GET, vec!["\"a\", \"b\"", "\"c\""], 3),
            (Method::GET, vec!["W/\"a\""], 0),
            (Method::GET, vec!["\"a\", W/\"b\""], 0),
            (Method::HEAD, vec!["\"a\"", "W/\"b\""], 0),
            (Method::GET, vec![], 0),
            (Method::PUT, vec!["W/\"a\""], 2),
            (Method::PUT, vec!["*"], 2),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_MODIFIED_SINCE, HeaderValue::from_static(date));
            for tag in &tags {
                headers.append(IF_NONE_MATCH, HeaderValue::from_static(tag));
            }
            ask_anew(&method, &mut headers);
            assert_eq!(headers.len(), asked, "{method} {tags:?}: {headers:?}");
        }
    }

    #[test]
    fn what_was_changed_has_a_weak_tag_and_no_digest() {
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, HeaderValue::from_static("\"a\""));
        for name in DIGESTS {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        changed(&mut headers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[ETAG], "W/\"a\"");
        changed(&mut headers);
        assert_eq!(headers[ETAG], "W/\"a\"");
        headers.insert(IF_MATCH, headers[ETAG].clone());
        strengthen(&mut headers);
        assert_eq!(headers[IF_MATCH], "\"a\"");
    }
}
