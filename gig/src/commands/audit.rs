//! `gig audit …`: work with what was recorded, in files and databases.

use std::path::Path;

use anyhow::Context;
use gig_audit::{
    PostgresRecord, SqliteLog,
    log::{Log, jsonl::JsonlLog},
    search::Filter,
};

mod export;
mod key;
mod patient;
mod prune;
mod search;
mod show;
mod tail;
mod told;
mod verify;

use self::patient::Patient;
use crate::{
    args::audit::{AuditCommand, FilterArgs},
    exit_status::ExitStatus,
    record_place::RecordPlace,
    serve::database,
};

/// Does what the command says.
///
/// # Errors
/// When the record cannot be read.
pub(super) fn execute(command: AuditCommand) -> anyhow::Result<ExitStatus> {
    match command {
        AuditCommand::Tail(args) => tail::execute(args),
        AuditCommand::Search(args) => search::execute(args),
        AuditCommand::Verify(args) => verify::execute(&args),
        AuditCommand::Export(args) => export::execute(args),
        AuditCommand::Prune(args) => prune::execute(&args),
        AuditCommand::Key(output) => key::execute(&output),
    }
}

/// Opens a record to read it.
///
/// # Errors
/// When it is not there or holds something else.
pub(super) fn open(place: &Path) -> anyhow::Result<Box<dyn Log>> {
    Ok(match RecordPlace::of(place)? {
        RecordPlace::Stream => anyhow::bail!("standard input cannot be searched: name a file"),
        RecordPlace::Lines(path) => Box::new(JsonlLog::open(&path)?),
        RecordPlace::Sqlite(path) => {
            let log = SqliteLog::open(&path);
            Box::new(log.context("name an audit database that gig made")?)
        }
        RecordPlace::Shared => Box::new(shared()?.log()?),
    })
}

/// The same for who follows it: a database that goes away meanwhile is waited for.
///
/// # Errors
/// When it is not there now or holds something else.
fn follow(place: &Path) -> anyhow::Result<Box<dyn Log>> {
    let log = open(place)?;
    Ok(match RecordPlace::of(place)? {
        RecordPlace::Shared => Box::new(Patient::new(log)),
        RecordPlace::Stream | RecordPlace::Lines(_) | RecordPlace::Sqlite(_) => log,
    })
}

/// The record of a fleet.
///
/// # Errors
/// When none is named, or it cannot be used.
fn shared() -> anyhow::Result<PostgresRecord> {
    database::shared_record()?.context(
        "postgres: is the record in the database of GIG_DATABASE_URL, which is not set: set it, or name a file",
    )
}

fn filter(args: FilterArgs) -> Filter {
    Filter {
        since: args.since,
        until: args.until,
        event: args.event,
        verdict: args.verdict,
        reason: args.reason,
        rule: args.rule,
        sandbox: args.sandbox,
        server: args.server,
        profile: args.profile,
        node: args.node,
        policy: args.policy,
        host: args.host,
        method: args.method,
        status: args.status,
        alarm: args.alarm,
        secret: args.secret,
        conn: args.conn.iter().map(u64::to_string).collect(),
        request: args.request,
        src: args.src,
        text: args.text,
    }
}
