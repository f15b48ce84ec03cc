//! What a host may have been given, by whatever rule: it may come back in the answer to any request.

use super::{Policy, SecretGrants};
use crate::{
    host::{Host, Port},
    index::SharedUnion,
    verdict::Handling,
};

impl Policy {
    /// What some request to this host and port may carry, whatever this one may.
    pub(super) fn bound(&self, host: &Host, port: Port) -> SecretGrants {
        let mut bound = SharedUnion::default();
        for table in self.tables(host, port, Handling::Inspect) {
            bound.add(&table.secrets);
        }
        let bindings = self.own.bindings.iter();
        for binding in bindings.filter(|binding| binding.speaks_of(host, port)) {
            bound.add_one(&binding.grant);
        }
        bound.into_shared(&self.own.no_secrets)
    }
}
