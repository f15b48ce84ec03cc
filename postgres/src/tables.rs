//! Tables in the schema `gig`, made and brought up to date; by one node at a time.

use std::time::Duration;

use refinery::Runner;

use crate::{Link, LinkError, OpenPostgresError, Server};

/// Some of the tables in the schema, with a history of their own.
#[expect(missing_debug_implementations, reason = "refinery's runner has none")]
pub struct Tables {
    /// What makes them, in order.
    pub runner: Runner,
    /// The table that says how far they are.
    pub history: &'static str,
}

/// Makes the tables, or brings them up to date. Blocks.
///
/// # Errors
/// When the server cannot be reached, or the tables cannot be had or are not ours.
pub fn update(server: &Server, tables: Tables) -> Result<(), OpenPostgresError> {
    let Tables { runner, history } = tables;
    let place = || server.place().clone();
    let unusable = |source: LinkError| OpenPostgresError::Connect {
        place: place(),
        source,
    };
    let mut runner = runner.set_grouped(true);
    let versions = runner.get_migrations().iter();
    let newest = versions.map(|one| i64::from(one.version())).max();
    let later = || OpenPostgresError::Later { place: place() };
    let mut link = server.connect(CONNECTING, PATIENCE).map_err(unusable)?;
    let what = what_it_is(&link).map_err(unusable)?;
    what.usable(server)?;
    match standing(&link, history).map_err(unusable)? {
        Standing::Anothers => return Err(OpenPostgresError::Anothers { place: place() }),
        Standing::At(version) if version > newest => return Err(later()),
        // Nothing to do, and nobody to wait for.
        Standing::At(version) if version == newest => return Ok(()),
        Standing::At(_) | Standing::Nowhere => {}
    }
    // Held until the connection ends.
    let alone = format!(
        "SET lock_timeout TO '{0}s'; SET statement_timeout TO '{0}s'; SELECT pg_advisory_lock({ALONE})",
        PATIENCE.as_secs() - 5
    );
    link.run(&alone).map_err(unusable)?;
    // Another node may have been at it meanwhile.
    match standing(&link, history).map_err(unusable)? {
        Standing::Anothers => return Err(OpenPostgresError::Anothers { place: place() }),
        Standing::At(version) if version > newest => return Err(later()),
        Standing::At(version) if version == newest => return Ok(()),
        Standing::At(_) => {}
        Standing::Nowhere => {
            if let Some(grant) = lacking(&link).map_err(unusable)? {
                let place = place();
                return Err(OpenPostgresError::Ungranted { place, grant });
            }
            link.run("CREATE SCHEMA gig").map_err(unusable)?;
        }
    }
    let untold = |source| OpenPostgresError::Tables {
        place: place(),
        source,
    };
    runner.set_migration_table_name(history);
    let run = link.with_client(PATIENCE, async |client| runner.run_async(client).await);
    match run {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(untold(error.into())),
        None => Err(untold("it took too long".into())),
    }
}

/// What a server says of itself and the database.
struct Nature {
    number: i32,
    version: String,
    encoding: String,
}

impl Nature {
    fn usable(self, server: &Server) -> Result<(), OpenPostgresError> {
        let place = server.place().clone();
        if self.number < OLDEST {
            let version = self.version;
            return Err(OpenPostgresError::Old { place, version });
        }
        if self.encoding != "UTF8" {
            let encoding = self.encoding;
            return Err(OpenPostgresError::Encoding { place, encoding });
        }
        Ok(())
    }
}

fn what_it_is(link: &Link) -> Result<Nature, LinkError> {
    let look =
        "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
                       current_setting('server_encoding')";
    let row = link.asked(link.client().query_one(look, &[]))?;
    let read = || {
        Ok(Nature {
            number: row.try_get(0)?,
            version: row.try_get(1)?,
            encoding: row.try_get(2)?,
        })
    };
    read().map_err(|error| link.judge(error))
}

/// How far tables are.
enum Standing {
    /// There is no schema.
    Nowhere,
    /// The schema is somebody's whose role this one is not: they can put into it what they like.
    Anothers,
    /// The newest version of the tables; `None` where there are none.
    At(Option<i64>),
}

fn standing(link: &Link, history: &str) -> Result<Standing, LinkError> {
    let is = |sql: &str| -> Result<bool, LinkError> {
        let row = link.asked(link.client().query_one(sql, &[]))?;
        row.try_get(0).map_err(|error| link.judge(error))
    };
    if !is("SELECT count(*) > 0 FROM pg_namespace WHERE nspname = 'gig'")? {
        return Ok(Standing::Nowhere);
    }
    let ours = "SELECT pg_has_role(current_user, nspowner, 'USAGE') FROM pg_namespace
                WHERE nspname = 'gig'";
    if !is(ours)? {
        return Ok(Standing::Anothers);
    }
    if !is(&format!("SELECT to_regclass('gig.{history}') IS NOT NULL"))? {
        return Ok(Standing::At(None));
    }
    let sql = format!("SELECT max(version)::int8 FROM {history}");
    let row = link.asked(link.client().query_one(&sql, &[]))?;
    let version = row.try_get(0).map_err(|error| link.judge(error))?;
    Ok(Standing::At(version))
}

/// What the role has to be granted before it may make a schema.
fn lacking(link: &Link) -> Result<Option<String>, LinkError> {
    let look = "SELECT CASE WHEN NOT has_database_privilege(current_database(), 'CREATE')
                       THEN format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user) END";
    let row = link.asked(link.client().query_one(look, &[]))?;
    row.try_get(0).map_err(|error| link.judge(error))
}

/// PostgreSQL 14, whose successors know all that it knows.
const OLDEST: i32 = 140_000;
/// Of all locks of the database this one: "gig" and a one.
const ALONE: i64 = 0x6769_6701;
/// For all servers that a URL names together.
const CONNECTING: Duration = Duration::from_secs(10);
/// Another node may be at it.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_and_another_encoding_are_refused_in_words() {
        let server = Server::new("postgres://gig@localhost/gig", "test").unwrap();
        let told = |number: i32, encoding: &str| {
            let nature = Nature {
                number,
                version: "13.9".into(),
                encoding: encoding.into(),
            };
            nature.usable(&server).map_err(|error| error.to_string())
        };
        assert_eq!(told(140_000, "UTF8"), Ok(()));
        let old = told(139_999, "UTF8").unwrap_err();
        assert!(old.contains("PostgreSQL 13.9: gig needs 14"), "{old}");
        let encoding = told(170_000, "SQL_ASCII").unwrap_err();
        assert!(
            encoding.contains("in SQL_ASCII: gig needs one in UTF8"),
            "{encoding}"
        );
    }
}
