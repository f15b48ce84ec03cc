//! Serves DNS on the sockets of the hub.
//!
//! Each datagram and each connection is attributed by its source address; nobody's are dropped.
//! Bounded: questions a second per sandbox, answers in the making, octets of a question, and the
//! life of a silent connection. What is dropped over a bound is counted and the count is recorded.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use gig_policy::{DenyReason, Fqdn, SandboxId};
use hickory_proto::rr::RecordType;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    answer::{self, Answer, Parsed, Question, Transport},
    synthetic::is_synthetic,
};
use crate::{
    descriptors::Descriptors,
    enforce::{ledger::Ledger, name::NameEnforcer},
    identity::Identity,
    queues::{accept_waiting, receive_waiting},
    subject::Subject,
};

/// How many questions or connections were dropped, by whose and why.
type Dropped = HashMap<(SandboxId, DenyReason), (Arc<Subject>, u64)>;

/// Answers queries on both sockets.
#[expect(missing_debug_implementations, reason = "an Identity has none")]
pub struct Server {
    udp: UdpSocket,
    tcp: TcpListener,
    identity: Arc<dyn Identity>,
    enforcer: NameEnforcer,
    descriptors: Descriptors,
    dropped: Mutex<Dropped>,
    answering: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    /// On these sockets, which must be non-blocking, until `stop`. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When a socket cannot be registered with the runtime.
    pub fn open(
        (udp, tcp): (std::net::UdpSocket, std::net::TcpListener),
        identity: Arc<dyn Identity>,
        (ledger, descriptors): (Ledger, Descriptors),
        stop: CancellationToken,
    ) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            udp: UdpSocket::from_std(udp)?,
            tcp: TcpListener::from_std(tcp)?,
            identity,
            enforcer: NameEnforcer::new(ledger),
            descriptors,
            dropped: Mutex::default(),
            answering: Arc::new(Semaphore::new(MAX_ANSWERING)),
            tasks: TaskTracker::new(),
            stop,
        }))
    }

    /// Answers until it is stopped; returns when the last answer is out.
    pub async fn serve(self: Arc<Self>) {
        tokio::join!(self.datagrams(), self.connections(), self.sweep());
        self.tasks.close();
        self.tasks.wait().await;
        self.enforcer.record_last_repeats().await;
        self.record_dropped().await;
    }

    /// Takes in what waits in both sockets: see [`crate::queues`].
    pub(crate) async fn empty(self: &Arc<Self>) {
        let take = |stream, from| match TcpStream::from_std(stream) {
            Ok(stream) => self.accepted(stream, from),
            // That one alone is lost.
            Err(error) => tracing::debug!(%error, "a DNS connection could not be taken in"),
        };
        accept_waiting(&self.tcp, take).await;
        let mut buffer = vec![0; MAX_QUESTION];
        let take = |bytes: &[u8], from| self.datagram(bytes, from);
        receive_waiting(&self.udp, &mut buffer, take).await;
    }

    async fn datagrams(self: &Arc<Self>) {
        let mut buffer = vec![0; MAX_QUESTION];
        loop {
            let received = tokio::select! {
                () = self.stop.cancelled() => return,
                received = self.udp.recv_from(&mut buffer) => received,
            };
            match received {
                Ok((length, from)) => {
                    self.datagram(buffer.get(..length).unwrap_or_default(), from);
                }
                Err(error) => {
                    tracing::debug!(%error, "receiving a question failed");
                    sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    fn datagram(self: &Arc<Self>, bytes: &[u8], from: SocketAddr) {
        let Some(subject) = self.subject(from) else {
            return;
        };
        let place = Arc::clone(&self.answering).try_acquire_owned();
        let (Some(wait), Ok(place)) = (subject.budget().question(), place) else {
            self.count_dropped(subject, DenyReason::RequestRate);
            return;
        };
        let parsed = answer::parse(bytes);
        let server = Arc::clone(self);
        self.tasks.spawn(async move {
            let _place = place;
            if !wait.is_zero() {
                sleep(wait).await;
            }
            let Some(reply) = server.reply(&subject, &parsed, Transport::Udp).await else {
                return;
            };
            // Of one that was closed the address may be another's by now. Looked at and sent in one go: before an
            // address has another owner this thread is asked for what waits, and that it does before or after this.
            if !subject.is_closed() {
                server.send(&reply, from);
            }
        });
    }

    /// A full send buffer is a lost datagram, as anywhere in UDP.
    fn send(&self, reply: &[u8], to: SocketAddr) {
        if let Err(error) = self.udp.try_send_to(reply, to) {
            tracing::debug!(%error, "an answer was not sent");
        }
    }

    async fn connections(self: &Arc<Self>) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = self.tcp.accept() => accepted,
            };
            match accepted {
                Ok((stream, from)) => self.accepted(stream, from),
                Err(error) => {
                    tracing::debug!(%error, "accepting a DNS connection failed");
                    sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    fn accepted(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let Some(subject) = self.subject(from) else {
            return;
        };
        let server = Arc::clone(self);
        self.tasks
            .spawn(async move { server.connection(subject, stream).await });
    }

    async fn connection(&self, subject: Arc<Subject>, mut stream: TcpStream) {
        // A descriptor like any other connection's, whatever the policy allows.
        let full = subject.connections() >= self.descriptors.for_sandbox();
        let accepted = match full {
            true => Err(DenyReason::ConnectionLimit),
            false => subject.accept(),
        };
        let guard = match accepted {
            Ok(guard) => guard,
            Err(reason) => return self.count_dropped(subject, reason),
        };
        let talk = async {
            stream.set_nodelay(true)?;
            while let Ok(true) = timeout(SILENCE, self.exchange(&subject, &mut stream)).await? {}
            io::Result::Ok(())
        };
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = guard.revoked() => {}
            ended = talk => if let Err(error) = ended {
                tracing::debug!(%error, "a DNS connection ended");
            },
        }
    }

    /// One question and its answer; `false` when the program is done.
    async fn exchange(&self, subject: &Arc<Subject>, stream: &mut TcpStream) -> io::Result<bool> {
        let length = match stream.read_u16().await {
            Ok(length) => usize::from(length),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        };
        let wait = subject.budget().question();
        let Some(wait) = wait.filter(|_| length <= MAX_QUESTION) else {
            self.count_dropped(Arc::clone(subject), DenyReason::RequestRate);
            return Ok(false);
        };
        if !wait.is_zero() {
            sleep(wait).await;
        }
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).await?;
        let parsed = answer::parse(&bytes);
        let Some(reply) = self.reply(subject, &parsed, Transport::Tcp).await else {
            return Ok(false);
        };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        // One write, so that length and message travel together (RFC 7766 §8).
        let framed = [&length.to_be_bytes()[..], &reply].concat();
        stream.write_all(&framed).await?;
        Ok(true)
    }

    /// The answer's bytes, recorded. `None` where nothing is answered: it asks nothing, or there are too many to
    /// be recorded each, which are counted.
    async fn reply(
        &self,
        subject: &Arc<Subject>,
        parsed: &Parsed,
        by: Transport,
    ) -> Option<Vec<u8>> {
        let answer = match parsed {
            Parsed::Nothing => return None,
            Parsed::Refused(refused) => {
                let denial = self.enforcer.refuse_unread(subject, refused).await;
                (denial.reason != DenyReason::RequestRate).then(|| refused.reply().to_vec())
            }
            Parsed::Question(question) => match self.decided(subject, question).await {
                Ok(answer) => Some(question.reply(&answer, by)),
                Err(DenyReason::RequestRate) => None,
                Err(reason) => Some(question.reply(&refusal(reason), by)),
            },
        };
        if answer.is_none() {
            self.count_dropped(Arc::clone(subject), DenyReason::RequestRate);
        }
        answer
    }

    async fn decided(&self, subject: &Subject, question: &Question) -> Result<Answer, DenyReason> {
        let text = question.text();
        let query_type = question.query_type();
        let type_word = question.type_word();
        let refuse = async |reason| {
            let denial = self.enforcer.refuse(subject, &text, &type_word, reason);
            denial.await.reason
        };
        if !question.is_plain() {
            return match refuse(DenyReason::UnsupportedProtocol).await {
                DenyReason::UnsupportedProtocol => Ok(Answer::Refused),
                reason => Err(reason),
            };
        }
        if let Some(own) = own_answer(subject, question, &text) {
            return Ok(own);
        }
        let Ok(name) = Fqdn::parse(&text) else {
            return Err(refuse(DenyReason::MalformedName).await);
        };
        let permit = self.enforcer.enforce(subject, &name, &type_word).await;
        let permit = permit.map_err(|denial| denial.reason)?;
        if query_type != RecordType::A {
            return Ok(Answer::Empty);
        }
        let address = subject.synthetic().address_of(permit.name());
        Ok(address.map_or(Answer::Failed(DenyReason::Internal), Answer::Address))
    }

    fn subject(&self, from: SocketAddr) -> Option<Arc<Subject>> {
        match from.ip().to_canonical() {
            IpAddr::V4(source) => self.identity.subject(source),
            IpAddr::V6(_) => None,
        }
    }

    fn count_dropped(&self, subject: Arc<Subject>, reason: DenyReason) {
        let mut dropped = self.dropped.lock();
        dropped
            .entry((subject.id(), reason))
            .or_insert_with(|| (subject, 0))
            .1 += 1;
    }

    async fn sweep(&self) {
        let mut tick = interval(SWEEP);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = tick.tick() => self.record_counts().await,
            }
        }
    }

    async fn record_counts(&self) {
        self.enforcer.record_repeats().await;
        self.record_dropped().await;
    }

    async fn record_dropped(&self) {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        let mut lost = false;
        for ((sandbox, reason), (subject, count)) in dropped {
            // While the record is lost, one try is enough.
            lost = lost || !self.enforcer.record_dropped(&subject, reason, count).await;
            if lost {
                let mut kept = self.dropped.lock();
                kept.entry((sandbox, reason)).or_insert((subject, 0)).1 += count;
            }
        }
    }
}

