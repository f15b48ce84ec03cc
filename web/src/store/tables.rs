//! What is kept, as tables of a database that speaks SQL: one set of statements for all of them.
//!
//! `changes` and `rows` speak with a [`Transaction`], which a database lends them. Statements are written so that
//! SQLite and PostgreSQL understand the same text: parameters are `?1`, `?2` …, times are seconds, yes and no are 1
//! and 0, names of users are compared by `lower(…)`. Where the tables are, how a lost connection is found again and
//! how two changes keep out of each other's way is each database's own.

use gig_policy::SandboxId;
use jiff::Timestamp;
use thiserror::Error;

use crate::{credential::Digest, role::Role};

mod value;
pub(super) use value::{OptionalExtension, Params, Row, Value};

use super::{
    Account, Actor, Answerable, Applied, Asked, Assignment, Begun, Change, ChangeError, Counter,
    DraftAct, Finish, Hearing, HeldFate, HeldRow, HeldWord, News, Once, Placed, PolicyHead,
    PolicyVersion, Proposal, SavedSearch, SecondFactor, Server, Session, Store, StoreError, Team,
    Telling, Token, ToldRow, ToldState, Unsaved, User, Webhook, Witness, drafts, factors, heard,
    held, name, once, proposals, rows, sessions, stops, teams, told, trial, tries, webhooks,
};

/// A database that keeps the tables.
pub(super) trait Tables: Send + Sync + 'static {
    /// Asks something that changes nothing that matters; asks again if a connection was lost over it.
    fn read<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError>;

    /// Tries a write. A lock is not waited for, so that nobody else waits for this.
    fn hastily(&self, now: Timestamp) -> Result<(), StoreError> {
        self.read(|db| trial::try_out(db, now))
    }

    /// As [`Tables::read`], of several things as they were at one moment.
    fn snapshot<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError>;

    /// Runs `make` in a transaction that no other change runs beside, on any node; commits it if it
    /// succeeds. `policies`: whether those who follow are to look at policies again.
    fn change<R>(
        &self,
        policies: bool,
        make: impl FnOnce(&Transaction<'_>) -> Result<R, Refused>,
    ) -> Result<R, ChangeError>;

    /// As [`Store::news`].
    fn follow(&self) -> Option<Box<dyn News>>;
}

/// What a database lends: a connection in a transaction, or one that only reads.
pub(super) struct Transaction<'a>(pub(super) &'a dyn Statements);

/// How a database runs a statement.
pub(super) trait Statements {
    /// How many rows it changed.
    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, DatabaseError>;
    /// Several without parameters or answers.
    fn batch(&self, sql: &str) -> Result<(), DatabaseError>;
    /// All rows that it answers.
    fn rows(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, DatabaseError>;
}

impl Transaction<'_> {
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Result<u64, DatabaseError> {
        self.0.execute(sql, params.values())
    }

    /// Statements without parameters or answers.
    pub(super) fn execute_batch(&self, sql: &str) -> Result<(), DatabaseError> {
        self.0.batch(sql)
    }

    /// The first row; [`DatabaseError::NoRow`] where there is none.
    pub(super) fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let rows = self.0.rows(sql, params.values())?;
        read(rows.first().ok_or(DatabaseError::NoRow)?)
    }

    pub(super) fn query_all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: fn(&Row) -> Result<T, DatabaseError>,
    ) -> Result<Vec<T>, DatabaseError> {
        self.0
            .rows(sql, params.values())?
            .iter()
            .map(read)
            .collect()
    }
}

