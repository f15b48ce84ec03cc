//! The fleet as the appliance asks it.

use std::{net::SocketAddr, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt as _};
use gig_policy::SandboxId;
use gig_web::{
    Attached, Control, ControlError, Decide, Ruling, SandboxFacts, Wanted,
    control::{
        EndCause, Examined, Health, LogAsked, LogPage, Registered, Registration, SandboxLog,
    },
};

use super::{Fleet, FleetHandle, Member, causes, foreign, ids_in_words, layers, life};
use crate::serve::doctor;

async fn begin(
    fleet: Arc<Fleet>,
    wanted: Wanted,
    decide: Decide,
    attached: bool,
) -> Result<life::Begun, ControlError> {
    fleet.machine()?;
    let name: Arc<str> = wanted.server.name.as_str().into();
    let started = life::start(fleet, wanted, decide, attached).await;
    started.map_err(|error| in_words(error, name))
}

fn in_words(error: anyhow::Error, server: Arc<str>) -> ControlError {
    match error.downcast::<ControlError>() {
        Ok(refused) => refused,
        Err(error) => ControlError::Start {
            server,
            why: causes(&error),
        },
    }
}

impl Control for FleetHandle {
    fn health(&self) -> Vec<Health> {
        let (works, words): (bool, Arc<str>) = match &self.0.machine {
            Ok(machine) if !machine.hub.is_alive() => (
                false,
                "the hub, which has their networks, has ended: restart gig".into(),
            ),
            Ok(machine) => (true, ids_in_words(machine.hub.ids()).into()),
            Err(why) => (
                false,
                format!("this host cannot have sandboxes: {why}").into(),
            ),
        };
        let part = "sandboxes".into();
        vec![Health { part, works, words }]
    }

    fn layers(&self) -> Vec<Health> {
        layers::of(&self.0)
    }

    fn examine(&self) -> Result<Vec<Examined>, ControlError> {
        doctor::apart().map_err(|error| ControlError::Examine(causes(&error)))
    }

    fn sandboxes(&self) -> Vec<SandboxFacts> {
        let mut members: Vec<Arc<Member>> = self.0.sandboxes.lock().values().cloned().collect();
        members.extend(self.0.ended.lock().iter().cloned());
        let mut facts: Vec<SandboxFacts> = members.iter().map(|member| member.look()).collect();
        facts.sort_by_key(|facts| std::cmp::Reverse(facts.id.as_uuid()));
        facts.dedup_by_key(|facts| facts.id);
        facts
    }

    fn start(
        &self,
        wanted: Wanted,
        decide: Decide,
    ) -> BoxFuture<'_, Result<SandboxFacts, ControlError>> {
        let fleet = Arc::clone(&self.0);
        async move {
            let begun = begin(fleet, wanted, decide, false).await?;
            // Nobody's streams: nothing ends with them.
            Ok(begun.member.look())
        }
        .boxed()
    }

    fn attach(
        &self,
        wanted: Wanted,
        decide: Decide,
    ) -> BoxFuture<'_, Result<Attached, ControlError>> {
        let fleet = Arc::clone(&self.0);
        async move {
            let name: Arc<str> = wanted.server.name.as_str().into();
            let begun = begin(fleet, wanted, decide, true).await?;
            let lost = || ControlError::Start {
                server: name,
                why: "its streams were lost".to_owned(),
            };
            begun.attached.ok_or_else(lost)
        }
        .boxed()
    }

    fn used(&self, id: SandboxId) -> bool {
        let found = self.0.running(id);
        found.is_ok_and(|member| member.is_asked_for())
    }

    fn register(
        &self,
        wanted: Wanted,
        registration: Registration,
        decide: Decide,
    ) -> BoxFuture<'_, Result<Registered, ControlError>> {
        let fleet = Arc::clone(&self.0);
        async move {
            fleet.machine()?;
            let name: Arc<str> = wanted.server.name.as_str().into();
            let registered = foreign::register(fleet, wanted, registration, decide).await;
            registered.map_err(|error| in_words(error, name))
        }
        .boxed()
    }

    fn stop(&self, id: SandboxId) -> Result<(), ControlError> {
        self.0.running(id)?.ask_to_end(EndCause::Stopped);
        Ok(())
    }

    fn lose(&self, id: SandboxId) {
        if let Ok(member) = self.0.running(id) {
            member.ask_to_end(EndCause::Lost);
        }
    }

    fn close_to_sandboxes(&self, places: Vec<SocketAddr>) {
        if let Ok(machine) = &self.0.machine {
            machine.elsewhere.set(places);
        }
    }

    fn lines(&self, asked: &LogAsked) -> Result<LogPage, ControlError> {
        self.0.kept.read(asked).map_err(|error| {
            tracing::error!(%error, server = asked.server, "the log of a server cannot be read");
            ControlError::Log
        })
    }

    fn log(&self, id: SandboxId) -> Option<SandboxLog> {
        let running = self.0.sandboxes.lock().get(&id).cloned();
        let found = running.or_else(|| {
            let ended = self.0.ended.lock();
            ended
                .iter()
                .find(|member| member.facts.lock().id == id)
                .cloned()
        });
        found.map(|member| member.log.read())
    }

    fn set_policy(&self, server: &str, profile: &str, ruling: Ruling) {
        let Ruling { policy, by } = ruling;
        let members: Vec<Arc<Member>> = self.0.sandboxes.lock().values().cloned().collect();
        for member in members {
            let mut facts = member.facts.lock();
            if *facts.server != *server || *facts.profile != *profile {
                continue;
            }
            let reference = policy.reference();
            facts.policy = Arc::clone(&reference.name);
            facts.policy_version = reference.version;
            facts.policy_by = Arc::clone(&by);
            drop(facts);
            if let Some(subject) = &member.subject {
                subject.set_policy(policy.clone());
            }
        }
    }
}
