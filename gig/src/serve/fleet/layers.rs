//! The layers around sandboxes, as gig knows them without trying: what runs says whether it does, what confines
//! is told by the newest start.

use std::sync::Arc;

use gig_web::{SandboxFacts, control::Health};

use super::Fleet;

/// Proxy, names, and each layer of the newest sandbox.
pub(super) fn of(fleet: &Fleet) -> Vec<Health> {
    let Ok(machine) = &fleet.machine else {
        // Why is told once, by the sandboxes themselves.
        return Vec::new();
    };
    let threads = machine.proxy.lock().as_ref().map(gig_proxy::Proxy::threads);
    let (running, all) = threads.unwrap_or_default();
    let proxy = match running == all && all > 0 {
        true => format!("{all} threads let through what policies allow"),
        false => format!("{running} of {all} threads run: restart gig"),
    };
    let names = machine
        .proxy
        .lock()
        .as_ref()
        .is_some_and(gig_proxy::Proxy::answers_names);
    let mut parts = vec![
        part("proxy", running == all && all > 0, proxy),
        part(
            "names (DNS)",
            names,
            match names {
                true => "answered by the first thread of the proxy, and by nobody else".to_owned(),
                false => "the thread that answers them has ended: restart gig".to_owned(),
            },
        ),
    ];
    parts.extend(confined(newest(fleet)));
    parts
}

/// The sandbox that was started last, whose programs gig starts.
fn newest(fleet: &Fleet) -> Option<SandboxFacts> {
    // One after the other: who ends one takes them the other way round.
    let mut all: Vec<_> = fleet.sandboxes.lock().values().cloned().collect();
    all.extend(fleet.ended.lock().iter().cloned());
    let facts = all.iter().map(|member| member.facts.lock().clone());
    facts
        .filter(|facts| facts.namespace.is_none())
        .max_by_key(|facts| facts.id.as_uuid())
}

/// As the start of a sandbox reported it.
fn confined(newest: Option<SandboxFacts>) -> Vec<Health> {
    let Some(newest) = newest else {
        let words = "no sandbox was started since gig was: the doctor, under Settings, tries each";
        return vec![part("confinement", true, words.to_owned())];
    };
    let layers = newest.layers.iter().filter_map(|layer| {
        let (name, state) = layer.split_once(": ")?;
        let known = ["enforced", "partial", "off"];
        let is_layer = known.iter().any(|word| state.starts_with(word));
        // One that bounds only what was limited, where nothing was, lacks nothing.
        let unneeded = state
            .strip_prefix("off (")
            .and_then(|why| why.strip_suffix(')'));
        let unneeded = unneeded.filter(|why| why.contains("was asked for"));
        let lacks = state.starts_with("off") && unneeded.is_none();
        let words = match unneeded {
            Some(why) => format!("not needed at the newest start: {why}"),
            None => format!("{state}, at the newest start"),
        };
        is_layer.then(|| part(name, !lacks, words))
    });
    layers.collect()
}

fn part(name: &str, works: bool, words: String) -> Health {
    Health {
        part: Arc::from(name),
        works,
        words: words.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layer_is_told_as_the_newest_start_reported_it() {
        assert_eq!(confined(None).len(), 1);
        let facts = SandboxFacts {
            layers: [
                "seccomp: enforced",
                "landlock: off (the kernel is too old)",
                "image a/b: c",
                "cgroup: off (no limit of the whole sandbox was asked for that needs one)",
            ]
            .map(Arc::from)
            .to_vec(),
            ..facts()
        };
        let told = confined(Some(facts));
        let words = |part: &Health| (part.part.to_string(), part.works, part.words.to_string());
        assert_eq!(
            told.iter().map(words).collect::<Vec<_>>(),
            [
                (
                    "seccomp".to_owned(),
                    true,
                    "enforced, at the newest start".to_owned()
                ),
                (
                    "landlock".to_owned(),
                    false,
                    "off (the kernel is too old), at the newest start".to_owned()
                ),
                (
                    "cgroup".to_owned(),
                    true,
                    "not needed at the newest start: no limit of the whole sandbox was asked for that needs one"
                        .to_owned()
                ),
            ]
        );
    }

    fn facts() -> SandboxFacts {
        SandboxFacts {
            id: gig_policy::SandboxId::new(uuid::Uuid::now_v7()),
            server: "s".into(),
            spec: Arc::default(),
            profile: "ana".into(),
            attached: false,
            address: None,
            namespace: None,
            policy: "p".into(),
            policy_version: 1,
            policy_by: "all servers".into(),
            started: jiff::Timestamp::UNIX_EPOCH,
            ended: None,
            connections: 0,
            layers: Vec::new(),
        }
    }
}
