//! What a request says that it is built on: `If-Match` and `If-None-Match` (RFC 9110, sections 13.1 and
//! 13.2.2).
//!
//! The tag of what is there is compared strongly for `If-Match`, weakly for `If-None-Match`. Whoever makes
//! a change asks the store again in the same transaction: what holds here may not hold there any more.

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};

use crate::{api_error::Problem, auth::Caller, openapi::heeded};

/// What was said, and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    /// It is built on what is there.
    pub(crate) on_this: bool,
    /// It is for where nothing is.
    pub(crate) new: bool,
}

/// A field of tags.
enum Tags {
    /// `*`: whatever there is.
    Any,
    /// Each with whether it is a weak one, without its quotes.
    These(Vec<(bool, String)>),
}

/// Marks who asks for a change on a condition which its operation does not hold against what is there: where they may ask
/// for it at all, it is refused ([`unless`]) and not made as if nothing was said (RFC 9110 §13.1.1, §13.2.1).
/// `If-Match: *` of what is there says no more than the path does.
pub(crate) async fn kept(mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let path = route.map_or("", MatchedPath::as_str);
    let held = heeded(request.method(), path);
    if let Some(held) = held.filter(|_| !request.method().is_safe()) {
        let headers = request.headers();
        // What is put there need not be there yet.
        let may_be_new = *request.method() == Method::PUT && path.contains('{');
        let says_this = headers.contains_key(header::IF_MATCH) && (may_be_new || !is_any(headers));
        let on_this = !held.if_match && says_this;
        let on_none = !held.if_none_match && headers.contains_key(header::IF_NONE_MATCH);
        let unkept = match (on_this, on_none) {
            (true, _) => Some("If-Match"),
            (false, true) => Some("If-None-Match"),
            (false, false) => None,
        };
        if let Some(caller) = request.extensions_mut().get_mut::<Caller>() {
            caller.unkept = unkept;
        }
    }
    next.run(request).await
}

/// Refuses what is asked for on a condition that nothing is held against.
///
/// # Errors
/// 412 where there is such a field.
pub(crate) fn unless(unkept: Option<&str>) -> Result<(), Problem> {
    let Some(field) = unkept else { return Ok(()) };
    let words = format!(
        "it was not done: nothing there has an ETag to hold {field} against; leave the field out",
    );
    Err(Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "no_etag",
        words,
    ))
}

/// Whether it is built on whatever there is.
pub(crate) fn is_any(headers: &HeaderMap) -> bool {
    matches!(read(headers, &header::IF_MATCH), Ok(Some(Tags::Any)))
}

/// Whether who asks has this already: `If-None-Match` of a GET (RFC 9110 §13.1.2). What cannot be read says nothing.
pub(crate) fn has(headers: &HeaderMap, current: &str) -> bool {
    match read(headers, &header::IF_NONE_MATCH) {
        Ok(Some(Tags::Any)) => true,
        Ok(Some(Tags::These(tags))) => tags.iter().any(|(_, tag)| tag == current),
        Ok(None) | Err(_) => false,
    }
}

/// Holds what a request says against the tag of what is there, without its quotes; `None` where nothing is.
///
/// # Errors
/// 412 with `changed` when it does not hold; 400 for fields that are none.
pub(crate) fn holds(
    headers: &HeaderMap,
    current: Option<&str>,
    changed: impl FnOnce() -> Problem,
) -> Result<Said, Problem> {
    let if_match = read(headers, &header::IF_MATCH)?;
    let if_none_match = read(headers, &header::IF_NONE_MATCH)?;
    let matches = match &if_match {
        None => true,
        Some(Tags::Any) => current.is_some(),
        Some(Tags::These(tags)) => {
            let is_it = |(weak, tag): &(bool, String)| !weak && Some(tag.as_str()) == current;
            tags.iter().any(is_it)
        }
    };
    let differs = match &if_none_match {
        None => true,
        Some(Tags::Any) => current.is_none(),
        Some(Tags::These(tags)) => !tags.iter().any(|(_, tag)| Some(tag.as_str()) == current),
    };
    if !(matches && differs) {
        return Err(changed());
    }
    Ok(Said {
        on_this: if_match.is_some(),
        new: matches!(if_none_match, Some(Tags::Any)),
    })
}

