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
use tokio_util::sync::CancellationToken;

use crate::{
    accept::{Crew, Door, Handed, accept, take_over},
    descriptors::Descriptors,
    dns,
    settings::{ProxyListeners, Settings},
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

/// One thread's share.
struct Shift {
    worker: Arc<Worker>,
    redirect: TcpListener,
    explicit: TcpListener,
    handed: mpsc::Receiver<Handed>,
    identity: Identities,
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
    let mut threads = Vec::with_capacity(workers);
    for (index, handed) in ways.into_iter().enumerate() {
        let Some((worker, _)) = crew.get(index) else {
            break;
        };
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
            identity: Arc::clone(&identity),
            dns: dns.take(),
        };
        let crew = Crew {
            worker: Arc::clone(worker),
            others: Arc::clone(&crew),
            explicit_port,
        };
        threads.push(start_thread(index, shift, crew)?);
    }
    Ok(Proxy { drain, threads })
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
        recorder,
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
    let listen = |socket: TcpListener| {
        socket.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(socket)
    };
    for (socket, door) in [
        (shift.redirect, Door::Redirect),
        (shift.explicit, Door::Explicit),
    ] {
        match listen(socket) {
            Ok(listener) => {
                let identity = Arc::clone(&shift.identity);
                drop(tasks.spawn(accept(crew.clone(), listener, door, identity)));
            }
            Err(error) => tracing::error!(%error, "a listening socket cannot be served"),
        }
    }
    if let Some((udp, tcp)) = shift.dns {
        let serving = dns::server::serve(
            udp,
            tcp,
            Arc::clone(&shift.identity),
            worker.recorder().clone(),
            worker.drain.clone(),
        );
        drop(tasks.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "names cannot be served");
            }
        }));
    }
    drop(tasks.spawn(take_over(crew, shift.handed, shift.identity)));
    drop(tasks.spawn(sweep(Arc::clone(&worker))));
    worker.drain.cancelled().await;
    tasks.close();
    let patience = worker.deadlines().drain + AFTER_DRAIN;
    if tokio::time::timeout(patience, tasks.wait()).await.is_err() {
        tracing::info!("connections were cut because gig goes down");
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

impl Proxy {
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

/// Connections that may be on their way to one thread.
const HANDED: usize = 64;
/// For the last records and closing handshakes.
const AFTER_DRAIN: Duration = Duration::from_millis(500);
