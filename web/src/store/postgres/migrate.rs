//! The tables, made and brought up to date; by one node at a time.

use std::time::Duration;

use super::{OpenPostgresError, Server, link::Link, pool};
use crate::store::tables::{DatabaseError, Statements as _};

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/postgres/migrations");
}

/// Makes the tables, or brings them up to date.
pub(super) fn migrate(server: &Server) -> Result<(), OpenPostgresError> {
    let place = || server.address.place.clone();
    let unusable = |source: DatabaseError| OpenPostgresError::Connect {
        place: place(),
        source: source.into(),
    };
    let mut runner = embedded::migrations::runner().set_grouped(true);
    let versions = runner.get_migrations().iter();
    let newest = versions.map(|one| i64::from(one.version())).max();
    let later = || OpenPostgresError::Later { place: place() };
    let mut link = server.connect(pool::PATIENCE, PATIENCE).map_err(unusable)?;
    match standing(&link).map_err(unusable)? {
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
    link.batch(&alone).map_err(unusable)?;
    // Another node may have been at it meanwhile.
    match standing(&link).map_err(unusable)? {
        Standing::Anothers => return Err(OpenPostgresError::Anothers { place: place() }),
        Standing::At(version) if version > newest => return Err(later()),
        Standing::At(version) if version == newest => return Ok(()),
        Standing::At(_) => {}
        Standing::Nowhere => link.batch("CREATE SCHEMA gig").map_err(unusable)?,
    }
    let untold = |source| OpenPostgresError::Tables {
        place: place(),
        source,
    };
    runner.set_migration_table_name(HISTORY);
    let run = link.with_client(PATIENCE, async |client| runner.run_async(client).await);
    match run {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(untold(error.into())),
        None => Err(untold("it took too long".into())),
    }
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

fn standing(link: &Link) -> Result<Standing, DatabaseError> {
    let is = |sql: &str| {
        let rows = link.rows(sql, Vec::new())?;
        rows.first().ok_or(DatabaseError::NoRow)?.get::<bool>(0)
    };
    if !is("SELECT count(*) > 0 FROM pg_namespace WHERE nspname = 'gig'")? {
        return Ok(Standing::Nowhere);
    }
    let ours = "SELECT pg_has_role(current_user, nspowner, 'USAGE') FROM pg_namespace
                WHERE nspname = 'gig'";
    if !is(ours)? {
        return Ok(Standing::Anothers);
    }
    if !is(&format!("SELECT to_regclass('gig.{HISTORY}') IS NOT NULL"))? {
        return Ok(Standing::At(None));
    }
    let sql = format!("SELECT max(version) FROM {HISTORY}");
    let rows = link.rows(&sql, Vec::new())?;
    let version = rows.first().ok_or(DatabaseError::NoRow)?.get(0)?;
    Ok(Standing::At(version))
}

/// By the same name as in SQLite.
const HISTORY: &str = "appliance_schema_history";
/// Of all locks of the database this one: "gig" and a one.
const ALONE: i64 = 0x6769_6701;
/// Another node may be at it.
const PATIENCE: Duration = Duration::from_secs(60);
