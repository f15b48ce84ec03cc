//! Who lets a secret go where it did not go before: whoever manages secrets, or two people.
//!
//! A version that names a secret at a target sends its value there, to whoever runs that host. Who writes policies
//! changes what else is allowed, also beside a secret; where the secret goes is as it was in some policy. Promises that
//! a version which cannot be compared is not written.

use std::collections::BTreeSet;

use gig_policy::{SecretName, SecretUse};

use crate::{
    api_error::Problem, app::App, auth::Caller, document, role::Permission, store::StoreError,
};

/// Where a secret goes: which, to which target and port, and how.
type Binding = (String, String, String, bool, bool);

/// Refuses a version by which a secret goes where no policy lets it go, from who manages none; where policies are
/// changed by two people, the second one sees it.
pub(super) async fn guard(app: &App, caller: &Caller, document: &str) -> Result<(), Problem> {
    if caller.may(Permission::ManageSecrets) || app.ask(|store| store.two_person_rule()).await? {
        return Ok(());
    }
    let (store, text) = (std::sync::Arc::clone(&app.store), document.to_owned());
    let fresh = app.aside(move || {
        let mut fresh = bindings(&text);
        if fresh.is_empty() {
            return Ok(fresh);
        }
        // One after the other: a document may be long.
        for head in store.policies()? {
            let Some(kept) = store.policy(&head.name, None)? else {
                continue;
            };
            for known in bindings(&kept.document) {
                fresh.remove(&known);
            }
            if fresh.is_empty() {
                break;
            }
        }
        Ok::<_, StoreError>(fresh)
    });
    let fresh = fresh.await?.map_err(Problem::store)?;
    match fresh.first() {
        None => Ok(()),
        Some((secret, target, port, ..)) => Err(Problem::forbidden(format!(
            "this lets secret {secret} go to {target}:{port}, where no policy lets it go: somebody who manages secrets \
             (an admin) writes that; or turn the two-person rule on, and propose it"
        ))),
    }
}

/// All that a document has. What cannot be compiled lets nothing go anywhere.
fn bindings(document: &str) -> BTreeSet<Binding> {
    let Ok(policy) = document::compile("policy", 0, document, None) else {
        return BTreeSet::new();
    };
    let mut all = BTreeSet::new();
    for name in policy.secret_names() {
        for one in policy.uses_of(&name) {
            all.extend(of_use(&name, &one));
        }
    }
    all
}

/// One of each port, so that a rule with one port less is no other.
fn of_use(name: &SecretName, one: &SecretUse) -> Vec<Binding> {
    let (target, ports) = one.target.rsplit_once(':').unwrap_or((&one.target, ""));
    let binding = |port: &str| {
        let (name, target) = (name.as_str().to_owned(), target.to_owned());
        (name, target, port.to_owned(), one.entrusted, one.captures)
    };
    ports.split(',').map(binding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_of_a_secret_a_target_and_a_port() {
        let of = |ports: &str, secrets: &str| {
            let entry = format!("{{host: a.example, ports: {ports}, secrets: {secrets}}}");
            bindings(&format!("version: 1\negress:\n  - {entry}\n"))
        };
        let both = of("[443, 8443]", "[TOKEN]");
        assert!(of("[443]", "[TOKEN]").is_subset(&both));
        assert_eq!(both.len(), 2);
        assert!(!of("[444]", "[TOKEN]").is_subset(&both));
        assert!(!of("[443]", "[OTHER]").is_subset(&both));
        assert!(bindings("version: 1\negress: []\n").is_empty());
        assert!(bindings("no document").is_empty());
    }
}