/// What is answered without asking policy, because it names nothing outside: `localhost`
/// (RFC 6761 §6.3) and the sandbox's own stand-in addresses.
fn own_answer(subject: &Subject, question: &Question, text: &str) -> Option<Answer> {
    let lower = text.to_ascii_lowercase();
    if lower == "localhost" || lower.ends_with(".localhost") {
        // No AAAA: sandboxes have no IPv6.
        return Some(match question.query_type() {
            RecordType::A => Answer::Address(Ipv4Addr::LOCALHOST),
            _ => Answer::Empty,
        });
    }
    let address = question
        .reverse()
        .filter(|address| is_synthetic(*address))?;
    Some(match subject.synthetic().name_of(address) {
        Some(name) => Answer::Pointer(name),
        None => Answer::Denied(DenyReason::HostNotAllowed),
    })
}

const fn refusal(reason: DenyReason) -> Answer {
    match reason {
        // Ours to cure: the program may ask again.
        DenyReason::RecordUnavailable | DenyReason::ShuttingDown | DenyReason::Internal => {
            Answer::Failed(reason)
        }
        _ => Answer::Denied(reason),
    }
}

/// A question is 12 octets, a name of 255, four, and EDNS options such as padding to 128.
const MAX_QUESTION: usize = 4096;
/// Answers that wait for their record at once, all sandboxes together.
const MAX_ANSWERING: usize = 8192;
/// RFC 7766 §6.2.3: "a default server application-level idle period ... on the order of a few seconds".
const SILENCE: Duration = Duration::from_secs(10);
/// Keeps a broken socket from eating a core.
const AFTER_FAILURE: Duration = Duration::from_millis(20);
/// How often counts of repeats and drops are recorded.
const SWEEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
