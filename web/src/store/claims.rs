//! Which node has the sandbox of a server and a profile: of a fleet one has it, or starts it, at a time.
//!
//! A claim holds as long as its node lives and the sandbox is not said to have ended. No node is told to start
//! anything: whoever is asked claims, and who comes second hears where it is.

use super::{
    changes::Outcome,
    tables::{DatabaseError, OptionalExtension as _, Transaction},
};

/// A node wants to start the sandbox of a server and a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The registered server.
    pub server: String,
    /// Whose, in small letters.
    pub profile: String,
    /// The sandbox that is to be.
    pub sandbox: String,
    /// Of what the server is now.
    pub spec: String,
}

/// Who may start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// This node.
    Mine,
    /// Another has it.
    Theirs {
        /// Which.
        node: String,
        /// Its sandbox.
        sandbox: String,
        /// It runs what the server is now.
        same: bool,
    },
    /// The store does not know this node as living: it may start nothing that others might have.
    Unknown,
}

/// Claims it for a node, unless another has it.
pub(super) fn claim(db: &Transaction<'_>, node: &str, claim: &Claim) -> Outcome<Claimed> {
    if let Some(theirs) = others(db, node, claim)? {
        return Ok(theirs);
    }
    let sql = "INSERT INTO claims (server, profile, sandbox, node, run, spec)
               SELECT ?1, ?2, ?3, n.name, n.run, ?5 FROM nodes n WHERE n.name = ?4 AND n.gone IS NULL
               ON CONFLICT (server, profile) DO UPDATE SET sandbox = excluded.sandbox, node = excluded.node,
                   run = excluded.run, spec = excluded.spec";
    let Claim {
        server,
        profile,
        sandbox,
        spec,
    } = claim;
    let claimed = db.execute(sql, (server, profile, sandbox, node, spec))?;
    Ok(match claimed {
        0 => Claimed::Unknown,
        _ => Claimed::Mine,
    })
}

/// That of another node, while that lives.
pub(super) fn others(
    db: &Transaction<'_>,
    node: &str,
    claim: &Claim,
) -> Result<Option<Claimed>, DatabaseError> {
    let sql = "SELECT c.node, c.sandbox, c.spec FROM claims c
               JOIN nodes n ON n.name = c.node AND n.run = c.run
               WHERE c.server = ?1 AND c.profile = ?2 AND c.node <> ?3 AND n.gone IS NULL";
    let found = db.query_row(sql, (&claim.server, &claim.profile, node), |row| {
        let spec: String = row.get(2)?;
        Ok(Claimed::Theirs {
            node: row.get(0)?,
            sandbox: row.get(1)?,
            same: spec == claim.spec,
        })
    });
    found.optional()
}

/// Nothing is, or will be, of this sandbox.
pub(super) fn release(db: &Transaction<'_>, sandbox: &str) -> Result<(), DatabaseError> {
    db.execute("DELETE FROM claims WHERE sandbox = ?1", [sandbox])?;
    Ok(())
}
