//! Which nodes serve from this database and what runs on each, as they say themselves.
//!
//! A node says every few seconds that it lives, by the database's clock: nodes' own clocks do not matter. One that
//! has not said so for [`GONE_AFTER`] is gone, and stays so: what it ran is told as lost, once, by whichever node
//! notices first, and a node that was only cut off learns with its next word that it was taken for dead. Nobody is
//! judged by a node that did not see the database itself for so long: after an outage all have been silent.

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    changes::Outcome,
    claims, held,
    tables::{DatabaseError, OptionalExtension as _, Refused, Row, Transaction},
};

/// A node's start: what it is called, and which of its starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRun {
    /// As the record calls it.
    pub name: String,
    /// Of this start alone; as what waits in its proxy names it.
    pub run: String,
    /// Where other machines reach its console and API: closed to their sandboxes.
    pub listens: Vec<SocketAddr>,
}

/// A node, as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// As the record calls it.
    pub name: String,
    /// Which gig.
    pub version: String,
    /// How long ago it last said that it lives.
    pub silent: Duration,
    /// It was taken for dead.
    pub gone: bool,
    /// How many sandboxes run there.
    pub sandboxes: u64,
    /// Where other machines reach it.
    pub listens: Vec<SocketAddr>,
}

/// A sandbox that runs on some node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRow {
    /// Its id.
    pub sandbox: String,
    /// Where.
    pub node: String,
    /// The registered server it runs.
    pub server: String,
    /// Whose it is.
    pub profile: String,
    /// The rest.
    pub facts: RunningFacts,
}

/// What else is listed of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningFacts {
    /// Whether it lives as long as somebody is attached to it.
    pub attached: bool,
    /// Its address, where it has one.
    pub address: Option<String>,
    /// The network namespace that it is, where gig did not make it.
    pub namespace: Option<String>,
    /// The policy in force.
    pub policy: String,
    /// Its version.
    pub policy_version: u64,
    /// What put it in force.
    pub policy_by: String,
    /// Since when, as it is shown.
    pub started: String,
    /// What confines it, layer by layer.
    pub layers: Vec<String>,
}

/// What is new of what runs on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningNews {
    /// What began, or is under another policy.
    pub put: Vec<RunningRow>,
    /// What runs no more.
    pub ended: Vec<String>,
}

/// What became of a node's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beaten {
    /// It was noted.
    Noted,
    /// Nobody knows the node: it begins again.
    Unknown,
    /// It was taken for dead: what it told of before is told as lost.
    Gone,
}

/// What is told of a node that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// It has not said for so long that it lives.
    Node {
        /// Which.
        name: String,
        /// For how long.
        silent: Duration,
        /// What ran there.
        sandboxes: u64,
    },
    /// What ran there.
    Sandbox(Box<RunningRow>),
}

/// Is told of what is lost before that is so, and may refuse it.
pub type Mourner<'a> = &'a dyn Fn(&Lost) -> Result<(), String>;

/// A node begins to serve: who had its name is no more.
pub(super) fn begin(
    db: &Transaction<'_>,
    node: &NodeRun,
    version: &str,
) -> Result<(), DatabaseError> {
    let sql = "SELECT run FROM nodes WHERE name = ?1 AND run <> ?2";
    for before in db.query_all(sql, (&node.name, &node.run), |row| row.get::<String>(0))? {
        held::end_all(db, &before)?;
    }
    let sql = "INSERT INTO nodes (name, run, version, seen, steady, gone, listens)
               SELECT ?1, ?2, ?3, now, now, NULL, ?4 FROM clock WHERE true
               ON CONFLICT (name) DO UPDATE SET run = excluded.run, version = excluded.version,
                   seen = excluded.seen, steady = excluded.steady, gone = NULL, listens = excluded.listens";
    let listens = serde_json::to_string(&node.listens);
    let listens = listens.map_err(|error| DatabaseError::Failed(error.into()))?;
    db.execute(sql, (&node.name, &node.run, version, listens))?;
    let sql = "DELETE FROM nodes WHERE gone < (SELECT now FROM clock) - ?1";
    db.execute(
        sql,
        [i64::try_from(REMEMBERED.as_secs()).unwrap_or(i64::MAX)],
    )?;
    Ok(())
}

