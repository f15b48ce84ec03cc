//! What the appliance keeps beside its record and its secrets: people, sessions, tokens, teams, policies
//! with their versions, servers.
//!
//! Everything that changes goes through [`Store::apply`] as one [`Change`], in one transaction, told to
//! a witness before it takes effect: what cannot be recorded does not happen. The rest only reads. The
//! trait is synchronous, because callers run it beside the runtime. Two databases keep it, an SQLite file
//! of one appliance or a PostgreSQL that several share: the same statements (`tables`, `changes`, `rows`)
//! and the same tests.

use gig_audit::Entry;
use gig_policy::SandboxId;
use jiff::Timestamp;

use crate::{credential::Digest, role::Role};

mod alone;
mod change;
mod change_error;
mod changes;
mod claims;
mod drafts;
mod factors;
#[cfg(test)]
pub(crate) mod fake;
mod fleet;
mod heard;
pub(crate) mod held;
mod kept;
mod name;
pub(crate) mod nodes;
mod once;
mod place;
mod postgres;
mod proposal;
mod proposals;
mod questions;
mod rows;
mod sessions;
mod setup;
mod sign_on;
mod source;
mod sqlite;
mod standing;
mod stops;
mod store_error;
mod tables;
mod teams;
#[cfg(test)]
pub(crate) mod tests;
mod told;
pub mod transfer;
mod trial;
mod tries;
mod vouched;
pub(crate) mod webhooks;
mod written;

pub use change::{Actor, Applied, Change};
pub use change_error::ChangeError;
pub use claims::{Claim, Claimed};
pub use drafts::{DraftAct, Unsaved};
pub use factors::UsedCode;
pub use fleet::Fleet;
pub use heard::Hearing;
pub use held::{HeldFacts, HeldFate, HeldRow, HeldWord, shortened};
pub use kept::{
    Account, Assignment, Network, Placed, PolicyHead, PolicyVersion, SavedSearch, SecondFactor,
    Server, ServerKind, ServerSpec, Session, Token, User,
};
pub(crate) use name::folded;
pub use name::{Name, ParseNameError};
pub use nodes::{Beaten, Lost, Mourner, NodeRow, NodeRun, RunningFacts, RunningNews, RunningRow};
pub use once::{Asked, Begun, Finish, KeptAnswer, Once};
pub use place::Place;
pub use postgres::PostgresStore;
pub use proposal::{Decided, Decision, Draft, Proposal, ProposalKind, ProposalState};
pub use questions::Question;
pub(crate) use questions::WAITED_FOR;
pub use source::{ServerSource, SourceKind};
pub use sqlite::{OpenStoreError, SqliteStore};
pub use standing::Standing;
pub use store_error::StoreError;
pub use teams::{Team, members};
pub use told::{Answerable, Telling, ToldRow, ToldState};
pub use tries::Counter;
pub(crate) use tries::WINDOW as TRIES_WINDOW;
pub use vouched::Vouched;
pub use webhooks::{Webhook, WebhookKind};

/// Is told of a change before it takes effect, and may refuse it.
pub type Witness<'a> = &'a dyn Fn(Entry) -> Result<(), String>;

/// Where people, policies and servers are kept.
pub trait Store: Fleet {
    /// Makes a change whole or not at all, after `witness` has taken it down.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing was changed.
    fn apply(
        &self,
        change: &Change,
        actor: &Actor,
        witness: Witness<'_>,
    ) -> Result<Applied, ChangeError>;

    /// Writes something that means nothing, to see whether anything can be written.
    ///
    /// # Errors
    /// [`StoreError`].
    fn try_out(&self, now: Timestamp) -> Result<(), StoreError>;

    /// Everybody, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    fn users(&self) -> Result<Vec<User>, StoreError>;

    /// One user.
    ///
    /// # Errors
    /// [`StoreError`].
    fn user(&self, name: &str) -> Result<Option<User>, StoreError>;

    /// Whom a sign-on provider calls so.
    ///
    /// # Errors
    /// [`StoreError`].
    fn user_of(&self, account: &Account) -> Result<Option<User>, StoreError>;

    /// The second factor of a user, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    fn second_factor(&self, user: &str) -> Result<Option<SecondFactor>, StoreError>;

    /// Whose role asks for a second factor.
    ///
    /// # Errors
    /// [`StoreError`].
    fn factor_rule(&self) -> Result<Vec<Role>, StoreError>;