/// The database did not do it.
#[derive(Debug, Error)]
pub(super) enum DatabaseError {
    /// A row was asked for that is not there.
    #[error("there is no such row")]
    NoRow,
    /// A row holds something that gig did not write there.
    #[error("column {column} of a row cannot be read: {why}")]
    Unreadable {
        /// Counted from 0.
        column: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The connection to it is gone.
    #[error("the connection was lost")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It says so.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// Why a transaction is not committed.
pub(super) enum Refused {
    /// A condition.
    Change(ChangeError),
    /// The database.
    Database(DatabaseError),
}

impl From<DatabaseError> for Refused {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

impl<T: Tables> Store for T {
    fn apply(
        &self,
        change: &Change,
        actor: &Actor,
        witness: Witness<'_>,
    ) -> Result<Applied, ChangeError> {
        self.change(change.touches_policies(), |db| {
            once::hold(db, actor)?;
            let applied = proposals::apply(db, change, actor)?;
            let told = witness(change.entry(actor, &applied));
            told.map_err(|why| Refused::Change(ChangeError::NotRecorded(why)))?;
            Ok(applied)
        })
    }

    fn users(&self) -> Result<Vec<User>, StoreError> {
        self.read(|db| db.query_all(rows::USERS, (), rows::user))
    }

    fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        let name = name::folded(name);
        self.read(|db| db.query_row(rows::ONE_USER, [&name], rows::user).optional())
    }

    fn user_of(&self, account: &Account) -> Result<Option<User>, StoreError> {
        let (issuer, subject) = (&account.issuer, &account.subject);
        self.read(|db| {
            db.query_row(rows::USER_OF, [issuer, subject], rows::user)
                .optional()
        })
    }

    fn second_factor(&self, user: &str) -> Result<Option<SecondFactor>, StoreError> {
        let user = name::folded(user);
        let sql = factors::ONE_FACTOR;
        self.read(|db| db.query_row(sql, [&user], factors::factor).optional())
    }

    fn factor_rule(&self) -> Result<Vec<Role>, StoreError> {
        self.read(factors::rule)
    }

    fn device_key(&self, fresh: &[u8; 32]) -> Result<[u8; 32], StoreError> {
        if let Some(kept) = self.read(sessions::device_key)? {
            return Ok(kept);
        }
        let made = self.change(false, |db| sessions::make_device_key(db, fresh));
        made.map_err(once::failed)
    }

    fn begin_once(&self, asked: &Asked, now: Timestamp) -> Result<Begun, StoreError> {
        let begun = self.change(false, |db| once::begin(db, asked, now));
        begun.map_err(once::failed)
    }

    fn finish_once(&self, of: &Once, finish: &Finish) -> Result<(), StoreError> {
        let finished = self.change(false, |db| once::finish(db, of, finish));
        finished.map_err(once::failed)
    }

    fn take_try(&self, counters: &[Counter], now: Timestamp) -> Result<Option<u64>, StoreError> {
        self.read(|db| tries::take(db, counters, now))
    }

    fn give_try_back(&self, counters: &[Counter]) -> Result<(), StoreError> {
        self.read(|db| tries::give_back(db, counters))
    }

    fn sessions(&self, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        self.read(|db| db.query_all(rows::SESSIONS, rows::alive(now), rows::session))
    }

    fn sessions_of(&self, user: &str, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        let (user, (now, idle)) = (name::folded(user), rows::alive(now));
        self.read(|db| db.query_all(rows::SESSIONS_OF, (now, idle, &user), rows::session))
    }

    fn session(&self, id: &str, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let (now, idle) = rows::alive(now);
        self.read(|db| {
            db.query_row(rows::ONE_SESSION, (now, idle, id), rows::session)
                .optional()
        })
    }

    fn lapsed_session(
        &self,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<(Digest, String)>, StoreError> {
        self.read(|db| sessions::lapsed(db, id, now))
    }

    fn touch_session(&self, id: &str, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET seen = ?2 WHERE id = ?1";
        self.read(|db| db.execute(sql, (id, now.as_second())).map(drop))
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(|db| db.query_all(rows::TOKENS, (), rows::token))
    }

    fn token(&self, id: &str, now: Timestamp) -> Result<Option<Token>, StoreError> {
        self.read(|db| {
            db.query_row(rows::ONE_TOKEN, (id, now.as_second()), rows::token)
                .optional()
        })
    }

    fn try_out(&self, now: Timestamp) -> Result<(), StoreError> {
        self.hastily(now)
    }

    fn touch_token(&self, id: &str, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET used = ?2 WHERE id = ?1";
        self.read(|db| db.execute(sql, (id, now.as_second())).map(drop))
    }

    fn policies(&self) -> Result<Vec<PolicyHead>, StoreError> {
        self.read(|db| db.query_all(rows::POLICIES, (), rows::head))
    }

    fn policy(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<PolicyVersion>, StoreError> {
        self.read(|db| {
            db.query_row(rows::ONE_POLICY, (name, version), rows::version)
                .optional()
        })
    }

    fn versions(
        &self,
        name: &str,
        before: Option<u64>,
        most: u32,
    ) -> Result<Vec<PolicyHead>, StoreError> {
        let before = before.unwrap_or(u64::MAX);
        self.read(|db| db.query_all(rows::VERSIONS, (name, before, most), rows::head))
    }

    fn assignments(&self) -> Result<Vec<Assignment>, StoreError> {
        self.read(|db| db.query_all(rows::ASSIGNMENTS, (), rows::assignment))
    }

    fn floors(&self) -> Result<Vec<Assignment>, StoreError> {
        self.read(|db| db.query_all(rows::FLOORS, (), rows::assignment))
    }

    fn placed(&self) -> Result<Placed, StoreError> {
        self.snapshot(|db| {
            Ok(Placed {
                servers: db.query_all(rows::SERVERS, (), rows::server)?,
                assignments: db.query_all(rows::ASSIGNMENTS, (), rows::assignment)?,
                floors: db.query_all(rows::FLOORS, (), rows::assignment)?,
                teams: teams::all(db)?,
            })
        })
    }

    fn teams(&self) -> Result<Vec<Team>, StoreError> {
        self.read(teams::all)
    }

    fn held(&self, now: Timestamp) -> Result<Vec<HeldRow>, StoreError> {
        self.read(|db| held::waiting(db, now))
    }

    fn put_held(&self, held: &[HeldRow]) -> Result<(), StoreError> {
        self.read(|db| held::put(db, held))
    }

    fn end_held(&self, ids: &[String]) -> Result<(), StoreError> {
        self.read(|db| held::end(db, ids))
    }

    fn words_for(&self, node: &str) -> Result<Vec<HeldWord>, StoreError> {
        self.read(|db| held::words(db, node))
    }

    fn take_back_word(&self, id: &str) -> Result<HeldFate, StoreError> {
        // Asked twice, it would find its own word gone, and say that it was heard.
        let taken = self.change(false, |db| Ok(held::take_back(db, id)?));
        taken.map_err(once::failed)
    }

    fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        self.read(webhooks::all)
    }

    fn told_denials(&self, now: Timestamp) -> Result<Vec<ToldRow>, StoreError> {
        self.read(|db| told::denials(db, now))
    }

    fn begin_telling(
        &self,
        telling: &Telling,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let begun = self.change(false, |db| told::begin(db, telling, now));
        begun.map_err(once::failed)
    }

    fn end_telling(
        &self,
        telling: &Telling,
        state: ToldState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.read(|db| told::end(db, telling, (state, now)))
    }

    fn begin_answer(
        &self,
        webhook: &str,
        about: &str,
        now: Timestamp,
    ) -> Result<Answerable, StoreError> {
        let begun = self.change(false, |db| told::begin_answer(db, (webhook, about), now));
        begun.map_err(once::failed)
    }

    fn end_answer(
        &self,
        webhook: &str,
        about: &str,
        decided: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.read(|db| told::end_answer(db, (webhook, about), decided))
    }

    fn hear(
        &self,
        webhook: &str,
        digest: &Digest,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Hearing, StoreError> {
        let heard = self.change(false, |db| heard::note(db, (webhook, digest), (until, now)));
        heard.map_err(once::failed)
    }

    fn servers(&self) -> Result<Vec<Server>, StoreError> {
        self.read(|db| db.query_all(rows::SERVERS, (), rows::server))
    }

    fn server(&self, name: &str) -> Result<Option<Server>, StoreError> {
        self.read(|db| {
            db.query_row(rows::ONE_SERVER, [name], rows::server)
                .optional()
        })
    }

    fn searches(&self) -> Result<Vec<SavedSearch>, StoreError> {
        self.read(|db| db.query_all(rows::SEARCHES, (), rows::search))
    }

    fn stops(&self) -> Result<Vec<String>, StoreError> {
        self.read(stops::asked)
    }

    fn ask_to_stop(&self, sandbox: SandboxId, now: Timestamp) -> Result<(), StoreError> {
        // As a change of policies: those who follow are to look.
        let asked = self.change(true, |db| stops::ask(db, sandbox, now.as_second()));
        asked.map_err(once::failed)
    }

    fn draft(
        &self,
        whose: (&str, &str),
        act: &DraftAct,
        now: Timestamp,
    ) -> Result<Option<Unsaved>, StoreError> {
        if matches!(act, DraftAct::Show) {
            return self.read(|db| drafts::kept(db, whose, now));
        }
        let done = self.change(false, |db| drafts::act(db, whose, act, now));
        done.map_err(once::failed)
    }

    fn two_person_rule(&self) -> Result<bool, StoreError> {
        self.read(proposals::rule_is_on)
    }

    fn proposals(
        &self,
        pending: bool,
        before: Option<u64>,
        most: u32,
    ) -> Result<Vec<Proposal>, StoreError> {
        let before = before.unwrap_or(u64::MAX);
        self.read(|db| proposals::some(db, pending, before, most))
    }

    fn proposal(&self, id: u64) -> Result<Option<Proposal>, StoreError> {
        self.read(|db| proposals::one(db, id))
    }

    fn own_proposal(
        &self,
        actor: &Actor,
        policy: &str,
        server: Option<&str>,
    ) -> Result<Option<Proposal>, StoreError> {
        self.read(|db| proposals::own(db, actor, (policy, server)))
    }

    fn news(&self) -> Option<Box<dyn News>> {
        self.follow()
    }
}
