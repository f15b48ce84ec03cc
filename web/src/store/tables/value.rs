//! What goes into a statement and what comes out of one: numbers, texts, octets, or nothing.

use super::DatabaseError;

/// One cell, or one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Value {
    /// Nothing.
    Null,
    /// A number, a time in seconds, or yes (1) and no (0).
    Integer(i64),
    /// A text.
    Text(String),
    /// Octets.
    Octets(Vec<u8>),
}

/// A row that need not be there.
pub(in crate::store) trait OptionalExtension<T> {
    /// `None` where there is none.
    fn optional(self) -> Result<Option<T>, DatabaseError>;
}

impl<T> OptionalExtension<T> for Result<T, DatabaseError> {
    fn optional(self) -> Result<Option<T>, DatabaseError> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(DatabaseError::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// One row of an answer.
#[derive(Debug)]
pub(in crate::store) struct Row(pub(in crate::store) Vec<Value>);

/// The parameters of a statement.
pub(in crate::store) trait Params {
    /// In the order of their numbers.
    fn values(self) -> Vec<Value>;
}

/// What a cell can be read as.
pub(in crate::store) trait FromValue: Sized {
    /// `None` where the cell holds something else.
    fn from_value(value: &Value) -> Option<Self>;
}

impl Row {
    /// One cell.
    pub(in crate::store) fn get<T: FromValue>(&self, column: usize) -> Result<T, DatabaseError> {
        let found = self.0.get(column).and_then(T::from_value);
        found.ok_or_else(|| DatabaseError::Unreadable {
            column,
            why: "it is not what belongs there".to_owned(),
        })
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Value {
    /// Beyond what a database counts to, the largest: there is no row of either number.
    fn from(number: u64) -> Self {
        Self::Integer(number.try_into().unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Integer(yes.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(octets: Vec<u8>) -> Self {
        Self::Octets(octets)
    }
}

impl From<[u8; 32]> for Value {
    fn from(octets: [u8; 32]) -> Self {
        Self::Octets(octets.to_vec())
    }
}

impl From<&[u8]> for Value {
    fn from(octets: &[u8]) -> Self {
        Self::Octets(octets.to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(maybe: Option<T>) -> Self {
        maybe.map_or(Self::Null, Into::into)
    }
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

impl FromValue for u64 {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl FromValue for u32 {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(0) => Some(false),
            Value::Integer(1) => Some(true),
            _ => None,
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for [u8; 32] {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Octets(octets) => octets.as_slice().try_into().ok(),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Octets(octets) => Some(octets.clone()),
            Value::Null | Value::Integer(_) | Value::Text(_) => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl Params for () {
    fn values(self) -> Vec<Value> {
        Vec::new()
    }
}

impl<T: Into<Value>, const N: usize> Params for [T; N] {
    fn values(self) -> Vec<Value> {
        self.into_iter().map(Into::into).collect()
    }
}

/// Tuples, as long as any statement needs.
macro_rules! tuple {
    ($($part:ident $at:tt),+) => {
        impl<$($part: Into<Value>),+> Params for ($($part,)+) {
            fn values(self) -> Vec<Value> {
                vec![$(self.$at.into()),+]
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
