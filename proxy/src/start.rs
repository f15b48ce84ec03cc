//! Starts the proxy's threads and brings them down again.

use std::{
    io,
    net::{TcpListener, UdpSocket},
    sync::Arc,
    thread,
    time::Duration,
};

use gig_audit::Recorder;
use gig_policy::Port;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    accept::{Crew, Door, Entrance, Handed, accept, take_over},
    descriptors::Descriptors,
    dns::server::Server,
    enforce::ledger::Ledger,
    identity::Constant,
    queues::{Asked, Line, Queues, line},
    settings::{ProxyListeners, Settings},
    subject::Subject,
    tls::{
        downstream::Terminator,
        leaf::{MintError, Minter},
        provider::provider,
        roots::LazyVerifier,
    },
    upstream::{
        dial::{Dialer, DialerSettings},
        pool::SWEEP_EVERY,
    },
    worker::{Identities, RequestIds, Shared, Worker},
};

/// The running proxy.
#[derive(Debug)]
#[must_use = "dropping it stops the proxy without waiting"]
pub struct Proxy {
    drain: CancellationToken,
    threads: Vec<(thread::JoinHandle<()>, oneshot::Receiver<()>)>,
    /// The way to each thread for sockets that come later.
    ways: Vec<mpsc::Sender<Opening>>,
    queues: Queues,
    ledger: Ledger,
    /// Which thread was given some last.
    turn: usize,
}

/// The proxy did not start.
#[derive(Debug, Error)]
pub enum StartProxyError {
    /// The explicit proxy's port is none.
    #[error("the explicit proxy's port must not be 0")]
    Port,
    /// No key for minted certificates.
    #[error("cannot prepare the certificates that sandboxes will see")]
    Mint(#[from] MintError),
    /// A socket cannot be shared by threads.
    #[error("cannot share a listening socket between threads")]
    Socket(#[source] io::Error),
    /// No thread or runtime.
    #[error("cannot start a thread of the proxy")]
    Thread(#[source] io::Error),
}

/// Sockets of one network are not served.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The explicit proxy's port is none.
    #[error("the explicit proxy's port must not be 0")]
    Port,
    /// The proxy goes down, or has too much to do.
    #[error("the proxy takes no further sockets at the moment")]
    Busy,
}

/// Sockets that are served as long as this is there; they are closed soon after.
#[derive(Debug)]
#[must_use = "dropping it closes the sockets"]
pub struct Listening {
    closed: CancellationToken,
    #[expect(dead_code, reason = "works by being dropped")]
    guard: DropGuard,
}

impl Listening {
    /// Completes when nothing is accepted any more, whoever saw to that.
    pub async fn ended(&self) {
        self.closed.cancelled().await;
    }
}

/// Sockets on their way to a thread.
#[derive(Debug)]
struct Opening {
    listeners: ProxyListeners,
    entrance: Arc<Entrance>,
}

/// One thread's share.
struct Shift {
    worker: Arc<Worker>,
    redirect: TcpListener,
    explicit: TcpListener,
    handed: mpsc::Receiver<Handed>,
    openings: mpsc::Receiver<Opening>,
    asked: Asked,
    entrance: Arc<Entrance>,
    /// The first thread also answers names.
    dns: Option<(UdpSocket, TcpListener)>,
}

/// Starts serving on `listeners`. Returns when every thread runs.
///
/// # Errors
/// When keys, sockets or threads are not to be had.
pub fn start(
    settings: Settings,
    listeners: ProxyListeners,
    identity: Identities,
    recorder: Recorder,
) -> Result<Proxy, StartProxyError> {
    let explicit_port = Port::new(settings.explicit_port).ok_or(StartProxyError::Port)?;
    let workers = settings.workers.max(1);
    let shared = shared(settings, recorder)?;
    let ledger = shared.ledger.clone();
    let drain = CancellationToken::new();
    let mut crew = Vec::with_capacity(workers);
    let mut ways = Vec::with_capacity(workers);
    for _ in 0..workers {
        let (way, handed) = mpsc::channel(HANDED);
        crew.push((Worker::new(Arc::clone(&shared), drain.clone()), way));
        ways.push(handed);
    }
    let crew: Arc<[_]> = crew.into();
    let mut dns = Some((listeners.dns_udp, listeners.dns_tcp));
    let entrance = Arc::new(Entrance {
        identity,
        explicit_port,
        closed: drain.clone(),
    });
    let mut lines: Vec<Line> = Vec::with_capacity(workers);
    let mut later = Vec::with_capacity(workers);
    let mut threads = Vec::with_capacity(workers);
    for (index, handed) in ways.into_iter().enumerate() {
        let Some((worker, _)) = crew.get(index) else {
            break;
        };
        let (way, openings) = mpsc::channel(OPENINGS);
        later.push(way);
        let (line, asked) = line();
        lines.push(line);
        let shift = Shift {
            worker: Arc::clone(worker),
            redirect: listeners
                .redirect
                .try_clone()
                .map_err(StartProxyError::Socket)?,
            explicit: listeners
                .explicit
                .try_clone()
                .map_err(StartProxyError::Socket)?,
            handed,
            openings,
            asked,
            entrance: Arc::clone(&entrance),
            dns: dns.take(),
        };
        let crew = Crew {
            worker: Arc::clone(worker),
            others: Arc::clone(&crew),
        };
        threads.push(start_thread(index, shift, crew)?);
    }
    Ok(Proxy {
        drain,
        threads,
        ways: later,
        queues: Queues::new(lines),
        ledger,
        turn: 0,
    })
}

/// What all threads share.
pub(crate) fn shared(
    settings: Settings,
    recorder: Recorder,
) -> Result<Arc<Shared>, StartProxyError> {
    let provider = Arc::new(provider());
    let minter = Minter::new(settings.authority, &provider)?;
    Ok(Arc::new(Shared {
        dialer: Dialer::new(DialerSettings {
            overrides: settings.resolve,
            upstream_proxy: settings.upstream_proxy,
            never_open: settings.never_open,
            deadlines: settings.deadlines.clone(),
        }),
        terminator: Terminator::new(minter, &provider),
        verifier: LazyVerifier::new(settings.upstream_roots, Arc::clone(&provider)),
        deadlines: settings.deadlines,
        ledger: recorder.into(),
        provider,
        ids: RequestIds::new(),
        descriptors: Descriptors::of_process(),
        desk: settings.desk,
    }))
}

fn start_thread(
    index: usize,
    shift: Shift,
    crew: Crew,
) -> Result<(thread::JoinHandle<()>, oneshot::Receiver<()>), StartProxyError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartProxyError::Thread)?;
    let (done, finished) = oneshot::channel();
    let handle = thread::Builder::new()
        .name(format!("proxy-{index}"))
        .spawn(move || {
            runtime.block_on(serve(shift, crew));
            // What is left after the drain is cut here.
            runtime.shutdown_timeout(AFTER_DRAIN);
            // Nobody waits when the proxy was dropped.
            let _nobody = done.send(());
        })
        .map_err(StartProxyError::Thread)?;
    Ok((handle, finished))
}

