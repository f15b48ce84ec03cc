//! Sandboxes are started under the policy that is in force for their server and profile, few at once, and none under
//! one that was replaced meanwhile. Of a server and a profile one runs beside those that somebody is attached
//! to: who asks for it while it is being started waits for that start, and a start that failed is told to all
//! who waited and stands in nobody's way.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use gig_audit::{Entry, VerdictWord};
use gig_policy::SandboxId;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::App;
use crate::{
    api_error::Problem,
    auth::Caller,
    control::{
        Attached, ControlError, Decide, Decided, Registered, Registration, SandboxFacts, Wanted,
    },
    credential::Digest,
    in_force,
    one_sandbox::has_others,
    store::{Claim, Claimed, RunningRow, Server, ServerKind, ServerSpec, folded},
};

/// Starts that are under way, by server and profile.
#[derive(Default)]
pub(crate) struct UnderWay(Mutex<HashMap<(String, String), Begun>>);

/// One of them.
struct Begun {
    id: SandboxId,
    start: Shared<Starting>,
}

type Starting = BoxFuture<'static, Result<Started, Problem>>;

/// Where the sandbox of a server and a profile is.
#[derive(Debug, Clone)]
pub(crate) enum Started {
    /// It was started here.
    Here(SandboxFacts),
    /// Another node has it.
    There(Box<RunningRow>),
}

/// Which sandboxes this node has claimed of a fleet, and whether each has started.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<SandboxId, bool>>);

impl Claims {
    /// Those that have started, and may be over.
    pub(crate) fn started(&self) -> Vec<SandboxId> {
        let claims = self.0.lock();
        let started = claims.iter().filter(|(_, started)| **started);
        started.map(|(id, _)| *id).collect()
    }

    /// The store has forgotten them.
    pub(crate) fn forget(&self, ids: &[SandboxId]) {
        self.0.lock().retain(|id, _| !ids.contains(id));
    }
}

/// The sandbox of a server and a profile.
pub(crate) enum Instance {
    /// It runs.
    Runs(SandboxFacts),
    /// Somebody asked for it before.
    UnderWay(SandboxId, Shared<Starting>),
    /// Nobody did.
    New(Shared<Starting>),
}

impl App {
    /// The sandbox of a registered server for a profile: the one that runs, the one that is being started,
    /// or a new one, of which `tell` says what is recorded before. One that runs what the server was before
    /// it was changed is asked to end, and that is recorded, too. In a fleet one node at a time has it.
    pub(crate) fn instance(
        self: &Arc<Self>,
        server: &Server,
        profile: &Arc<str>,
        tell: impl Fn(SandboxId, &str) -> Entry + Send + Sync + 'static,
    ) -> Instance {
        let pair = (server.name.clone(), folded(profile));
        let mut under_way = self.under_way.0.lock();
        under_way.retain(|_, begun| begun.start.peek().is_none());
        if let Some(begun) = under_way.get(&pair) {
            return Instance::UnderWay(begun.id, begun.start.clone());
        }
        // One that has just been started is there before its start is over.
        let running = self.control.sandboxes().into_iter().filter(|one| {
            let theirs = *one.server == pair.0 && folded(&one.profile) == pair.1;
            theirs && one.ended.is_none() && !one.attached
        });
        let (same, before): (Vec<_>, Vec<_>) = running.partition(|one| *one.spec == server.spec);
        if let Some(one) = same.into_iter().find(|one| self.control.used(one.id)) {
            return Instance::Runs(one);
        }
        let id = SandboxId::new(uuid::Uuid::now_v7());
        let (app, name, profile) = (Arc::clone(self), pair.0.clone(), Arc::clone(profile));
        let claim = Claim {
            server: pair.0.clone(),
            profile: pair.1.clone(),
            sandbox: id.to_string(),
            spec: tag(&server.spec),
        };
        let start = async move {
            for old in before {
                app.record(tell(old.id, "sandbox stop: its server was changed"))
                    .await?;
                // One that ends by itself at this moment is what was wanted.
                let _ended = app.control.stop(old.id);
            }
            if let Some(theirs) = app.claim(claim, id, &tell).await? {
                return Ok(Started::There(theirs));
            }
            let started = async {
                app.record(tell(id, "sandbox start asked for")).await?;
                app.start(name, id, profile).await
            };
            let started = started.await;
            if let Err(problem) = &started {
                let words = format!("sandbox not started: {}", problem.detail);
                let mut entry = tell(id, &words);
                entry.verdict = Some(VerdictWord::Deny);
                // What is not recorded was told to who asked.
                drop(app.record(entry).await);
            }
            app.claimed(id, started.is_ok()).await;
            started.map(Started::Here)
        };
        let start = start.boxed().shared();
        // It goes on when nobody waits any more: half of it cannot be given up, and who asks next gets it.
        self.attachments.spawn(start.clone());
        let begun = Begun {
            id,
            start: start.clone(),
        };
        under_way.insert(pair, begun);
        Instance::New(start)
    }

