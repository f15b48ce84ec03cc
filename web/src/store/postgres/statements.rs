//! The statements of all databases, as a PostgreSQL is asked them.

use gig_postgres::Link;
use tokio_postgres::types::ToSql;

use super::value::{as_parameters, row};
use crate::store::tables::{DatabaseError, Row, Statements, Value};

impl Statements for Link {
    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, DatabaseError> {
        let sql = numbered(sql);
        let parameters: Vec<&(dyn ToSql + Sync)> = as_parameters(&values);
        Ok(self.asked(self.client().execute(&sql, &parameters))?)
    }

    fn batch(&self, sql: &str) -> Result<(), DatabaseError> {
        Ok(self.run(sql)?)
    }

    fn rows(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, DatabaseError> {
        let sql = numbered(sql);
        let parameters: Vec<&(dyn ToSql + Sync)> = as_parameters(&values);
        let found = self.asked(self.client().query(&sql, &parameters))?;
        found.iter().map(row).collect()
    }
}

/// `?1` as PostgreSQL writes it. No statement of ours has a question mark otherwise.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}