async fn serve(shift: Shift, crew: Crew) {
    let worker = shift.worker;
    let tasks = &worker.tasks;
    let doors = [
        (shift.redirect, Door::Redirect),
        (shift.explicit, Door::Explicit),
    ];
    let shared = Doors {
        doors: open_doors(&crew, doors, &shift.entrance),
        names: shift
            .dns
            .and_then(|dns| answer_names(&crew, dns, &shift.entrance)),
        entrance: shift.entrance,
    };
    drop(tasks.spawn(empty_when_asked(crew.clone(), shift.asked, shared)));
    drop(tasks.spawn(open_later(crew.clone(), shift.openings)));
    drop(tasks.spawn(take_over(crew, shift.handed)));
    drop(tasks.spawn(sweep(Arc::clone(&worker))));
    drop(tasks.spawn(count(Arc::clone(&worker))));
    worker.drain.cancelled().await;
    tasks.close();
    let patience = worker.deadlines().drain + AFTER_DRAIN;
    if tokio::time::timeout(patience, tasks.wait()).await.is_err() {
        tracing::info!("connections were cut because gig goes down");
    }
    worker.ledger().record_counts().await;
}

/// The sockets of this thread that all sandboxes share.
struct Doors {
    doors: Vec<(Arc<tokio::net::TcpListener>, Door)>,
    names: Option<Arc<Server>>,
    entrance: Arc<Entrance>,
}

impl Doors {
    async fn empty(&self, crew: &Crew) {
        for (listener, door) in &self.doors {
            crew.empty(listener, *door, &self.entrance).await;
        }
        if let Some(names) = &self.names {
            names.empty().await;
        }
    }
}

/// Accepts at both doors; returns those that can be served.
fn open_doors(
    crew: &Crew,
    doors: [(TcpListener, Door); 2],
    entrance: &Arc<Entrance>,
) -> Vec<(Arc<tokio::net::TcpListener>, Door)> {
    let listen = |socket: TcpListener| {
        socket.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(socket).map(Arc::new)
    };
    let mut open = Vec::with_capacity(doors.len());
    for (socket, door) in doors {
        match listen(socket) {
            Ok(listener) => {
                open.push((Arc::clone(&listener), door));
                let accepting = accept(crew.clone(), listener, door, Arc::clone(entrance));
                drop(crew.worker.tasks.spawn(accepting));
            }
            Err(error) => tracing::error!(%error, "a listening socket cannot be served"),
        }
    }
    open
}

