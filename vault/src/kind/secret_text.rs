//! A secret that stands as text in a document, such as a token in an answer.

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use crate::secret_bytes::SecretBytes;

/// The octets of a text.
#[derive(Debug)]
pub(crate) struct SecretText(pub(crate) SecretBytes);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = SecretText;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SecretText, E> {
        Ok(SecretText(text.into()))
    }
}