/// It lives, and what is new there; which is not noted where the node is not known as living.
pub(super) fn beat(
    db: &Transaction<'_>,
    node: &NodeRun,
    news: &RunningNews,
) -> Result<Beaten, DatabaseError> {
    let sql = "UPDATE nodes SET seen = (SELECT now FROM clock),
                   steady = CASE WHEN seen < (SELECT now FROM clock) - ?3 THEN (SELECT now FROM clock) ELSE steady END
               WHERE name = ?1 AND run = ?2 AND gone IS NULL";
    if db.execute(sql, (&node.name, &node.run, seconds(PAUSE)))? == 0 {
        let sql = "SELECT count(*) FROM nodes WHERE name = ?1";
        let known: i64 = db.query_row(sql, [&node.name], |row| row.get(0))?;
        return Ok(match known {
            0 => Beaten::Unknown,
            _ => Beaten::Gone,
        });
    }
    for row in &news.put {
        let facts = serde_json::to_string(&row.facts);
        let facts = facts.map_err(|error| DatabaseError::Failed(error.into()))?;
        let sql = "INSERT INTO running (sandbox, node, run, server, profile, facts)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT (sandbox) DO UPDATE SET run = excluded.run, facts = excluded.facts";
        let whose = (&row.server, &row.profile);
        let place = (&node.name, &node.run);
        db.execute(
            sql,
            (&row.sandbox, place.0, place.1, whose.0, whose.1, facts),
        )?;
    }
    for sandbox in &news.ended {
        db.execute("DELETE FROM running WHERE sandbox = ?1", [sandbox])?;
        claims::release(db, sandbox)?;
    }
    Ok(Beaten::Noted)
}

/// It serves no more, and nothing runs there.
pub(super) fn end(db: &Transaction<'_>, node: &NodeRun) -> Result<(), DatabaseError> {
    let whose = (&node.name, &node.run);
    db.execute("DELETE FROM running WHERE node = ?1 AND run = ?2", whose)?;
    let whose = (&node.name, &node.run);
    db.execute("DELETE FROM claims WHERE node = ?1 AND run = ?2", whose)?;
    let whose = (&node.name, &node.run);
    db.execute("DELETE FROM nodes WHERE name = ?1 AND run = ?2", whose)?;
    held::end_all(db, &node.run)
}

/// All of them, by name.
pub(super) fn all(db: &Transaction<'_>) -> Result<Vec<NodeRow>, DatabaseError> {
    let sql = "SELECT name, version, (SELECT now FROM clock) - seen, gone IS NOT NULL,
                   (SELECT count(*) FROM running r WHERE r.node = n.name AND r.run = n.run), listens
               FROM nodes n ORDER BY name";
    db.query_all(sql, (), |row| {
        Ok(NodeRow {
            name: row.get(0)?,
            version: row.get(1)?,
            silent: silence(row.get(2)?),
            gone: row.get(3)?,
            sandboxes: row.get(4)?,
            listens: listeners(&row.get::<String>(5)?),
        })
    })
}

/// What a later gig may write otherwise is nowhere.
fn listeners(text: &str) -> Vec<SocketAddr> {
    serde_json::from_str(text).unwrap_or_default()
}

/// What runs on nodes that are there, newest first.
pub(super) fn running(db: &Transaction<'_>) -> Result<Vec<RunningRow>, DatabaseError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM running r JOIN nodes n ON n.name = r.node AND n.run = r.run
               WHERE n.gone IS NULL ORDER BY r.sandbox DESC"
    );
    db.query_all(&sql, (), running_row)
}

/// One of them.
pub(super) fn one(
    db: &Transaction<'_>,
    sandbox: &str,
) -> Result<Option<RunningRow>, DatabaseError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM running r JOIN nodes n ON n.name = r.node AND n.run = r.run
               WHERE n.gone IS NULL AND r.sandbox = ?1"
    );
    db.query_row(&sql, [sandbox], running_row).optional()
}

/// Whether there is anything to bury, as far as `judge` may say.
pub(super) fn are_any_lost(db: &Transaction<'_>, judge: &NodeRun) -> Result<bool, DatabaseError> {
    Ok(!silent(db, judge)?.is_empty() || !orphans(db)?.is_empty())
}

