//! Old records go by themselves, when somebody said how long they are kept.
//!
//! What goes is listed in a signed checkpoint, so that the rest of the chain stays provable, and told in
//! the record. Where the chain does not hold, nothing goes: what is left is evidence. Of a record that a fleet
//! shares each node removes its own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context;
use gig_audit::{
    Deed, Entry, Event, Home, PublicKey, Recorder, VerdictWord,
    chain::ChainFault,
    retention::{Keep, Retention, counted},
    store::prune::{Prune, PrunedChain},
};

use gig_web::Watch;

use super::appliance::Appliance;

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
        let (keep, former) = (keep.to_vec(), former.to_vec());
        let (record, recorder) = (appliance.record.clone(), appliance.recorder.clone());
        let key = Arc::clone(&appliance.key);
        let (node, watch) = (appliance.node.clone(), Arc::clone(watch));
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("retention".to_owned())
            .spawn(move || {
                let mut told = Told::default();
                loop {
                    let what = Prune {
                        key: &key,
                        trusted: &former,
                        retention: &Retention::at(jiff::Timestamp::now(), &keep),
                        dry_run: false,
                    };
                    let outcome = once(&what, (&record, &node), &recorder, &mut told);
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

/// What was said of chains that nothing could be removed of: said once, not every hour.
type Told = BTreeMap<String, String>;

/// What was removed, in words; or why nothing was.
fn once(
    what: &Prune<'_>,
    (record, node): (&Home, &str),
    recorder: &Recorder,
    told: &mut Told,
) -> Result<String, String> {
    match record.prune(what) {
        Ok(chains) => {
            let mut said = Vec::new();
            // Each node of a fleet removes what it signed; others' keys it does not know.
            let ours = |chain: &PrunedChain| !record.is_shared() || chain.node == node;
            for chain in chains.into_iter().filter(ours) {
                tell(&chain, recorder, told);
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
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot remove old records; trying again in an hour");
            Err("the record could not be read or written: gig's own log says why".to_owned())
        }
    }
}

fn tell(chain: &PrunedChain, recorder: &Recorder, told: &mut Told) {
    let mut entry = Entry::new(Event::Admin);
    entry.profile = Some("retention".into());
    entry.deed = Some(Deed::RecordPrune);
    entry.subject = Some(chain.node.as_str().into());
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

/// What health calls it.
const PART: &str = "retention";
/// Days are counted; an hour more or less is nothing.
const PAUSE: Duration = Duration::from_hours(1);
