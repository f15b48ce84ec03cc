//! Values in header fields: as they are, in Basic credentials, in cookies, in gRPC's binary metadata.

use base64::{Engine, alphabet, engine::general_purpose};
use gig_policy::SecretPlace;
use http::{
    HeaderName, HeaderValue,
    header::{AUTHORIZATION, COOKIE},
};
use memchr::memmem;
use zeroize::Zeroizing;

use super::{Placer, context};
use crate::credential::place::{Escape, Replacement, Unplaceable, replaced};

/// Places every replacement in one field line. Whether anything was placed.
pub(super) fn place(
    placer: &mut Placer,
    name: &HeaderName,
    value: &mut HeaderValue,
) -> Result<bool, Unplaceable> {
    let mut octets: Option<Zeroizing<Vec<u8>>> = None;
    let replacements = placer.replacements.clone();
    for replacement in &replacements {
        let text = octets.as_ref().map_or(value.as_bytes(), |octets| octets);
        if let Some(next) = one(placer, name, text, replacement)? {
            octets = Some(Zeroizing::new(next));
        }
    }
    let Some(octets) = octets else {
        return Ok(false);
    };
    // What would end the field is refused here: CR, LF, NUL and other controls.
    let mut placed = HeaderValue::from_bytes(&octets).map_err(|_| Unplaceable::Ends)?;
    // HPACK must not index it (RFC 7541 §7.1.3), nor a debug print show it.
    placed.set_sensitive(true);
    *value = placed;
    Ok(true)
}

fn one(
    placer: &mut Placer,
    name: &HeaderName,
    text: &[u8],
    replacement: &Replacement,
) -> Result<Option<Vec<u8>>, Unplaceable> {
    let field = |place: &SecretPlace| place.is_header(name.as_str());
    if name == AUTHORIZATION
        && let Some(credentials) = basic_credentials(text)
    {
        let Some((user, password)) = split_basic(&credentials) else {
            return Ok(None);
        };
        let fits = |place: &SecretPlace| *place == SecretPlace::Basic || field(place);
        return basic(placer, (user, password), replacement, fits);
    }
    if name == COOKIE {
        return cookies(placer, text, replacement, field);
    }
    if name.as_str().ends_with("-bin") {
        return binary(placer, name, text, replacement, field);
    }
    let value = replacement.value()?;
    if memmem::find(text, replacement.sentinel.as_bytes()).is_none() {
        return Ok(None);
    }
    if !replacement.places.allow(field) {
        placer.misplace("header", name.as_str().as_bytes());
        return Ok(None);
    }
    context::placed(text, replacement.sentinel.as_bytes(), value)
}

/// The decoded credentials, where the scheme is Basic (RFC 7617).
pub(in crate::credential) fn basic_credentials(text: &[u8]) -> Option<Vec<u8>> {
    let (scheme, encoded) = text.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    LENIENT.decode(encoded.trim_ascii()).ok()
}

fn split_basic(credentials: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', credentials)?;
    Some((credentials.get(..colon)?, credentials.get(colon + 1..)?))
}

fn basic(
    placer: &mut Placer,
    (user, password): (&[u8], &[u8]),
    replacement: &Replacement,
    fits: impl Fn(&SecretPlace) -> bool,
) -> Result<Option<Vec<u8>>, Unplaceable> {
    let value = replacement.value()?;
    let new = |text: &[u8]| {
        let placed = replaced(text, &replacement.sentinel, value, Escape::Raw);
        placed.map(Zeroizing::new)
    };
    let (new_user, new_password) = (new(user), new(password));
    if new_user.is_none() && new_password.is_none() {
        return Ok(None);
    }
    if !replacement.places.allow(fits) {
        placer.misplaced.push("Basic credentials".to_owned());
        return Ok(None);
    }
    let user = new_user.as_ref().map_or(user, |user| user);
    if user.contains(&b':') {
        // RFC 7617 §2: a colon ends the user's name.
        return Err(Unplaceable::Ends);
    }
    let password = new_password.as_ref().map_or(password, |password| password);
    let credentials = Zeroizing::new([user, b":", password].concat());
    if credentials.iter().any(u8::is_ascii_control) {
        return Err(Unplaceable::Ends);
    }
    // Room for all of it: what grows would leave copies that are not wiped.
    let mut field = String::with_capacity("Basic ".len() + credentials.len().div_ceil(3) * 4);
    field.push_str("Basic ");
    general_purpose::STANDARD.encode_string(&*credentials, &mut field);
    Ok(Some(field.into_bytes()))
}

