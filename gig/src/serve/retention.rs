//! Old records go by themselves, when somebody said how long they are kept.
//!
//! What goes is listed in a signed checkpoint, so that the rest of the chain stays provable, and told in
//! the record. Where the chain does not hold, nothing goes: what is left is evidence. Nor does anything by a clock
//! that is not believed. Of a record that a fleet shares each node removes its own.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context;
use gig_audit::{
    Deed, Entry, Event, Home, PublicKey, Recorder, SigningKey, VerdictWord,
    chain::ChainFault,
    retention::{Keep, Retention, counted},
    store::prune::{Prune, PrunedChain},
};

use gig_web::Watch;

use self::clock::{Ahead, Belief, Reading};
use super::appliance::Appliance;

mod clock;

/// The thread that removes them; ends with its handle.
pub(super) struct Retaining {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Retaining {
    /// Begins, if anybody said how long anything is kept. Checkpoints of this node's own key are believed,
    /// and those of `former` ones.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn start(
        (keep, former): (&[Keep], &[PublicKey]),
        dir: &Path,
        appliance: &Appliance,
        watch: &Arc<Watch>,
    ) -> anyhow::Result<Self> {
        if keep.is_empty() {
            watch.say(PART, true, "nothing is removed: no time was set (--keep)");
            return Ok(Self {
                stop: None,
                thread: None,
            });
        }
        let noted = clock::Kept::of(dir);
        let last = noted.read().or_else(|| {
            // What is recorded by a clock that is not believed is the newest then.
            let newest = appliance.newest?;
            noted.write(newest);
            Some(newest)
        });
        let mut looks = Looks {
            keep: keep.to_vec(),
            former: former.to_vec(),
            record: appliance.record.clone(),
            recorder: appliance.recorder.clone(),
            key: Arc::clone(&appliance.key),
            node: appliance.node.clone(),
            belief: Belief::at_start(last, Reading::now()),
            noted,
            told: Told::default(),
        };
        let watch = Arc::clone(watch);
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("retention".to_owned())
            .spawn(move || {
                loop {
                    let outcome = looks.look(Reading::now());
                    let at = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
                    match outcome {
                        Ok(words) => watch.say(PART, true, format!("last at {at}: {words}")),
                        Err(words) => watch.say(PART, false, format!("last at {at}: {words}")),
                    }
                    match stopped.recv_timeout(PAUSE) {
                        Err(RecvTimeoutError::Timeout) => {}
                        _ => return,
                    }
                }
            })
            .context("cannot start a thread")?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Retaining {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked removes nothing any more.
            let _ended = thread.join();
        }
    }
}

/// What was said of chains that nothing could be removed of, and of the clock: said once, not every hour.
type Told = BTreeMap<String, String>;

/// Looks for what is old, again and again.
struct Looks {
    keep: Vec<Keep>,
    former: Vec<PublicKey>,
    record: Home,
    recorder: Recorder,
    key: Arc<SigningKey>,
    node: String,
    belief: Belief,
    noted: clock::Kept,
    told: Told,
}

impl Looks {
    /// What was removed, in words; or why nothing was.
    fn look(&mut self, now: Reading) -> Result<String, String> {
        if let Err(ahead) = self.belief.look(now) {
            self.tell_doubt(&ahead);
            return Err(ahead.to_string());
        }
        self.noted.write(now.wall);
        self.told.remove(CLOCK);
        // Each node of a fleet removes what is of its own chain, whoever signed it.
        let only = self.record.is_shared().then_some(&*self.node);
        let pruned = self.record.prune(&Prune {
            key: &self.key,
            trusted: &self.former,
            only,
            retention: &Retention::at(now.wall, &self.keep),
            dry_run: false,
        });
        let chains = pruned.map_err(|error| {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot remove old records; trying again in an hour");
            "the record could not be read or written: gig's own log says why".to_owned()
        })?;
        let mut said = Vec::new();
        for chain in chains {
            tell(&chain, &self.recorder, &mut self.told);
            match &chain.outcome {
                Ok(counts) if !counts.is_empty() => said.push(counted(counts)),
                Ok(_) => {}
                Err(fault) => {
                    return Err(format!(
                        "nothing of {} was removed: {}",
                        chain.node,
                        why(fault)
                    ));
                }
            }
        }
        Ok(match said.is_empty() {
            true => "nothing was old enough".to_owned(),
            false => format!("removed {}", said.join("; ")),
        })
    }

    /// Once for each time that it is doubted.
    fn tell_doubt(&mut self, ahead: &Ahead) {
        let before = self.told.insert(CLOCK.to_owned(), String::new());
        if before.is_some() {
            return;
        }
        tracing::error!(%ahead, "no old records are removed");
        let mut entry = about(&self.node);
        entry.verdict = Some(VerdictWord::Deny);
        let what = format!("no old records of {} removed: {ahead}", self.node);
        entry.findings.push(what.into());
        queue(&self.recorder, entry);
    }
}

fn tell(chain: &PrunedChain, recorder: &Recorder, told: &mut Told) {
    let mut entry = about(&chain.node);
    let node = &chain.node;
    match &chain.outcome {
        Ok(counts) => {
            told.remove(node);
            if counts.is_empty() {
                return;
            }
            entry.verdict = Some(VerdictWord::Allow);
            let what = format!("old records of {node} removed: {}", counted(counts));
            entry.findings.push(what.into());
        }
        Err(fault) => {
            let what = format!("no old records of {node} removed: {}", why(fault));
            tracing::error!(what);
            if told.insert(node.clone(), what.clone()) == Some(what.clone()) {
                return;
            }
            entry.verdict = Some(VerdictWord::Deny);
            entry.findings.push(what.into());
        }
    }
    queue(recorder, entry);
}

fn about(node: &str) -> Entry {
    let mut entry = Entry::new(Event::Admin);
    entry.profile = Some("retention".into());
    entry.deed = Some(Deed::RecordPrune);
    entry.subject = Some(node.into());
    entry
}

fn queue(recorder: &Recorder, entry: Entry) {
    if let Err(error) = recorder.queue(entry) {
        tracing::error!(%error, "cannot record what became of old records");
    }
}

fn why(fault: &ChainFault) -> String {
    match fault.foreign_key() {
        Some(key) => format!(
            "{key} signed it, which is not this node's key: if it is a former one of this record, say so by \
             --audit-key {key}"
        ),
        None => format!("the chain does not hold: {fault}"),
    }
}

/// What is doubted; no node's name.
const CLOCK: &str = "the clock";
/// What health calls it.
const PART: &str = "retention";
/// Days are counted; an hour more or less is nothing.
const PAUSE: Duration = Duration::from_hours(1);