fn read(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let wrong = || {
        let words = format!("{name} takes `*`, or ETags in their quotes, separated by commas");
        Problem::new(StatusCode::BAD_REQUEST, "invalid", words)
    };
    let mut lines = headers.get_all(name).iter().peekable();
    if lines.peek().is_none() {
        return Ok(None);
    }
    let mut tags = Vec::new();
    let mut any = false;
    for line in lines {
        let line = line.to_str().map_err(|_| wrong())?.trim();
        if line == "*" {
            any = true;
            continue;
        }
        list(line, &mut tags).ok_or_else(wrong)?;
    }
    match (any, tags.is_empty()) {
        (true, true) => Ok(Some(Tags::Any)),
        (false, false) => Ok(Some(Tags::These(tags))),
        _ => Err(wrong()),
    }
}

/// `"1", W/"2"`: a tag may hold a comma.
fn list(line: &str, tags: &mut Vec<(bool, String)>) -> Option<()> {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return Some(());
        }
        let weak = rest.strip_prefix("W/");
        let quoted = weak.unwrap_or(rest).strip_prefix('"')?;
        let (tag, after) = quoted.split_once('"')?;
        tags.push((weak.is_some(), tag.to_owned()));
        rest = after.trim_start_matches([' ', '\t']);
        if !(rest.is_empty() || rest.starts_with(',')) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(fields: &[(HeaderName, &'static str)], current: Option<&str>) -> Result<Said, u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, http::HeaderValue::from_static(value));
        }
        let changed = || Problem::meanwhile("");
        holds(&headers, current, changed).map_err(|problem| problem.status().as_u16())
    }

    #[test]
    fn if_match_is_compared_strongly_with_each_of_a_list_and_a_star() {
        let of = |text: &'static str, current| said(&[(header::IF_MATCH, text)], current);
        let on_this = Ok(Said {
            on_this: true,
            new: false,
        });
        for text in [
            "\"3\"",
            "\"2\", \"3\"",
            " \"2\",,\t\"3\" ",
            "\"a,b\", \"3\"",
            "*",
        ] {
            assert_eq!(of(text, Some("3")), on_this, "{text}");
            assert_eq!(of(text, None), Err(412), "{text}");
        }
        for text in [
            "\"2\"",
            "W/\"3\"",
            "\"abc\"",
            "\"\"",
            "\"0\"",
            "\"2\", W/\"3\"",
        ] {
            assert_eq!(of(text, Some("3")), Err(412), "{text}");
        }
        for text in [
            "3",
            "\"3",
            "w/\"3\"",
            "\"3\" \"4\"",
            "\"3\", *",
            "",
            ",",
            "*, \"3\"",
        ] {
            assert_eq!(of(text, Some("3")), Err(400), "{text}");
        }
        let twice = [(header::IF_MATCH, "\"2\""), (header::IF_MATCH, "\"3\"")];
        assert_eq!(said(&twice, Some("3")), on_this);
    }

    #[test]
    fn if_none_match_is_compared_weakly_and_both_must_hold() {
        let of = |text: &'static str, current| said(&[(header::IF_NONE_MATCH, text)], current);
        assert_eq!(
            of("*", None),
            Ok(Said {
                on_this: false,
                new: true
            })
        );
        assert_eq!(of("*", Some("3")), Err(412));
        assert_eq!(of("W/\"3\"", Some("3")), Err(412));
        let nothing = Ok(Said {
            on_this: false,
            new: false,
        });
        assert_eq!(of("\"2\"", Some("3")), nothing);
        assert_eq!(said(&[], None), nothing);
        let both = [(header::IF_MATCH, "\"3\""), (header::IF_NONE_MATCH, "*")];
        assert_eq!(said(&both, Some("3")), Err(412));
    }
}