fn answer_names(
    crew: &Crew,
    sockets: (UdpSocket, TcpListener),
    entrance: &Entrance,
) -> Option<Arc<Server>> {
    let server = Server::open(
        sockets,
        Arc::clone(&entrance.identity),
        (crew.worker.ledger().clone(), crew.worker.shared.descriptors),
        entrance.closed.clone(),
    );
    match server {
        Ok(server) => {
            let serving = Arc::clone(&server).serve();
            drop(crew.worker.tasks.spawn(serving));
            Some(server)
        }
        Err(error) => {
            tracing::error!(%error, "names cannot be served");
            None
        }
    }
}

/// Takes in what waits, each time somebody asks.
async fn empty_when_asked(crew: Crew, mut asked: Asked, shared: Doors) {
    let emptying = async {
        while let Some(turn) = asked.next().await {
            shared.empty(&crew).await;
            asked.show(turn);
        }
    };
    tokio::select! {
        () = emptying => {}
        () = crew.worker.drain.cancelled() => {}
    }
}

/// Serves sockets that come later.
async fn open_later(crew: Crew, mut openings: mpsc::Receiver<Opening>) {
    loop {
        let opening = tokio::select! {
            opening = openings.recv() => opening,
            () = crew.worker.drain.cancelled() => return,
        };
        let Some(Opening {
            listeners,
            entrance,
        }) = opening
        else {
            return;
        };
        let doors = [
            (listeners.redirect, Door::Redirect),
            (listeners.explicit, Door::Explicit),
        ];
        // Their address has no other owner: nobody asks for what waits in them.
        drop(open_doors(&crew, doors, &entrance));
        let names = (listeners.dns_udp, listeners.dns_tcp);
        drop(answer_names(&crew, names, &entrance));
    }
}

async fn sweep(worker: Arc<Worker>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP_EVERY) => worker.pool.sweep(),
            () = worker.drain.cancelled() => return worker.pool.clear(),
        }
    }
}

/// Tells what of denials has no record of its own. Whichever thread hears of it first does.
async fn count(worker: Arc<Worker>) {
    let over = worker.drain.cancelled();
    worker.ledger().record_counts_until(over).await;
}

impl Proxy {
    /// Where a sandbox that is over is to be told of, before its end is recorded.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// How many of its threads run, of how many.
    #[must_use]
    pub fn threads(&self) -> (usize, usize) {
        let running = self
            .threads
            .iter()
            .filter(|(thread, _)| !thread.is_finished());
        (running.count(), self.threads.len())
    }

    /// Whether the thread runs that answers names: the first.
    #[must_use]
    pub fn answers_names(&self) -> bool {
        let first = self.threads.first();
        first.is_some_and(|(thread, _)| !thread.is_finished())
    }

    /// By which it is shown that nothing of an address's former owner waits any more.
    #[must_use]
    pub fn queues(&self) -> Queues {
        self.queues.clone()
    }

    /// Serves sockets of a network that is one sandbox's alone, until what is returned is dropped. One
    /// thread accepts; connections are spread over all of them.
    ///
    /// # Errors
    /// When the explicit proxy's port is none, or too many are being opened.
    pub fn listen(
        &mut self,
        listeners: ProxyListeners,
        explicit_port: u16,
        subject: Arc<Subject>,
    ) -> Result<Listening, ListenError> {
        let explicit_port = Port::new(explicit_port).ok_or(ListenError::Port)?;
        let closed = self.drain.child_token();
        let entrance = Arc::new(Entrance {
            identity: Arc::new(Constant(subject)),
            explicit_port,
            closed: closed.clone(),
        });
        self.turn = (self.turn + 1).checked_rem(self.ways.len()).unwrap_or(0);
        let way = self.ways.get(self.turn).ok_or(ListenError::Busy)?;
        let opening = Opening {
            listeners,
            entrance,
        };
        way.try_send(opening).map_err(|_| ListenError::Busy)?;
        Ok(Listening {
            closed: closed.clone(),
            guard: closed.drop_guard(),
        })
    }

    /// Takes no new connections, lets open ones finish their requests within the drain deadline, cuts
    /// the rest, and returns when every thread is gone. Dropping the future leaves them to finish.
    pub async fn shutdown(mut self) {
        self.drain.cancel();
        for (thread, finished) in self.threads.drain(..) {
            // An error means that the thread died: joining tells.
            let _outcome = finished.await;
            if thread.join().is_err() {
                tracing::error!("a thread of the proxy panicked");
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

/// Networks whose sockets may be on their way to one thread.
const OPENINGS: usize = 16;
/// Connections that may be on their way to one thread.
const HANDED: usize = 64;
/// For the last records and closing handshakes.
const AFTER_DRAIN: Duration = Duration::from_millis(500);