/// Tells of all that is lost, and forgets it.
pub(super) fn bury(db: &Transaction<'_>, judge: &NodeRun, tell: Mourner<'_>) -> Outcome {
    let tell = |lost: &Lost| {
        let told = tell(lost);
        told.map_err(|why| Refused::Change(super::ChangeError::NotRecorded(why)))
    };
    for (name, run, silent) in silent(db, judge)? {
        // Whoever says at this moment that it lives comes before this, and is seen, or after, and is told.
        let sql = "UPDATE nodes SET gone = (SELECT now FROM clock)
                   WHERE name = ?1 AND run = ?2 AND gone IS NULL AND seen < (SELECT now FROM clock) - ?3";
        if db.execute(sql, (&name, &run, seconds(GONE_AFTER)))? == 0 {
            continue;
        }
        held::end_all(db, &run)?;
        let sql = "SELECT count(*) FROM running WHERE node = ?1 AND run = ?2";
        let sandboxes = db.query_row(sql, (&name, &run), |row| row.get(0))?;
        tell(&Lost::Node {
            name,
            silent,
            sandboxes,
        })?;
    }
    for row in orphans(db)? {
        let sandbox = row.sandbox.clone();
        tell(&Lost::Sandbox(Box::new(row)))?;
        claims::release(db, &sandbox)?;
        db.execute("DELETE FROM running WHERE sandbox = ?1", [sandbox])?;
    }
    Ok(())
}

/// Nodes that have been silent for too long; none where the judge itself was.
fn silent(
    db: &Transaction<'_>,
    judge: &NodeRun,
) -> Result<Vec<(String, String, Duration)>, DatabaseError> {
    let sql = "SELECT n.name, n.run, c.now - n.seen FROM nodes n, clock c, nodes j
               WHERE n.gone IS NULL AND n.seen < c.now - ?3
                   AND j.name = ?1 AND j.run = ?2 AND j.gone IS NULL AND j.seen >= c.now - ?4 AND j.steady <= c.now - ?3";
    let words = (&judge.name, &judge.run, seconds(GONE_AFTER), seconds(PAUSE));
    db.query_all(sql, words, |row| {
        Ok((row.get(0)?, row.get(1)?, silence(row.get(2)?)))
    })
}

/// What ran on nodes, or on starts of them, that are no more.
fn orphans(db: &Transaction<'_>) -> Result<Vec<RunningRow>, DatabaseError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM running r LEFT JOIN nodes n ON n.name = r.node AND n.run = r.run
         WHERE n.name IS NULL OR n.gone IS NOT NULL ORDER BY r.sandbox"
    );
    db.query_all(&sql, (), running_row)
}

fn running_row(row: &Row) -> Result<RunningRow, DatabaseError> {
    let facts: String = row.get(4)?;
    let facts = serde_json::from_str(&facts);
    Ok(RunningRow {
        sandbox: row.get(0)?,
        node: row.get(1)?,
        server: row.get(2)?,
        profile: row.get(3)?,
        facts: facts.map_err(|error| DatabaseError::Unreadable {
            column: 4,
            why: error.to_string(),
        })?,
    })
}

/// A clock that was put back makes nobody silent.
fn silence(seconds: i64) -> Duration {
    Duration::from_secs(seconds.try_into().unwrap_or_default())
}

fn seconds(of: Duration) -> i64 {
    of.as_secs().try_into().unwrap_or(i64::MAX)
}

/// As [`running_row`] reads them.
const COLUMNS: &str = "r.sandbox, r.node, r.server, r.profile, r.facts";
/// How often a node says that it lives.
pub(crate) const BEAT: Duration = Duration::from_secs(10);
/// Of one that said so without a pause no word and the next are this far apart: two may be lost.
const PAUSE: Duration = Duration::from_secs(30);
/// A node that was silent for so long is gone: longer than a database server takes to be started anew.
pub(crate) const GONE_AFTER: Duration = Duration::from_mins(1);
/// How long the console shows a node that is gone.
const REMEMBERED: Duration = Duration::from_hours(7 * 24);
