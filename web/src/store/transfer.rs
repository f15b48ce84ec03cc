//! All rows of one store to another: how what a fleet's PostgreSQL keeps comes into a file, and back.
//!
//! Both databases have the same tables, so a copy is every row of each, parents first, in one
//! transaction on either side: it is of one moment, and it is there whole or not at all. Sessions and
//! set-up links are left behind: whoever was signed in when a copy was made must not be when it is used. So
//! are requests that wait for a person: they end with the process whose proxy has them; and the answers to
//! requests that are made once: what they tell of may be gone; and what webhooks were told: they are told of denials
//! once more, and answer what they are told then, and to nothing that was told before. A version's number is given once, also by what is put in place of something: see `numbers`.

use super::{
    ChangeError, PostgresStore, SqliteStore,
    tables::{DatabaseError, Refused, Tables, Transaction, Value},
};

mod numbers;

pub use numbers::{Numbers, Renumbered, Restorer, given_in};

/// A table that is copied.
struct Table {
    name: &'static str,
    /// All of them, as statements name them.
    columns: &'static [&'static str],
    /// In which order its rows are read.
    key: &'static str,
}

/// Parents before children.
const COPIED: &[Table] = &[
    Table {
        name: "users",
        columns: &[
            "name",
            "role",
            "password",
            "created",
            "own_password",
            "issuer",
            "subject",
        ],
        key: "name",
    },
    Table {
        name: "second_factors",
        columns: &["person", "sealed", "created", "last_step"],
        key: "person",
    },
    Table {
        name: "recovery_codes",
        columns: &["person", "digest", "used"],
        key: "person, digest",
    },
    Table {
        name: "tokens",
        columns: &[
            "id", "digest", "name", "role", "author", "created", "expires", "used", "person",
            "scopes", "servers",
        ],
        key: "id",
    },
    Table {
        name: "policies",
        columns: &["name", "version", "removed"],
        key: "name",
    },
    Table {
        name: "policy_versions",
        columns: &["name", "version", "document", "author", "reason", "created"],
        key: "name, version",
    },
    Table {
        name: "servers",
        columns: &["name", "spec", "author", "changed"],
        key: "name",
    },
    Table {
        name: "teams",
        columns: &["name", "author", "changed"],
        key: "name",
    },
    Table {
        name: "team_members",
        columns: &["team", "person"],
        key: "team, person",
    },
    Table {
        name: "assignments",
        columns: &["scope", "subject", "policy"],
        key: "scope, subject",
    },
    Table {
        name: "floors",
        columns: &["scope", "subject", "policy"],
        key: "scope, subject",
    },
    Table {
        name: "webhooks",
        columns: &[
            "name",
            "kind",
            "url",
            "answerers",
            "author",
            "changed",
            "rules",
        ],
        key: "name",
    },
    Table {
        name: "settings",
        columns: &["name", "value"],
        key: "name",
    },
    Table {
        name: "proposals",
        columns: &[
            "id",
            "kind",
            "subject",
            "before",
            "built_on",
            "basis",
            "reason",
            "author",
            "person",
            "created",
            "state",
            "decided_by",
            "decided",
            "why",
            "version",
            "value",
        ],
        key: "id",
    },
    Table {
        name: "searches",
        columns: &["id", "title", "query", "author", "created"],
        key: "id",
    },
];
/// What belongs to the moment only.
const PASSING: &[&str] = &[
    "sessions",
    "setup_link",
    "held",
    "answers",
    "told",
    "heard",
    "written",
    "tries",
    "stops",
    "nodes",
    "running",
    "claims",
    "drafts",
    "questions",
];

impl PostgresStore {
    /// Puts everything into `file`, in place of what is there, as of one moment; changes of all nodes wait for it and
    /// for `beside`, which is done behind it: what that copies is of the same moment.
    ///
    /// # Errors
    /// [`ChangeError::Store`]; `file` is as it was.
    pub fn save_to<T>(
        &self,
        file: &SqliteStore,
        beside: impl FnOnce() -> T,
    ) -> Result<T, ChangeError> {
        self.change(false, |from| {
            pour(from, file, true, None)?;
            Ok(beside())
        })
    }

    /// Takes everything from `file`. Where there is anything already it stays and the answer is `None`, unless it is
    /// to be `replace`d; then policies whose numbers went on since are saved again, which are told.
    ///
    /// # Errors
    /// [`ChangeError::Store`]; everything is as it was.
    pub fn load_from(
        &self,
        file: &SqliteStore,
        replace: bool,
        by: &Restorer,
    ) -> Result<Option<Vec<Renumbered>>, ChangeError> {
        file.change(false, |from| pour(from, self, replace, Some(by)))
    }
}

impl SqliteStore {
    /// Ends all sessions and set-up links.
    ///
    /// # Errors
    /// [`ChangeError::Store`]; nothing was changed.
    pub fn forget_visitors(&self) -> Result<(), ChangeError> {
        self.change(false, |db| Ok(empty(db, PASSING.iter().copied())?))
    }

    /// Empties all tables.
    ///
    /// # Errors
    /// [`ChangeError::Store`]; nothing was changed.
    pub fn forget_everything(&self) -> Result<(), ChangeError> {
        self.change(true, |db| Ok(empty(db, all())?))
    }
}

/// `None` where it was not done.
fn pour(
    from: &Transaction<'_>,
    to: &impl Tables,
    replace: bool,
    by: Option<&Restorer>,
) -> Result<Option<Vec<Renumbered>>, Refused> {
    let done = to.change(true, |to| {
        if !replace && is_anything_in(to)? {
            return Ok(None);
        }
        let given = numbers::given(to)?;
        empty(to, all())?;
        for table in COPIED {
            copy(table, from, to)?;
        }
        let renumbered = by.map(|by| numbers::go_on(to, &given, by)).transpose()?;
        Ok(Some(renumbered.unwrap_or_default()))
    });
    done.map_err(Refused::Change)
}

/// Children before parents.
fn all() -> impl Iterator<Item = &'static str> {
    let copied = COPIED.iter().rev().map(|table| table.name);
    PASSING.iter().copied().chain(copied)
}

fn is_anything_in(db: &Transaction<'_>) -> Result<bool, DatabaseError> {
    for Table { name, .. } in COPIED {
        let sql = format!("SELECT count(*) > 0 FROM {name}");
        if db.query_row(&sql, (), |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn empty(
    db: &Transaction<'_>,
    tables: impl Iterator<Item = &'static str>,
) -> Result<(), DatabaseError> {
    for name in tables {
        db.execute(&format!("DELETE FROM {name}"), ())?;
    }
    Ok(())
}

fn copy(table: &Table, from: &Transaction<'_>, to: &Transaction<'_>) -> Result<(), DatabaseError> {
    let Table { name, columns, key } = table;
    let count = columns.len();
    let columns = columns.join(", ");
    let ask = format!("SELECT {columns} FROM {name} ORDER BY {key} LIMIT ?1 OFFSET ?2");
    let places: Vec<_> = (1..=count).map(|place| format!("?{place}")).collect();
    let put = format!(
        "INSERT INTO {name} ({columns}) VALUES ({})",
        places.join(", ")
    );
    let mut done: i64 = 0;
    loop {
        let rows = from
            .0
            .rows(&ask, vec![Value::Integer(AT_ONCE), Value::Integer(done)])?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            to.0.execute(&put, row.0)?;
            done += 1;
        }
    }
}

/// Versions of policies are the largest rows.
const AT_ONCE: i64 = 256;

#[cfg(test)]
mod tests;
