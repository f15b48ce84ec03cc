//! JSON read as its document says and in no other way: what is an object there is one here.
//!
//! What serde derives takes a list for a struct, by the order of its fields in the source, and `{"admin": null}` for the
//! word `admin`. Neither is described anywhere, a moved field would give a list another meaning, and whatever looks at
//! bodies before gig does would be passed by; nor are two members of one name what one is.

use std::{collections::BTreeSet, fmt};

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, Visitor,
    value::{BorrowedStrDeserializer, StrDeserializer, StringDeserializer},
};

/// Reads by `D`, at every depth.
pub(super) struct Strict<D>(pub(super) D);

/// What is read by it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Whatever the type takes.
    Any,
    /// An object.
    Struct,
}

/// A type that is read, and what it may be.
struct Reading<V>(V, Form);

/// Items, and values.
struct Inside<S>(S);

/// Members of an object, each once: of two of one name other readers take the other one (RFC 8259 §4).
struct Members<A> {
    inner: A,
    seen: BTreeSet<String>,
}

macro_rules! as_it_is {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            self.0.$method(Reading(visitor, Form::Any))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    as_it_is! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_unit_struct(name, Reading(visitor, Form::Any))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_newtype_struct(name, Reading(visitor, Form::Any))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, Reading(visitor, Form::Any))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_tuple_struct(name, len, Reading(visitor, Form::Any))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_struct(name, fields, Reading(visitor, Form::Struct))
    }

    /// A word of a list, which is a text: none of ours holds anything.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(Word(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// A word of a list.
struct Word<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Word<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_enum(StrDeserializer::new(text))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        self.0.visit_enum(BorrowedStrDeserializer::new(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
        self.0.visit_enum(StringDeserializer::new(text))
    }
}

macro_rules! passed_on {
    ($($method:ident($kind:ty))*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Reading<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Form::Any => self.0.expecting(f),
            Form::Struct => f.write_str("an object"),
        }
    }

    passed_on! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128)
        visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128)
        visit_f32(f32) visit_f64(f64) visit_char(char)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        match self.1 {
            Form::Any => self.0.visit_seq(Inside(items)),
            Form::Struct => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Members {
            inner: members,
            seen: BTreeSet::new(),
        })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _word: A) -> Result<V::Value, A::Error> {
        // JSON has none by itself.
        Err(A::Error::invalid_type(Unexpected::Enum, &self))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Inside(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        // A name is a text.
        let Some(name) = self.inner.next_key::<String>()? else {
            return Ok(None);
        };
        if !self.seen.insert(name.clone()) {
            return Err(A::Error::custom(format!("duplicate field `{name}`")));
        }
        seed.deserialize(StringDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.inner.next_value_seed(Inside(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Inside<T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(Strict(inner))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::super::read;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Role {
        Viewer,
        Admin,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Name(String);

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        at: u8,
        #[serde(default)]
        roles: Vec<Role>,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        name: Name,
        #[serde(default)]
        role: Option<Role>,
        #[serde(default)]
        part: Option<Part>,
        #[serde(default)]
        parts: BTreeMap<String, Vec<Part>>,
        #[serde(default)]
        pair: Option<(u8, bool)>,
    }

    #[test]
    fn what_is_described_is_read() {
        let text = r#"{"name": "a", "role": "admin", "part": {"at": 1, "roles": ["viewer", "adm\u0069n"]},
            "parts": {"x": [{"at": 2}]}, "pair": [3, true]}"#;
        let whole = read::<Whole>(text.as_bytes()).unwrap();
        assert_eq!(whole.name, Name("a".to_owned()));
        assert_eq!(whole.role, Some(Role::Admin));
        let roles = vec![Role::Viewer, Role::Admin];
        assert_eq!(whole.part, Some(Part { at: 1, roles }));
        assert_eq!(whole.parts["x"][0].at, 2);
        assert_eq!(whole.pair, Some((3, true)));
        let none = read::<Whole>(br#"{"name": "a", "role": null, "part": null}"#).unwrap();
        assert_eq!((none.role, none.part), (None, None));
    }

    #[test]
    fn no_list_is_an_object_and_no_object_is_a_word_at_any_depth() {
        for (text, words) in [
            (r#"["a"]"#, "expected an object"),
            (r#"["a", "admin", null, {}, null]"#, "expected an object"),
            (r#"{"name": "a", "part": [1]}"#, "expected an object"),
            (
                r#"{"name": "a", "parts": {"x": [[1]]}}"#,
                "expected an object",
            ),
            (
                r#"{"name": "a", "role": {"admin": null}}"#,
                "expected a word",
            ),
            (
                r#"{"name": "a", "part": {"at": 1, "roles": [{"admin": null}]}}"#,
                "expected a word",
            ),
            (r#"{"name": "a", "role": ["admin"]}"#, "expected a word"),
            (r#"{"name": "a", "role": "king"}"#, "unknown variant `king`"),
            (r#"{"name": "a", "other": 1}"#, "unknown field `other`"),
            (r#"{"name": "a", "name": "b"}"#, "duplicate field `name`"),
            (
                r#"{"name": "a", "parts": {"x": [], "\u0078": []}}"#,
                "duplicate field `x`",
            ),
        ] {
            let error = read::<Whole>(text.as_bytes()).unwrap_err();
            assert!(error.is_data(), "{text}: {error}");
            assert!(error.to_string().contains(words), "{text}: {error}");
            assert!(error.line() == 1 && error.column() > 0, "{text}: {error}");
        }
    }

    #[test]
    fn what_is_no_json_stays_so() {
        for text in ["", "{", "{}x", "{\"name\": \"a\"} {}", "nul"] {
            assert!(read::<Whole>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
