//! The store as tables of a PostgreSQL that the nodes of a fleet share.
//!
//! Everything is in the schema `gig`, and every node sees one vault. Reading costs no round trip: a thread
//! follows what others commit (`NOTIFY`, and a look four times a second), and what could not be confirmed
//! for five seconds is no longer answered. A commit waits for the server's disk. One whose connection was lost is an
//! error: whether it was made shows at the next look.

use std::{sync::Arc, thread, time::Duration};

use gig_policy::SecretName;
use gig_postgres::{Link, LinkError, OpenPostgresError, Server, Tables};
use parking_lot::Mutex;

mod known;
mod rows;

use self::known::Known;
use super::{Alone, Change, CommitError, Snapshot, Store, StoreError};

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/postgres/migrations");
}

/// An open database.
#[derive(Debug)]
pub struct PostgresStore {
    server: Arc<Server>,
    known: Arc<Known>,
    /// Idle between commits.
    writing: Mutex<Option<Link>>,
    /// By which leave is asked for, until it is given: then it goes with the leave.
    asking: Mutex<Option<Link>>,
}

impl PostgresStore {
    /// Opens the database that `url` names; makes the tables if need be. Blocks.
    ///
    /// # Errors
    /// [`OpenPostgresError`]; it does not repeat the URL.
    pub fn open(url: &str) -> Result<Self, OpenPostgresError> {
        let server = Arc::new(Server::new(url, "vault")?);
        let tables = Tables {
            runner: embedded::migrations::runner(),
            history: HISTORY,
        };
        gig_postgres::update(&server, tables)?;
        let unusable = |source| OpenPostgresError::Connect {
            place: Arc::clone(server.place()),
            source,
        };
        let link = server.connect(CONNECTING, PATIENCE).map_err(unusable)?;
        let known = Known::begin(Arc::clone(&server), &link).map_err(unusable)?;
        let known = Arc::new(known);
        let following = Arc::clone(&known);
        thread::Builder::new()
            .name("vault-follow".to_owned())
            .spawn(move || following.follow())
            .map_err(OpenPostgresError::Runtime)?;
        Ok(Self {
            server,
            known,
            writing: Mutex::new(Some(link)),
            asking: Mutex::new(None),
        })
    }

    fn failed(&self, action: &'static str, error: &LinkError) -> StoreError {
        StoreError {
            action,
            place: self.server.place().to_string(),
            why: error.in_full(),
        }
    }

    /// False when something changed since `generation`. Known here before it returns.
    fn write(&self, link: &Link, generation: u64, changes: &[Change]) -> Result<bool, LinkError> {
        let committed = commit(link, generation, changes)?;
        let looked = self.known.look_anew(link);
        match committed {
            true => Ok(true),
            false => looked.map(|()| false),
        }
    }
}

/// The row of the generation is held until the end: who comes second sees what the first one did.
fn commit(link: &Link, generation: u64, changes: &[Change]) -> Result<bool, LinkError> {
    // Until it is known how it ended, nobody else gets this connection.
    link.doubt();
    link.run("BEGIN")?;
    // More than one further: two servers that parted count differently.
    let count =
        "UPDATE secret_generation SET generation = generation + 1 + floor(random() * 1000)::int8
                 WHERE one = 1 AND generation = $1";
    let counted = link.asked(link.client().execute(count, &[&generation.cast_signed()]))?;
    if counted == 0 {
        link.run("ROLLBACK")?;
        link.trust();
        return Ok(false);
    }
    for change in changes {
        rows::apply(link, change)?;
    }
    link.run(&format!("NOTIFY {CHANNEL}; COMMIT"))?;
    link.trust();
    Ok(true)
}

/// Whether what stood there before is to be nowhere any more: a value that is forgotten, a key or a passphrase whose time
/// is over.
const fn takes_away(change: &Change) -> bool {
    match change {
        Change::PutSecret(_) | Change::PutVersion(_) => false,
        Change::PutCustody(_)
        | Change::PutKey(_)
        | Change::DeleteSecret { .. }
        | Change::DeleteVersion { .. }
        | Change::DeleteCustody { .. }
        | Change::DeleteKey(_) => true,
    }
}

/// Has the tables written anew without the rows that nobody sees any more: the server keeps those in its files for as long
/// as the tables are small, and they are. The change is made by now, whatever comes of this.
fn forget(link: &Link) {
    let forgotten = FORGETTING.iter().try_for_each(|sql| link.run(sql));
    if let Err(error) = forgotten {
        tracing::warn!(
            error = error.in_full(),
            "what was taken out of the vault is still in the files of its database: VACUUM FULL there takes it out"
        );
    }
    // As the session began; where it is broken it is used no more.
    if let Err(error) = link.run("SET lock_timeout TO '8s'") {
        tracing::debug!(
            error = error.in_full(),
            "a connection to the vault's database broke"
        );
    }
}

impl Store for PostgresStore {
    fn generation(&self) -> Result<u64, StoreError> {
        self.known.snapshot().map(|snapshot| snapshot.generation)
    }

    fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.known.snapshot().map(|snapshot| (*snapshot).clone())
    }

    fn commit(&self, generation: u64, changes: &[Change]) -> Result<(), CommitError> {
        let failed = |error: LinkError| CommitError::Store(self.failed("write", &error));
        let mut writing = self.writing.lock();
        let kept = writing.take().filter(|link| !link.is_broken());
        let link = match kept {
            Some(link) => link,
            None => self.server.connect(CONNECTING, PATIENCE).map_err(failed)?,
        };
        let written = self.write(&link, generation, changes).map_err(failed)?;
        if written && changes.iter().any(takes_away) {
            forget(&link);
        }
        *writing = Some(link);
        match written {
            true => Ok(()),
            false => Err(CommitError::Overtaken),
        }
    }

    fn alone(&self, name: &SecretName) -> Result<Option<Alone>, StoreError> {
        let failed = |error: LinkError| self.failed("lock a secret in", &error);
        let mut asking = self.asking.lock();
        let kept = asking.take().filter(|link| !link.is_broken());
        let link = match kept {
            Some(link) => link,
            None => self.server.connect(CONNECTING, PATIENCE).map_err(failed)?,
        };
        // Names that share a number wait for each other, no more.
        let take = "SELECT pg_try_advisory_lock($1, hashtext($2))";
        let asked = link.asked(link.client().query_one(take, &[&HELD, &name.as_str()]));
        let row = asked.map_err(failed)?;
        let taken: bool = row.try_get(0).map_err(|error| failed(link.judge(error)))?;
        if taken {
            // What whoever had leave before committed is known before anything is done with it: a login's token serves once.
            self.known.check(&link).map_err(failed)?;
            // The server gives it back when the connection ends.
            return Ok(Some(Alone::by_connection(link)));
        }
        *asking = Some(link);
        Ok(None)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.known.end();
    }
}

/// Nobody waits long behind it, where somebody else reads for long (a backup).
const FORGETTING: [&str; 5] = [
    "SET lock_timeout TO '2s'",
    "VACUUM (FULL) secret_keys",
    "VACUUM (FULL) secret_versions",
    "VACUUM (FULL) secret_custodies",
    "VACUUM (FULL) secrets",
];
/// Tables of others in the schema have histories of their own.
const HISTORY: &str = "secret_schema_history";
/// What a commit is told on.
const CHANNEL: &str = "gig_secrets";
/// Of the locks with two numbers those of secrets: `gigs`.
const HELD: i32 = 0x6769_6773;
/// For all servers of the URL together.
const CONNECTING: Duration = Duration::from_secs(4);
/// Whoever uses a secret may wait for it.
const PATIENCE: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests;
