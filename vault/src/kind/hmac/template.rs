//! Text with places, which the border fills in from a request.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

/// One piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// The method.
    Method,
    /// `https` or `http`.
    Scheme,
    /// Host, with the port where the program wrote one.
    Host,
    /// The path.
    Path,
    /// The query, without `?`.
    Query,
    /// Path and query.
    Target,
    /// The body.
    Body,
    /// SHA-256 of the body, in hexadecimal digits.
    BodySha256,
    /// Seconds since 1970.
    Timestamp,
    /// Milliseconds since 1970.
    TimestampMs,
    /// 32 random hexadecimal digits, the same in one request.
    Nonce,
    /// The value of a field; nothing when the request has none.
    Header(String),
    /// The signature; not in what is signed.
    Signature,
}

/// A text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// An opening brace without a closing one, or the other way round.
    #[error("a brace in {0:?} has no partner: write {{{{ or }}}} for one that stands for itself")]
    Brace(String),
    /// A place that nobody knows.
    #[error(
        "{{{0}}} is no place: use method, scheme, host, path, query, target, body, body_sha256, timestamp, timestamp_ms, nonce, header:NAME or signature"
    )]
    Unknown(String),
}

impl Template {
    /// `{signature}`.
    #[must_use]
    pub fn signature() -> Self {
        Self(vec![Piece::Signature])
    }

    /// Its pieces, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let unpaired = || TemplateError::Brace(text.to_owned());
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '{' | '}' if rest.next_if_eq(&c).is_some() => plain.push(c),
                '}' => return Err(unpaired()),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(c) if c != '{' => name.push(c),
                            _ => return Err(unpaired()),
                        }
                    }
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece(&name)?);
                }
                _ => plain.push(c),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }
}

fn piece(name: &str) -> Result<Piece, TemplateError> {
    Ok(match name {
        "method" => Piece::Method,
        "scheme" => Piece::Scheme,
        "host" => Piece::Host,
        "path" => Piece::Path,
        "query" => Piece::Query,
        "target" => Piece::Target,
        "body" => Piece::Body,
        "body_sha256" => Piece::BodySha256,
        "timestamp" => Piece::Timestamp,
        "timestamp_ms" => Piece::TimestampMs,
        "nonce" => Piece::Nonce,
        "signature" => Piece::Signature,
        _ => match name.strip_prefix("header:") {
            Some(field) if !field.is_empty() => Piece::Header(field.to_ascii_lowercase()),
            _ => return Err(TemplateError::Unknown(name.to_owned())),
        },
    })
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                Piece::Method => f.write_str("{method}")?,
                Piece::Scheme => f.write_str("{scheme}")?,
                Piece::Host => f.write_str("{host}")?,
                Piece::Path => f.write_str("{path}")?,
                Piece::Query => f.write_str("{query}")?,
                Piece::Target => f.write_str("{target}")?,
                Piece::Body => f.write_str("{body}")?,
                Piece::BodySha256 => f.write_str("{body_sha256}")?,
                Piece::Timestamp => f.write_str("{timestamp}")?,
                Piece::TimestampMs => f.write_str("{timestamp_ms}")?,
                Piece::Nonce => f.write_str("{nonce}")?,
                Piece::Header(name) => write!(f, "{{header:{name}}}")?,
                Piece::Signature => f.write_str("{signature}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_text_are_told_apart() {
        let template: Template = "v0:{timestamp}:{body}{{}}{header:X-Id}".parse().unwrap();
        let expected = [
            Piece::Text("v0:".to_owned()),
            Piece::Timestamp,
            Piece::Text(":".to_owned()),
            Piece::Body,
            Piece::Text("{}".to_owned()),
            Piece::Header("x-id".to_owned()),
        ];
        assert_eq!(template.pieces(), expected);
    }

    #[test]
    fn a_template_is_written_as_it_is_read() {
        for text in [
            "",
            "{{a}}",
            "{method} {scheme}://{host}{path}?{query}",
            "t={timestamp},v1={signature}",
        ] {
            let template: Template = text.parse().unwrap();
            assert_eq!(template.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["{", "}", "{body", "{bodi}", "{header:}", "{a{b}}"] {
            assert!(text.parse::<Template>().is_err(), "{text}");
        }
    }
}
