//! A policy document as typed: YAML or JSON text to fields with their places.
//!
//! The only room of this crate with serde's reading side. JSON is YAML 1.2, so one reader serves both
//! and one message speaks of both. Every value keeps its line and column; the shape (which fields there
//! are, lists and texts where they belong) is read here, field by field, so that one run reports all
//! mistakes. What the values mean is left to `compile`.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Options, Spanned};

use crate::{compile_error::Problem, rule::Position};

mod shape;

pub(crate) use shape::{Document, RawEntry, RawLimits, RawRequest, RawSecret, Scalar};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) at: Position,
}

/// Reads a document. What cannot be read is reported in `problems` and left out.
pub(crate) fn read(text: &str, problems: &mut Vec<Problem>) -> Option<Document> {
    tree(text, problems).and_then(|root| shape::document(root, problems))
}

/// Reads YAML or JSON of any shape.
pub(crate) fn tree(text: &str, problems: &mut Vec<Problem>) -> Option<Located<Node>> {
    if text.len() > LONGEST_DOCUMENT {
        let message = format!(
            "the document is {} octets long and {LONGEST_DOCUMENT} is the most: split it",
            text.len()
        );
        problems.push(Problem::at(START, message));
        return None;
    }
    match serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options(text.len())) {
        Ok(root) => Some(locate(root)),
        Err(error) => {
            problems.push(unreadable(&error));
            None
        }
    }
}

/// Any YAML value.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Integer(i128),
    Float,
    Text(String),
    List(Vec<Located<Self>>),
    Map(Vec<(Located<String>, Located<Self>)>),
}

impl Node {
    /// What it is, in a message.
    const fn word(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "a number",
            Self::Float => "a fraction",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Float)
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Node>>()? {
            items.push(locate(item));
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Spanned<Node>>()? {
            fields.push((locate(key), locate(value)));
        }
        Ok(Node::Map(fields))
    }
}

fn locate<T>(spanned: Spanned<T>) -> Located<T> {
    let at = place(spanned.referenced.line(), spanned.referenced.column());
    Located {
        value: spanned.value,
        at,
    }
}

const fn place(line: u64, column: u64) -> Position {
    // The reader says 0 where it does not know.
    Position {
        line: if line == 0 { 1 } else { line },
        column: if column == 0 { 1 } else { column },
    }
}

/// A policy needs no alias tricks, no tags of other tools and no `yes` that means `true`; the reader's
/// work is bounded by the document's own length.
fn options(length: usize) -> Options {
    let budget = serde_saphyr::budget! {
        max_events: length.saturating_mul(2).saturating_add(64),
        max_nodes: length.saturating_add(64),
        max_total_scalar_bytes: length.saturating_mul(2).saturating_add(64),
        max_depth: 32,
        max_documents: 2,
    };
    let alias_limits = serde_saphyr::alias_limits! {
        max_total_replayed_events: 100_000,
    };
    serde_saphyr::options! {
        budget: budget,
        alias_limits: alias_limits,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn unreadable(error: &serde_saphyr::Error) -> Problem {
    let location = error.location();
    let at = location.map_or(START, |l| place(l.line(), l.column()));
    let mut text = error.without_snippet().to_string();
    if let Some(cut) = text.rfind(" at line ") {
        text.truncate(cut);
    }
    let message = if let Some(rest) = text.strip_prefix("duplicate mapping key: ") {
        let key = rest.split(", set ").next().unwrap_or(rest);
        format!("`{key}` is given twice: keep one of the two")
    } else if text.starts_with("multiple YAML documents") {
        "a second document starts here: keep one policy in a file".to_owned()
    } else if text.contains("unknown anchor") {
        "`*` begins an alias in YAML, and there is none of that name: put a pattern in quotes, as in '*.example.com'"
            .to_owned()
    } else {
        format!("this is neither YAML nor JSON: {text}")
    };
    Problem::at(at, message)
}

const START: Position = Position { line: 1, column: 1 };

/// 100,000 entries with rules take about 10 MB.
const LONGEST_DOCUMENT: usize = 64 * 1024 * 1024;
