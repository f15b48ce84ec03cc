//! Values in the request target: percent-encoded in the path and in the query's parameters.

use std::borrow::Cow;

use gig_policy::SecretPlace;
use http::uri::PathAndQuery;
use percent_encoding::{percent_decode, percent_decode_str};
use zeroize::Zeroizing;

use super::Placer;
use crate::credential::place::{Escape, Replacement, Unplaceable, replaced};

/// Places every replacement in path and query. Whether anything was placed.
pub(super) fn place(placer: &mut Placer, target: &mut PathAndQuery) -> Result<bool, Unplaceable> {
    let mut path = target.path().to_owned();
    let mut query = target.query().map(str::to_owned);
    let mut any = false;
    for replacement in placer.replacements.clone() {
        if let Some(placed) = in_path(placer, &path, &replacement)? {
            path = placed;
            any = true;
        }
        if let Some(sent) = &query
            && let Some(placed) = in_query(placer, sent, &replacement)?
        {
            query = Some(placed);
            any = true;
        }
    }
    if any {
        let whole = match query {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        *target = PathAndQuery::try_from(whole).map_err(|_| Unplaceable::Long)?;
    }
    Ok(any)
}

fn in_path(
    placer: &mut Placer,
    path: &str,
    replacement: &Replacement,
) -> Result<Option<String>, Unplaceable> {
    let value = replacement.value()?;
    let Some(placed) = replaced(
        path.as_bytes(),
        &replacement.sentinel,
        value,
        Escape::Percent,
    ) else {
        return Ok(None);
    };
    if !replacement
        .places
        .allow(|place| *place == SecretPlace::Path)
    {
        placer.misplaced.push("the path".to_owned());
        return Ok(None);
    }
    if moves(&placed) {
        return Err(Unplaceable::Moves);
    }
    let placed = String::from_utf8(placed).map_err(|_| Unplaceable::Ends)?;
    Ok(Some(placed))
}

/// Whether there is a dot segment in it, as servers read paths that undo escapes first: the path is another then
/// than the one that was decided on, which had none.
fn moves(path: &[u8]) -> bool {
    let plain: Zeroizing<Vec<u8>> = Zeroizing::new(percent_decode(path).collect());
    let mut segments = plain.split(|octet| matches!(octet, b'/' | b'\\'));
    segments.any(|segment| segment == b"." || segment == b"..")
}

fn in_query(
    placer: &mut Placer,
    query: &str,
    replacement: &Replacement,
) -> Result<Option<String>, Unplaceable> {
    let value = replacement.value()?;
    let mut any = false;
    let mut pairs: Vec<Cow<'_, str>> = Vec::new();
    for pair in query.split('&') {
        let Some(placed) = in_pair(pair, &replacement.sentinel, value) else {
            pairs.push(pair.into());
            continue;
        };
        let key = decoded(pair.split_once('=').map_or(pair, |(key, _)| key));
        let fits = |place: &SecretPlace| matches!(place, SecretPlace::Query(q) if **q == *key);
        if !replacement.places.allow(fits) {
            placer.misplaced.push("the query".to_owned());
            return Ok(None);
        }
        pairs.push(placed.into());
        any = true;
    }
    Ok(any.then(|| pairs.join("&")))
}

/// The parameter with the value in it. What is not the sentinel stays as it was written, unless the
/// sentinel itself was written with escapes.
fn in_pair(pair: &str, sentinel: &str, value: &[u8]) -> Option<String> {
    if let Some(placed) = replaced(pair.as_bytes(), sentinel, value, Escape::Percent) {
        return String::from_utf8(placed).ok();
    }
    if !pair.contains('%') {
        return None;
    }
    let (key, written) = pair.split_once('=').unwrap_or(("", pair));
    let plain = decoded(written);
    if !plain.contains(sentinel) {
        return None;
    }
    let mut placed = format!("{key}=").into_bytes();
    let pieces: Vec<&str> = plain.split(sentinel).collect();
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            Escape::Percent.write(value, &mut placed);
        }
        Escape::Percent.write(piece.as_bytes(), &mut placed);
    }
    String::from_utf8(placed).ok()
}

fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}
