//! What a host may have been given, by whatever rule: it may come back in the answer to any request. And what is
//! captured of what comes, by whatever door.

use std::sync::Arc;

use super::{Policy, SecretGrants};
use crate::{
    host::{Host, Port},
    index::SharedUnion,
    intent::RequestIntent,
    secret_grant::SecretGrant,
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

    /// The secrets whose values, which the program was handed, may go to this host and port in octets that are not
    /// looked into; none where they are, or are by the rule that decides.
    #[must_use]
    pub fn entrusted_unopened(
        &self,
        host: &Host,
        port: Port,
        handling: Handling,
    ) -> Arc<[SecretGrant]> {
        let mut entrusted = SharedUnion::default();
        let decides = self.first_table(host, port, None);
        if handling != Handling::Inspect && decides.is_ok_and(|one| one.handling == handling) {
            for table in self.tables(host, port, handling) {
                entrusted.add(&table.secrets);
            }
        }
        entrusted.into_shared(&self.own.no_secrets)
    }

    /// What captures the answer to such a request, whether or not a rule lets it go.
    pub(super) fn capturing<'a>(
        &'a self,
        host: &'a Host,
        port: Port,
        request: &RequestIntent<'_>,
    ) -> SharedUnion<'a, SecretGrant> {
        let mut capturing = SharedUnion::default();
        for table in self.tables(host, port, Handling::Inspect) {
            table.capture(request.path, &mut capturing);
        }
        let bindings = self.own.bindings.iter();
        for binding in
            bindings.filter(|b| b.captures() && b.covers(host, port, false, request.path))
        {
            capturing.add_one(&binding.grant);
        }
        capturing
    }
}
