//! A caller as who makes a change.

use std::sync::Arc;

use super::Caller;
use crate::{
    app::App,
    store::{Actor, Once},
};

impl Caller {
    /// The same where they answer what a program asked for, by its id in the record.
    pub(crate) fn answering(mut self, request: Option<&str>) -> Self {
        self.request = request.map(Into::into);
        self
    }

    /// The same in a request that is made once.
    pub(crate) fn with(mut self, once: Once) -> Self {
        self.once = Some(Arc::new(once));
        self
    }

    /// For a change.
    pub(crate) fn actor(&self, app: &App) -> Actor {
        Actor {
            request: self.request.clone(),
            name: Arc::clone(&self.name),
            person: self.person.clone(),
            owner: self.owner,
            standing: self.standing.clone(),
            once: self.once.clone(),
            address: self.address,
            at: app.now(),
        }
    }
}
