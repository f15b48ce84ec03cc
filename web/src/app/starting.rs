//! Sandboxes are started under the policy that is in force for their server, few at once, and none under
//! one that was replaced meanwhile.

use std::{sync::Arc, time::Duration};

use futures_util::future::FutureExt as _;
use gig_policy::SandboxId;

use super::App;
use crate::{
    api_error::Problem,
    control::{Attached, ControlError, Decide, Decided, SandboxFacts, Wanted},
    in_force,
    store::Server,
};

impl App {
    /// Starts a sandbox of a registered server, under the policy that is in force for it. Few at once.
    pub(crate) async fn start(
        &self,
        server: String,
        id: SandboxId,
        profile: Arc<str>,
    ) -> Result<SandboxFacts, Problem> {
        let at_once = Duration::ZERO;
        let (wanted, decide) = self.wanted(server, (id, profile), at_once).await?;
        Ok(self.control.start(wanted, decide).await?)
    }

    /// The same, with the program's standard streams. Clients begin with all of their servers at once:
    /// they wait in line for a while.
    pub(crate) async fn attach(
        &self,
        server: String,
        id: SandboxId,
        profile: Arc<str>,
    ) -> Result<Attached, Problem> {
        let (wanted, decide) = self.wanted(server, (id, profile), IN_LINE).await?;
        Ok(self.control.attach(wanted, decide).await?)
    }

    async fn wanted(
        &self,
        name: String,
        (id, profile): (SandboxId, Arc<str>),
        in_line: Duration,
    ) -> Result<(Wanted, Decide), Problem> {
        let asked = name.clone();
        let found = self.ask(move |store| store.server(&asked)).await?;
        let server = found.ok_or_else(|| Problem::missing("server", &name))?;
        let decide = self.decide(server.clone(), in_line);
        let wanted = Wanted {
            server,
            id,
            profile,
        };
        Ok((wanted, decide))
    }

    /// Waits until whoever was attached to a sandbox was told that it ended.
    pub async fn settle(&self) {
        self.attachments.close();
        // Who listens no more is not waited for long.
        let _late = tokio::time::timeout(SETTLED_WITHIN, self.attachments.wait()).await;
    }

    /// The policy in force, which stays so as long as what is held with it. A place is taken here, where
    /// all else is at hand: who waits for a secret takes nobody's.
    fn decide(&self, server: Server, in_line: Duration) -> Decide {
        let starting = Arc::clone(&self.starting);
        let (policies, store) = (Arc::clone(&self.policies), Arc::clone(&self.store));
        Box::new(move || {
            async move {
                let name: Arc<str> = server.name.as_str().into();
                let place = tokio::time::timeout(in_line, starting.acquire_owned()).await;
                let Ok(Ok(place)) = place else {
                    return Err(ControlError::Busy);
                };
                let none_changes = policies.read_owned().await;
                let decided = tokio::task::spawn_blocking(move || {
                    let now = store.server(&server.name)?;
                    if now.as_ref() != Some(&server) {
                        return Ok(None);
                    }
                    in_force::effective(store.as_ref(), &server.name).map(Some)
                });
                let decided = decided.await.map_err(Problem::internal);
                let decided = decided.and_then(|read| read.map_err(Problem::internal));
                let policy = match decided {
                    Ok(Some(policy)) => policy,
                    Ok(None) => return Err(ControlError::Changed(name)),
                    Err(_) => return Err(ControlError::Undecided(name)),
                };
                let hold = Box::new((none_changes, place));
                Ok(Decided { policy, hold })
            }
            .boxed()
        })
    }
}

/// For one of these places.
const IN_LINE: Duration = Duration::from_secs(20);
/// For the last words to all.
const SETTLED_WITHIN: Duration = Duration::from_secs(3);