    /// Claims a sandbox that is to start, in a fleet; where another node has one of the same server and profile that is
    /// answered instead, once it runs. One of what the server was before is asked to end, and waited for.
    async fn claim(
        self: &Arc<Self>,
        claim: Claim,
        id: SandboxId,
        tell: &(impl Fn(SandboxId, &str) -> Entry + Send + Sync),
    ) -> Result<Option<Box<RunningRow>>, Problem> {
        if !has_others(self) {
            return Ok(None);
        }
        let begun = Instant::now();
        let mut asked_to_end = false;
        loop {
            let (node, claim) = (self.node.clone(), claim.clone());
            let claimed = self.ask(move |store| store.claim(&node, &claim)).await;
            if claimed.is_err() {
                // It may have been claimed all the same.
                self.claimed(id, false).await;
            }
            let why = match claimed? {
                Claimed::Mine => return Ok(None),
                // It has just begun, or was cut off: it says so at its next look.
                Claimed::Unknown => "other nodes do not see that this one lives".to_owned(),
                Claimed::Theirs {
                    node,
                    sandbox,
                    same,
                } => {
                    let theirs = SandboxId::new(sandbox.parse().map_err(Problem::internal)?);
                    if same {
                        let running = self.ask(move |store| store.running_one(&sandbox)).await?;
                        if let Some(row) = running {
                            let words = format!("sandbox start asked for: it runs on {node}");
                            self.record(tell(theirs, &words)).await?;
                            return Ok(Some(Box::new(row)));
                        }
                    } else if !std::mem::replace(&mut asked_to_end, true) {
                        self.record(tell(theirs, "sandbox stop: its server was changed"))
                            .await?;
                        let now = self.now();
                        self.ask(move |store| store.ask_to_stop(theirs, now))
                            .await?;
                    }
                    format!(
                        "node {node} has the sandbox of this server and profile, and it neither runs nor ends"
                    )
                }
            };
            if begun.elapsed() > THEIRS {
                return Err(Problem::unavailable(&format!(
                    "{why}: try again in a moment"
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What was claimed runs, or never will.
    async fn claimed(self: &Arc<Self>, id: SandboxId, started: bool) {
        if !has_others(self) {
            return;
        }
        if started {
            self.claims.0.lock().insert(id, true);
            return;
        }
        self.claims.0.lock().remove(&id);
        let sandbox = id.to_string();
        if let Err(problem) = self.ask(move |store| store.release(&sandbox)).await {
            tracing::warn!(why = problem.detail, sandbox = %id, "the claim of what did not start stays: it is tried again");
            // As what has ended.
            self.claims.0.lock().insert(id, true);
        }
    }

    /// Somebody has this sandbox started, or uses it: what it asks for and waits for is theirs as well.
    pub(crate) fn starts(&self, id: SandboxId, caller: &Caller) {
        let alive = || self.control.sandboxes().iter().map(|one| one.id).collect();
        self.held.started((id, caller.profile()), alive);
    }

    /// Starts a sandbox of a registered server, under the policy that is in force for it. Few at once.
    pub(crate) async fn start(
        &self,
        server: String,
        id: SandboxId,
        profile: Arc<str>,
    ) -> Result<SandboxFacts, Problem> {
        let at_once = Duration::ZERO;
        let (wanted, decide) = self.wanted(server, (id, profile), at_once).await?;
        has_program(&wanted.server)?;
        Ok(self.control.start(wanted, decide).await?)
    }

    /// Takes a network namespace that gig did not make as a sandbox of a server.
    pub(crate) async fn register(
        &self,
        server: String,
        whose: (SandboxId, Arc<str>),
        registration: Registration,
    ) -> Result<Registered, Problem> {
        let (wanted, decide) = self.wanted(server, whose, IN_LINE).await?;
        let registered = self.control.register(wanted, registration, decide);
        Ok(registered.await?)
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
        has_program(&wanted.server)?;
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
        let decide = self.decide(server.clone(), Arc::clone(&profile), in_line);
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
    fn decide(&self, server: Server, profile: Arc<str>, in_line: Duration) -> Decide {
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
                    in_force::effective(store.as_ref(), &server.name, &profile).map(Some)
                });
                let decided = decided.await.map_err(Problem::internal);
                let decided = decided.and_then(|read| read.map_err(Problem::internal));
                let ruling = match decided {
                    Ok(Some(ruling)) => ruling,
                    Ok(None) => return Err(ControlError::Changed(name)),
                    Err(_) => return Err(ControlError::Undecided(name)),
                };
                let hold = Box::new((none_changes, place));
                Ok(Decided { ruling, hold })
            }
            .boxed()
        })
    }
}

/// Refuses a server whose programs somebody else starts.
pub(crate) fn has_program(server: &Server) -> Result<(), Problem> {
    match server.spec.kind {
        ServerKind::Program => Ok(()),
        ServerKind::Foreign => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "foreign",
            "gig starts no program of this server: its sandboxes are namespaces that are registered with \
             `gig netns register`",
        )),
    }
}

/// Of what a server is; not of when it was registered.
fn tag(spec: &ServerSpec) -> String {
    Digest::of(&serde_json::to_string(spec).unwrap_or_default()).words()
}

/// For what another node starts or ends: a program has ten seconds to end.
const THEIRS: Duration = Duration::from_secs(25);
/// Between two looks at that.
const LOOK: Duration = Duration::from_millis(250);
/// For one of these places.
const IN_LINE: Duration = Duration::from_secs(20);
/// For the last words to all.
const SETTLED_WITHIN: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
