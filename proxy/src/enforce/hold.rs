//! What is denied for want of a rule waits for a person, no longer than its policy says.
//!
//! That it waits is recorded before anybody is asked, how it ended afterwards, also when the program went
//! away meanwhile. A word alone lets nothing pass: with it the policy is asked again, and the answer is
//! recorded before anything leaves. When the policy changes meanwhile it is decided by the new one.

use std::{sync::Arc, time::Duration};

use gig_audit::{Entry, Event, HELD, VerdictWord};
use gig_policy::{Denial, DenyReason, Host, Policy, RuleRef};
use tokio::time::Instant;

use super::{
    connect::{denial, fill_policy},
    ledger::Ledger,
};
use crate::{
    caller::Caller,
    hold::{Held, Ticket, Word},
};

/// What came of waiting; it goes into the records that follow.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// What stands for a rule.
    pub word: Option<RuleRef>,
    /// `held`, and how it ended.
    pub findings: Vec<Arc<str>>,
}

impl Heard {
    /// That somebody allowed one request, for its connection.
    #[must_use]
    pub fn once(word: &RuleRef) -> Self {
        Self {
            word: Some(word.clone()),
            findings: vec![HELD.into()],
        }
    }
}

/// Something that waits.
#[derive(Debug)]
pub struct Waiting<'a> {
    /// Whose.
    pub caller: &'a Caller,
    /// Where to.
    pub host: &'a Host,
    /// Why it was denied.
    pub denial: Box<Denial>,
    /// For how long it waits.
    pub most: Duration,
    /// What people are told.
    pub held: Held,
    /// The record of what is asked for, as a request or a connection.
    pub entry: Entry,
}

/// How it ended.
#[derive(Debug)]
pub enum Outcome {
    /// It is to be decided again, with what was heard.
    Again(Heard),
    /// It stays denied, with the findings for its record.
    Denied(Box<Denial>, Heard),
}

/// For how long this denial waits; `None` where nobody is to be asked.
#[must_use]
pub fn patience(caller: &Caller, host: &Host, denial: &Denial) -> Option<Duration> {
    caller.worker.shared.desk.as_ref()?;
    if super::secret::name_holds_a_secret(caller.subject(), &host.to_string()) {
        return None;
    }
    caller.subject().policy().holds(host, denial)
}

impl Waiting<'_> {
    /// Waits. `decide` asks the policy in force again; `gone` completes when the program has gone away.
    /// Dropping the future records that it was given up.
    pub async fn wait(
        self,
        decide: impl Fn(&Policy) -> Result<(), Box<Denial>> + Send,
        gone: impl Future<Output = ()> + Send,
    ) -> Outcome {
        let ledger = self.caller.ledger().clone();
        let mut begun = self.entry.clone();
        begun.event = Event::Finding;
        fill_policy(&mut begun, &self.denial.policy, self.denial.rule.as_ref());
        begun.reason = Some(self.denial.reason);
        begun.findings = vec![HELD.into()];
        if !ledger.has_a_record(&mut begun) {
            // More than anybody is asked about.
            return self.too_many();
        }
        if ledger.record_as_it_is(begun).await.is_err() {
            let policy = self.caller.subject().policy();
            let denial = denial(&policy, DenyReason::RecordUnavailable, String::new());
            return Outcome::Denied(denial, Heard::default());
        }
        let given_up = GivenUp::new(&ledger, &self);
        let desk = self.caller.worker.shared.desk.as_ref();
        let ticket = desk.and_then(|desk| desk.put_up(self.held.clone()));
        let outcome = match ticket {
            Some(ticket) => self.hear(ticket, decide, gone).await,
            None => self.too_many(),
        };
        given_up.disarm();
        outcome
    }

    async fn hear(
        self,
        mut ticket: Ticket,
        decide: impl Fn(&Policy) -> Result<(), Box<Denial>> + Send,
        gone: impl Future<Output = ()> + Send,
    ) -> Outcome {
        let subject = self.caller.subject();
        let deadline = Instant::now() + self.most + LAST_WORD;
        let mut gone = std::pin::pin!(gone);
        loop {
            // From here on a change is heard, so that none falls between the look and the wait.
            let changed = subject.changed();
            let policy = subject.policy();
            match decide(&policy) {
                Ok(()) => return Outcome::Again(heard(None, "allowed_by:policy")),
                Err(now) if policy.holds(self.host, &now).is_none() => {
                    return Outcome::Denied(now, heard(None, "denied_by:policy"));
                }
                Err(_) => {}
            }
            tokio::select! {
                biased;
                reason = self.caller.guard.revoked() => return self.cut(reason),
                () = self.caller.worker.drain.cancelled() => {
                    return self.cut(DenyReason::ShuttingDown);
                }
                () = &mut gone => {
                    return self.denied("client_gone", "");
                }
                word = &mut ticket.word => return match word {
                    Ok(Word::Allow(who)) => {
                        let word = RuleRef(format!("once:{}", self.held.id).into());
                        Outcome::Again(heard(Some(word), &format!("allowed_by:{who}")))
                    }
                    Ok(Word::Deny(who)) => {
                        self.denied(&format!("denied_by:{who}"), "a person was asked and denied it")
                    }
                    Err(_) => self.denied("not_asked:unavailable", "nobody could be asked"),
                },
                () = tokio::time::sleep_until(deadline) => {
                    let most = self.most.as_secs();
                    let words = format!("a person was asked and did not answer within {most} seconds");
                    return self.denied(&format!("unanswered:{most}s"), &words);
                }
                () = changed => {}
            }
        }
    }

    fn cut(self, reason: DenyReason) -> Outcome {
        Outcome::Denied(self.caller.denial(reason), heard(None, "cut"))
    }

    fn too_many(self) -> Outcome {
        let words = "as many as may wait for a person do: try again later";
        self.denied("not_asked:too_many_wait", words)
    }

    fn denied(self, finding: &str, words: &str) -> Outcome {
        let mut denial = self.denial;
        if !words.is_empty() {
            denial.hint = format!("{}; {words}", denial.hint);
        }
        Outcome::Denied(denial, heard(None, finding))
    }
}

fn heard(word: Option<RuleRef>, finding: &str) -> Heard {
    Heard {
        word,
        findings: vec![HELD.into(), finding.into()],
    }
}

/// Records what waited and was given up before anything was heard: the program went away.
struct GivenUp<'a> {
    ledger: &'a Ledger,
    entry: Option<Entry>,
}

impl<'a> GivenUp<'a> {
    fn new(ledger: &'a Ledger, waiting: &Waiting<'_>) -> Self {
        let mut entry = waiting.entry.clone();
        let denial = &waiting.denial;
        fill_policy(&mut entry, &denial.policy, denial.rule.as_ref());
        entry.verdict = Some(VerdictWord::Deny);
        entry.reason = Some(denial.reason);
        entry.findings = heard(None, "client_gone").findings;
        Self {
            ledger,
            entry: Some(entry),
        }
    }

    fn disarm(mut self) {
        self.entry = None;
    }
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            // Told in the log where it is not.
            self.ledger.queue(entry).ok();
        }
    }
}

/// A word that was given in time, and taken as such, is on its way from another node for this long.
const LAST_WORD: Duration = Duration::from_secs(1);
