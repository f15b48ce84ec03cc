//! What vouches for where a version of a policy lets secrets go, and whether it still does where it is written.
//!
//! Whoever judges a version reads policies one after the other, which takes its time; so what it found is looked at
//! again in the transaction that writes it.

use super::{
    Change, ChangeError,
    changes::Outcome,
    tables::{OptionalExtension as _, Refused, Transaction},
};

/// By what a version lets secrets go where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vouched {
    /// Who writes it says where secrets go.
    Freely,
    /// It is a proposal, and a second person sees it.
    ByTwo,
    /// These versions of policies let them go there.
    By(Vec<(String, u64)>),
}

/// Refuses a version that is made by one person, and for which nothing vouches any more.
pub(super) fn still(db: &Transaction<'_>, change: &Change) -> Outcome {
    let (Change::SavePolicy { secrets, .. } | Change::SaveFor { secrets, .. }) = change else {
        return Ok(());
    };
    let meanwhile = |what: String| Err(Refused::Change(ChangeError::Meanwhile { what }));
    match secrets {
        Vouched::Freely => Ok(()),
        Vouched::ByTwo => meanwhile("the two-person rule".to_owned()),
        Vouched::By(versions) => {
            for (name, version) in versions {
                let sql = "SELECT version FROM policies WHERE name = ?1 AND removed = 0";
                let newest: Option<u64> = db.query_row(sql, [name], |row| row.get(0)).optional()?;
                if newest != Some(*version) {
                    return meanwhile(format!("policy {name}, which lets a secret of this go,"));
                }
            }
            Ok(())
        }
    }
}
