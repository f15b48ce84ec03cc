//! What nodes on one database tell and ask each other: who lives, what runs where, who starts what, and what one
//! asks of another.

use super::{
    Beaten, ChangeError, Claim, Claimed, Mourner, NodeRow, NodeRun, Question, RunningNews,
    RunningRow, StoreError, claims, nodes, once, questions, tables::Tables,
};

/// A store as nodes see it.
pub trait Fleet: Send + Sync + 'static {
    /// A node begins to serve: who had its name before is no more.
    ///
    /// # Errors
    /// [`StoreError`].
    fn begin_node(&self, node: &NodeRun, version: &str) -> Result<(), StoreError>;

    /// A node lives, and this is new of what runs there: noted where it is known as living.
    ///
    /// # Errors
    /// [`StoreError`]; it may have been noted, in part.
    fn beat(&self, node: &NodeRun, news: &RunningNews) -> Result<Beaten, StoreError>;

    /// A node serves no more, and nothing runs there.
    ///
    /// # Errors
    /// [`StoreError`].
    fn end_node(&self, node: &NodeRun) -> Result<(), StoreError>;

    /// Takes nodes for dead that have not said for a minute that they live, and forgets what ran there, once `tell` was
    /// told of each. Only orphans of nodes that began anew where `judge` was silent itself.
    ///
    /// # Errors
    /// As `Store::apply`; nothing was changed.
    fn bury(&self, judge: &NodeRun, tell: Mourner<'_>) -> Result<(), ChangeError>;

    /// Claims the sandbox of a server and a profile for a node, unless another node has it.
    ///
    /// # Errors
    /// [`StoreError`]; it may have been claimed.
    fn claim(&self, node: &str, claim: &Claim) -> Result<Claimed, StoreError>;

    /// What was claimed did not start, or is over.
    ///
    /// # Errors
    /// [`StoreError`].
    fn release(&self, sandbox: &str) -> Result<(), StoreError>;

    /// All nodes that serve from this database, and those that were taken for dead lately, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    fn nodes(&self) -> Result<Vec<NodeRow>, StoreError>;

    /// What runs on nodes that live, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn running(&self) -> Result<Vec<RunningRow>, StoreError>;

    /// One sandbox of those.
    ///
    /// # Errors
    /// [`StoreError`].
    fn running_one(&self, sandbox: &str) -> Result<Option<RunningRow>, StoreError>;

    /// Asks a node something, which it reads within a quarter of a second, if it lives.
    ///
    /// # Errors
    /// [`StoreError`]; it may have been asked.
    fn put_question(&self, node: &str, question: &Question) -> Result<(), StoreError>;

    /// What others asked of a node lately and it has not answered, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn questions_for(&self, node: &str) -> Result<Vec<Question>, StoreError>;

    /// Answers one of them.
    ///
    /// # Errors
    /// [`StoreError`]; it may have been answered.
    fn answer_question(&self, id: &str, answer: &str) -> Result<(), StoreError>;

    /// What was answered, once it is.
    ///
    /// # Errors
    /// [`StoreError`].
    fn reply(&self, id: &str) -> Result<Option<String>, StoreError>;

    /// Forgets a question and its answer: nobody waits for it any more.
    ///
    /// # Errors
    /// [`StoreError`]; it is forgotten within a minute.
    fn forget_question(&self, id: &str) -> Result<(), StoreError>;
}

impl<T: Tables> Fleet for T {
    fn begin_node(&self, node: &NodeRun, version: &str) -> Result<(), StoreError> {
        self.read(|db| nodes::begin(db, node, version))
    }

    fn beat(&self, node: &NodeRun, news: &RunningNews) -> Result<Beaten, StoreError> {
        self.read(|db| {
            questions::sweep(db)?;
            nodes::beat(db, node, news)
        })
    }

    fn end_node(&self, node: &NodeRun) -> Result<(), StoreError> {
        self.read(|db| nodes::end(db, node))
    }

    fn bury(&self, judge: &NodeRun, tell: Mourner<'_>) -> Result<(), ChangeError> {
        let lost = self.read(|db| nodes::are_any_lost(db, judge));
        if !lost.map_err(ChangeError::Store)? {
            return Ok(());
        }
        self.change(false, |db| nodes::bury(db, judge, tell))
    }

    fn claim(&self, node: &str, claim: &Claim) -> Result<Claimed, StoreError> {
        // Whoever waits for another's looks often: that holds no change up.
        if let Some(theirs) = self.read(|db| claims::others(db, node, claim))? {
            return Ok(theirs);
        }
        let claimed = self.change(false, |db| claims::claim(db, node, claim));
        claimed.map_err(once::failed)
    }

    fn release(&self, sandbox: &str) -> Result<(), StoreError> {
        self.read(|db| claims::release(db, sandbox))
    }

    fn nodes(&self) -> Result<Vec<NodeRow>, StoreError> {
        self.read(nodes::all)
    }

    fn running(&self) -> Result<Vec<RunningRow>, StoreError> {
        self.read(nodes::running)
    }

    fn running_one(&self, sandbox: &str) -> Result<Option<RunningRow>, StoreError> {
        self.read(|db| nodes::one(db, sandbox))
    }

    fn put_question(&self, node: &str, question: &Question) -> Result<(), StoreError> {
        self.read(|db| questions::put(db, node, question))
    }

    fn questions_for(&self, node: &str) -> Result<Vec<Question>, StoreError> {
        self.read(|db| questions::of(db, node))
    }

    fn answer_question(&self, id: &str, answer: &str) -> Result<(), StoreError> {
        self.read(|db| questions::answer(db, id, answer))
    }

    fn reply(&self, id: &str) -> Result<Option<String>, StoreError> {
        self.read(|db| questions::reply(db, id))
    }

    fn forget_question(&self, id: &str) -> Result<(), StoreError> {
        self.read(|db| questions::forget(db, id))
    }
}
