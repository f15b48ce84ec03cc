//! Cells and parameters as PostgreSQL has them.

use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::store::tables::{DatabaseError, Row, Value};

type Refusal = Box<dyn std::error::Error + Sync + Send>;

pub(super) fn as_parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

pub(super) fn row(found: &tokio_postgres::Row) -> Result<Row, DatabaseError> {
    let cells = (0..found.len()).map(|column| {
        let cell = found.try_get::<_, Value>(column);
        cell.map_err(|error| DatabaseError::Unreadable {
            column,
            why: error.to_string(),
        })
    });
    cells.collect::<Result<_, _>>().map(Row)
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Refusal> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) if *kind == Type::INT4 => {
                i32::try_from(*number)?.to_sql(kind, out)
            }
            Self::Integer(number) if *kind == Type::BOOL => (*number != 0).to_sql(kind, out),
            Self::Integer(number) => number.to_sql_checked(kind, out),
            // PostgreSQL keeps none. No name, id or document has one: this compares unequal to all.
            Self::Text(text) if text.contains('\0') => {
                text.replace('\0', "\u{fffd}").to_sql_checked(kind, out)
            }
            Self::Text(text) => text.as_str().to_sql_checked(kind, out),
            Self::Octets(octets) => octets.as_slice().to_sql_checked(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::BOOL, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Refusal> {
        Ok(match *kind {
            Type::BOOL => Self::Integer(bool::from_sql(kind, raw)?.into()),
            Type::INT4 => Self::Integer(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Self::Integer(i64::from_sql(kind, raw)?),
            Type::BYTEA => Self::Octets(<&[u8]>::from_sql(kind, raw)?.to_vec()),
            _ => Self::Text(String::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Refusal> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        [Type::BOOL, Type::INT4, Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }
}
