//! Sandboxes that started before there was anything in the vault, or while it could not be opened: what they
//! send is looked through for its values like all others', once that is possible.

use std::{sync::Weak, time::Duration};

use super::Fleet;

/// Looks after them for as long as gig serves.
pub(super) async fn see_to(fleet: Weak<Fleet>) {
    let mut told = false;
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(fleet) = fleet.upgrade() else {
            return;
        };
        let Ok(machine) = &fleet.machine else {
            return;
        };
        let subjects: Vec<_> = (fleet.sandboxes.lock().values())
            .filter_map(|member| member.subject.clone())
            .filter(|subject| subject.wallet().is_none())
            .collect();
        if subjects.is_empty() {
            continue;
        }
        match machine.secrets.begun().await {
            Ok(Some(border)) => {
                for subject in subjects {
                    subject.watch(|| border.wallet(subject.id()));
                }
            }
            Ok(None) => {}
            // Told at each start, too.
            Err(error) if !told => {
                told = true;
                tracing::warn!(
                    error = format!("{error:#}"),
                    "values of the vault are not looked for in what running sandboxes send"
                );
            }
            Err(_) => {}
        }
    }
}

/// As long as a change of secrets takes on another node; in a fleet it asks the database.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
