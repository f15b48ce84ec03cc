//! Looking into a YAML or JSON tree: fields that are there, of the kind that is wanted.

use super::{Located, Node, Reading};
use crate::document;

/// The tree of a document, or nothing and a problem.
pub(super) fn root(text: &str, reading: &mut Reading) -> Option<Located<Node>> {
    document::tree(text, &mut reading.problems)
}

/// A field of a mapping.
pub(super) fn field<'n>(node: &'n Located<Node>, name: &str) -> Option<&'n Located<Node>> {
    let Node::Map(fields) = &node.value else {
        return None;
    };
    let found = fields.iter().find(|(key, _)| key.value == name);
    found.map(|(_, value)| value)
}

/// All fields of a mapping.
pub(super) fn fields(node: &Located<Node>) -> &[(Located<String>, Located<Node>)] {
    if let Node::Map(fields) = &node.value {
        fields
    } else {
        &[]
    }
}

/// The items of a list; a lone value is a list of itself.
pub(super) fn items(node: Option<&Located<Node>>) -> &[Located<Node>] {
    let Some(node) = node else {
        return &[];
    };
    if let Node::List(items) = &node.value {
        return items;
    }
    let lone = matches!(node.value, Node::Text(_) | Node::Integer(_) | Node::Map(_));
    if lone {
        std::slice::from_ref(node)
    } else {
        &[]
    }
}

/// A text, or a number as text.
pub(super) fn text(node: &Located<Node>) -> Option<String> {
    if let Node::Text(text) = &node.value {
        return Some(text.clone());
    }
    if let Node::Integer(number) = &node.value {
        return Some(number.to_string());
    }
    None
}

/// The texts of a list, each with its line.
pub(super) fn texts(node: Option<&Located<Node>>) -> Vec<(String, u64)> {
    let items = items(node).iter();
    items
        .filter_map(|item| Some((text(item)?, item.at.line)))
        .collect()
}

/// A field's text.
pub(super) fn text_of(node: &Located<Node>, name: &str) -> Option<String> {
    field(node, name).and_then(text)
}

/// Whether a field is there and true.
pub(super) fn is_true(node: &Located<Node>, name: &str) -> bool {
    matches!(field(node, name).map(|n| &n.value), Some(Node::Bool(true)))
}
