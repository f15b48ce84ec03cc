//! The closed list of what people do to gig, which records of `auth`, `admin`, `policy.change` and `secret.change`
//! name beside their words: what reads the record need not read prose.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! deeds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// What somebody did. The words are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Deed {
            $($(#[$doc])* #[serde(rename = $word)] $name,)+
        }

        impl Deed {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The stable word, as in the record.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }
        }
    };
}

deeds! {
    /// A set-up link was made.
    SetupLink = "setup.link",
    /// The first admin was made by it.
    SetupDone = "setup.done",
    /// Somebody signed in with a password.
    SignIn = "sign_in",
    /// Somebody signed in through their provider.
    SignOn = "sign_on",
    /// Somebody was not let in.
    SignInRefused = "sign_in.refused",
    /// A session was ended.
    SessionEnd = "session.end",
    /// Somebody known, or what they presented, was refused something.
    Refused = "refused",
    /// An account was made.
    UserAdd = "user.add",
    /// An account was removed.
    UserRemove = "user.remove",
    /// An account has another role.
    UserRole = "user.role",
    /// Somebody changed their own password.
    PasswordChange = "password.change",
    /// Somebody set another's.
    PasswordReset = "password.reset",
    /// A second factor was set up.
    FactorSet = "factor.set",
    /// A second factor was taken away.
    FactorRemove = "factor.remove",
    /// Other roles need a second factor.
    FactorRule = "factor.rule",
    /// A token was made.
    TokenAdd = "token.add",
    /// A token was removed.
    TokenRemove = "token.remove",
    /// A policy's first version was saved.
    PolicyAdd = "policy.add",
    /// A further version of a policy was saved.
    PolicySave = "policy.save",
    /// A policy was removed.
    PolicyRemove = "policy.remove",
    /// A policy was put in force.
    PolicyAssign = "policy.assign",
    /// A policy was taken out of force.
    PolicyUnassign = "policy.unassign",
    /// A floor was set.
    FloorSet = "floor.set",
    /// A floor was taken away.
    FloorRemove = "floor.remove",
    /// A team was made.
    TeamAdd = "team.add",
    /// A team has other members.
    TeamSave = "team.save",
    /// A team was removed.
    TeamRemove = "team.remove",
    /// A webhook was set.
    WebhookSave = "webhook.save",
    /// A webhook was removed.
    WebhookRemove = "webhook.remove",
    /// A webhook was not told.
    WebhookFail = "webhook.fail",
    /// A request that waited was let go.
    HeldAllow = "held.allow",
    /// A request that waited was denied.
    HeldDeny = "held.deny",
    /// A server was registered.
    ServerAdd = "server.add",
    /// A server was changed.
    ServerSave = "server.save",
    /// A server is registered no more.
    ServerRemove = "server.remove",
    /// Somebody attached to, stopped or registered a sandbox of a server.
    ServerUse = "server.use",
    /// A search was kept.
    SearchAdd = "search.add",
    /// A search is kept no more.
    SearchRemove = "search.remove",
    /// Changes of policies take two people.
    TwoPersonOn = "two_person.on",
    /// Changes of policies take one person.
    TwoPersonOff = "two_person.off",
    /// A change waits for a second person.
    ProposalAdd = "proposal.add",
    /// Somebody decided on one.
    ProposalDecide = "proposal.decide",
    /// A secret was set.
    SecretSet = "secret.set",
    /// A secret has another value.
    SecretRotate = "secret.rotate",
    /// A secret, or a version of it, ended.
    SecretRemove = "secret.remove",
    /// The vault as a whole was changed, or a change was not made after it was told.
    SecretVault = "secret.vault",
    /// The record was exported.
    RecordExport = "record.export",
    /// Old records were removed, or could not be.
    RecordPrune = "record.prune",
    /// An appliance began to serve.
    ServeStart = "serve.start",
    /// A node was taken for dead by another.
    NodeLost = "node.lost",
    /// What ran there is no more, as far as anybody knows.
    SandboxLost = "sandbox.lost",
    /// A backup was made.
    BackupMake = "backup.make",
    /// A backup was put in force.
    BackupRestore = "backup.restore",
}

impl Deed {
    /// The deed of a word; `None` for a later gig's.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|deed| deed.as_str() == word)
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