/// Each `name=value` by itself (RFC 6265 §4.2.1).
fn cookies(
    placer: &mut Placer,
    text: &[u8],
    replacement: &Replacement,
    field: impl Fn(&SecretPlace) -> bool,
) -> Result<Option<Vec<u8>>, Unplaceable> {
    let mut any = false;
    let mut pairs = Vec::new();
    for pair in text.split(|octet| *octet == b';') {
        if memmem::find(pair, replacement.sentinel.as_bytes()).is_none() {
            pairs.push(pair.to_vec());
            continue;
        }
        let name = pair
            .split(|octet| *octet == b'=')
            .next()
            .unwrap_or_default();
        let name = name.trim_ascii();
        let fits = |place: &SecretPlace| {
            field(place) || matches!(place, SecretPlace::Cookie(c) if c.as_bytes() == name)
        };
        if !replacement.places.allow(fits) {
            placer.misplace("cookie", name);
            return Ok(None);
        }
        let value = replacement.value()?;
        // Nothing in a cookie is escaped (RFC 6265 §4.1.1).
        let quoted = pair.contains(&b'"');
        let ends = |octet: &u8| match octet {
            b';' | 0..=0x1f | 0x7f => true,
            b'"' => quoted,
            _ => false,
        };
        if value.iter().any(ends) {
            // It would end the cookie, and begin another.
            return Err(Unplaceable::Ends);
        }
        let placed = replaced(pair, &replacement.sentinel, value, Escape::Raw);
        pairs.push(placed.unwrap_or_default());
        any = true;
    }
    Ok(any.then(|| pairs.join(&b";"[..])))
}

/// gRPC's `-bin` metadata: Base64, with or without padding, several values with commas between.
fn binary(
    placer: &mut Placer,
    name: &HeaderName,
    text: &[u8],
    replacement: &Replacement,
    field: impl Fn(&SecretPlace) -> bool,
) -> Result<Option<Vec<u8>>, Unplaceable> {
    let mut any = false;
    let mut values = Vec::new();
    for encoded in text.split(|octet| *octet == b',') {
        let decoded = LENIENT.decode(encoded.trim_ascii()).unwrap_or_default();
        let value = replacement.value()?;
        match replaced(&decoded, &replacement.sentinel, value, Escape::Raw) {
            None => values.push(encoded.to_vec()),
            Some(placed) => {
                let placed = Zeroizing::new(placed);
                let padded = encoded.ends_with(b"=");
                let engine = if padded {
                    &general_purpose::STANDARD
                } else {
                    &NO_PAD
                };
                values.push(engine.encode(&*placed).into_bytes());
                any = true;
            }
        }
    }
    if !any {
        return Ok(None);
    }
    if !replacement.places.allow(field) {
        placer.misplace("header", name.as_str().as_bytes());
        return Ok(None);
    }
    Ok(Some(values.join(&b","[..])))
}

const NO_PAD: general_purpose::GeneralPurpose = general_purpose::STANDARD_NO_PAD;
/// Clients pad or do not; some leave bits over.
const LENIENT: general_purpose::GeneralPurpose = general_purpose::GeneralPurpose::new(
    &alphabet::STANDARD,
    general_purpose::GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
