//! JSON that stands within another answer as a text: as it is, or in Base64.
//!
//! It says what of a text is such JSON, and writes one anew in its form. What in it is a token is for
//! [`super::answer`] to say.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::Value;
use zeroize::{Zeroize as _, Zeroizing};

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// As it is.
    Plain,
    /// RFC 4648 §4, or §5 where `url`.
    Base64 {
        /// With `-` and `_`.
        url: bool,
        /// With `=` at its end.
        padded: bool,
    },
}

/// The object or list that a text is.
pub(super) fn within(text: &str) -> Option<(Value, Writing)> {
    let text = text.trim();
    match text.as_bytes().first()? {
        b'{' | b'[' => Some((parsed(text.as_bytes())?, Writing::Plain)),
        // What `{` and `[` begin with in Base64.
        b'e' | b'W' => {
            let url = text.contains(['-', '_']);
            let octets = Zeroizing::new(engine(url, false).decode(text).ok()?);
            // Who writes no padding at all has lengths that are none of full groups, or letters of their own.
            let padded = text.ends_with('=') || !url && text.len().is_multiple_of(4);
            Some((parsed(&octets)?, Writing::Base64 { url, padded }))
        }
        _ => None,
    }
}

/// The text of `value` in that form.
pub(super) fn write(value: &Value, writing: Writing) -> Option<String> {
    let mut text = serde_json::to_string(value).ok()?;
    match writing {
        Writing::Plain => Some(text),
        Writing::Base64 { url, padded } => {
            let coded = engine(url, padded).encode(&text);
            text.zeroize();
            Some(coded)
        }
    }
}

fn parsed(text: &[u8]) -> Option<Value> {
    let begins = text.trim_ascii_start().first();
    let composed = matches!(begins, Some(b'{' | b'['));
    composed.then(|| serde_json::from_slice(text).ok())?
}

const fn engine(url: bool, padded: bool) -> GeneralPurpose {
    let alphabet = if url {
        alphabet::URL_SAFE
    } else {
        alphabet::STANDARD
    };
    let how = GeneralPurposeConfig::new()
        .with_encode_padding(padded)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&alphabet, how)
}