    /// What signs that a browser was here before; `fresh` where there is nothing yet.
    ///
    /// # Errors
    /// [`StoreError`].
    fn device_key(&self, fresh: &[u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Takes a request down that is to be made once, or says what became of it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn begin_once(&self, asked: &Asked, now: Timestamp) -> Result<Begun, StoreError>;

    /// Takes down what was answered to it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn finish_once(&self, once: &Once, finish: &Finish) -> Result<(), StoreError>;

    /// Takes a try to sign in, of all nodes, or says how many seconds are to be waited.
    ///
    /// # Errors
    /// [`StoreError`]; it may have been counted.
    fn take_try(&self, counters: &[Counter], now: Timestamp) -> Result<Option<u64>, StoreError>;

    /// Takes it back: it succeeded.
    ///
    /// # Errors
    /// [`StoreError`]; it may stay counted.
    fn give_try_back(&self, counters: &[Counter]) -> Result<(), StoreError>;

    /// Sessions that have not ended at `now`, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn sessions(&self, now: Timestamp) -> Result<Vec<Session>, StoreError>;

    /// Those of one user, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn sessions_of(&self, user: &str, now: Timestamp) -> Result<Vec<Session>, StoreError>;

    /// One session that has not ended.
    ///
    /// # Errors
    /// [`StoreError`].
    fn session(&self, id: &str, now: Timestamp) -> Result<Option<Session>, StoreError>;

    /// Whose a session was that ended by itself within a day, and its digest.
    ///
    /// # Errors
    /// [`StoreError`].
    fn lapsed_session(
        &self,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<(Digest, String)>, StoreError>;

    /// Notes that a session was used, which keeps it from ending idle.
    ///
    /// # Errors
    /// [`StoreError`].
    fn touch_session(&self, id: &str, now: Timestamp) -> Result<(), StoreError>;

    /// All tokens, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// One token that has not expired.
    ///
    /// # Errors
    /// [`StoreError`].
    fn token(&self, id: &str, now: Timestamp) -> Result<Option<Token>, StoreError>;

    /// Notes that a token was used.
    ///
    /// # Errors
    /// [`StoreError`].
    fn touch_token(&self, id: &str, now: Timestamp) -> Result<(), StoreError>;

    /// The newest version of each policy, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    fn policies(&self) -> Result<Vec<PolicyHead>, StoreError>;

    /// One version of a policy; the newest for `None`.
    ///
    /// # Errors
    /// [`StoreError`].
    fn policy(&self, name: &str, version: Option<u64>)
    -> Result<Option<PolicyVersion>, StoreError>;

    /// A policy's versions, newest first, at most `most` older than `before`.
    ///
    /// # Errors
    /// [`StoreError`].
    fn versions(
        &self,
        name: &str,
        before: Option<u64>,
        most: u32,
    ) -> Result<Vec<PolicyHead>, StoreError>;

    /// Which policy is in force where.
    ///
    /// # Errors
    /// [`StoreError`].
    fn assignments(&self) -> Result<Vec<Assignment>, StoreError>;

    /// Which policies bound others, and where.
    ///
    /// # Errors
    /// [`StoreError`].
    fn floors(&self) -> Result<Vec<Assignment>, StoreError>;

    /// Who is of which team, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    fn teams(&self) -> Result<Vec<Team>, StoreError>;

    /// Who is registered, and what is in force for whom, at one moment.
    ///
    /// # Errors
    /// [`StoreError`].
    fn placed(&self) -> Result<Placed, StoreError>;

    /// Requests that wait for a person at `now` and of which nobody has decided, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn held(&self, now: Timestamp) -> Result<Vec<HeldRow>, StoreError>;

    /// Notes that requests wait in a node's proxy, and forgets those whose time is long over.
    ///
    /// # Errors
    /// [`StoreError`].
    fn put_held(&self, held: &[HeldRow]) -> Result<(), StoreError>;

    /// Notes that they wait no longer.
    ///
    /// # Errors
    /// [`StoreError`].
    fn end_held(&self, ids: &[String]) -> Result<(), StoreError>;

    /// What people said of those that wait in this node's proxy.
    ///
    /// # Errors
    /// [`StoreError`].
    fn words_for(&self, node: &str) -> Result<Vec<HeldWord>, StoreError>;

    /// What became of a word; one that nobody will hear is taken back.
    ///
    /// # Errors
    /// [`StoreError`].
    fn take_back_word(&self, id: &str) -> Result<HeldFate, StoreError>;

    /// Where people are told what waits, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    fn webhooks(&self) -> Result<Vec<Webhook>, StoreError>;

    /// Which denials webhooks were told of in the two days before `now`, the newest of each destination last.
    ///
    /// # Errors
    /// [`StoreError`].
    fn told_denials(&self, now: Timestamp) -> Result<Vec<ToldRow>, StoreError>;

    /// Takes what a webhook is to be told; `None` where it was told before, or another node tells it; else what it was
    /// told by first, where it may have taken that: it is the same message.
    ///
    /// # Errors
    /// [`StoreError`].
    fn begin_telling(
        &self,
        telling: &Telling,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError>;

    /// Says how that ended.
    ///
    /// # Errors
    /// [`StoreError`].
    fn end_telling(
        &self,
        telling: &Telling,
        state: ToldState,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Takes what a webhook may answer, for one answer: the id of what waits, or `record:` and that of a denial.
    ///
    /// # Errors
    /// [`StoreError`]; it may have been taken.
    fn begin_answer(
        &self,
        webhook: &str,
        about: &str,
        now: Timestamp,
    ) -> Result<Answerable, StoreError>;

    /// Says how that ended: when it was decided on, or `None`, and it may be answered again.
    ///
    /// # Errors
    /// [`StoreError`]; it may stay taken.
    fn end_answer(
        &self,
        webhook: &str,
        about: &str,
        decided: Option<Timestamp>,
    ) -> Result<(), StoreError>;

    /// Notes that a signed answer of a webhook was heard, which holds `until` then: by one node, once.
    ///
    /// # Errors
    /// [`StoreError`]; it may have been noted.
    fn hear(
        &self,
        webhook: &str,
        digest: &Digest,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Hearing, StoreError>;

    /// The registered servers, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    fn servers(&self) -> Result<Vec<Server>, StoreError>;

    /// One server.
    ///
    /// # Errors
    /// [`StoreError`].
    fn server(&self, name: &str) -> Result<Option<Server>, StoreError>;

    /// The searches that are kept, by title.
    ///
    /// # Errors
    /// [`StoreError`].
    fn searches(&self) -> Result<Vec<SavedSearch>, StoreError>;

    /// Ids of sandboxes that somebody asked to end lately at a node that does not have them.
    ///
    /// # Errors
    /// [`StoreError`].
    fn stops(&self) -> Result<Vec<String>, StoreError>;

    /// Asks the node that has a sandbox to end it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn ask_to_stop(&self, sandbox: SandboxId, now: Timestamp) -> Result<(), StoreError>;

    /// Keeps, shows or forgets what a person typed into a policy without saving it; answers what is kept then.
    ///
    /// # Errors
    /// [`StoreError`].
    fn draft(
        &self,
        whose: (&str, &str),
        act: &DraftAct,
        now: Timestamp,
    ) -> Result<Option<Unsaved>, StoreError>;

    /// Whether policies are changed by two people.
    ///
    /// # Errors
    /// [`StoreError`].
    fn two_person_rule(&self) -> Result<bool, StoreError>;

    /// Proposals without their documents, newest first, at most `most` older than `before`: those that
    /// wait, or those that were decided.
    ///
    /// # Errors
    /// [`StoreError`].
    fn proposals(
        &self,
        pending: bool,
        before: Option<u64>,
        most: u32,
    ) -> Result<Vec<Proposal>, StoreError>;

    /// One proposal, whole.
    ///
    /// # Errors
    /// [`StoreError`].
    fn proposal(&self, id: u64) -> Result<Option<Proposal>, StoreError>;

    /// What somebody proposed for a policy that waits and could be approved still: what they propose next takes its place.
    /// With a server: for it, too.
    ///
    /// # Errors
    /// [`StoreError`].
    fn own_proposal(
        &self,
        actor: &Actor,
        policy: &str,
        server: Option<&str>,
    ) -> Result<Option<Proposal>, StoreError>;

    /// What tells of changes to policies that others make; `None` where nobody else makes any.
    fn news(&self) -> Option<Box<dyn News>>;
}

/// Tells of changes to policies, whoever makes them.
pub trait News: Send {
    /// Waits for a change, but not longer than a quarter of a second, and answers how many there were
    /// ever: where that differs from the answer before, policies are to be looked at again. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] when nobody can tell: what is in force may be out of date. After that policies are to
    /// be looked at again whatever the count: another server may have taken over.
    fn next(&mut self) -> Result<u64, StoreError>;
}
