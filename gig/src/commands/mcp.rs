//! `gig mcp NAME`: a registered server's program, run in a sandbox of the appliance, with this process's
//! standard streams. An MCP client starts it as it would start the server itself.
//!
//! Promises that octets pass unchanged, that each stream ends by itself, that the exit status is the
//! program's, and that the program ends when this process does, however that ends.

use std::{io::Write as _, os::fd::BorrowedFd, pin::pin, time::Duration};

use anyhow::{Context, bail};
use bytes::Bytes;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use gig_web::{PROFILE_HEADER, attachment::protocol};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, StatusCode, header, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use rustix::fs::{Mode, OFlags};
use serde_json::Value;
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::Role,
    },
};

use self::place::Place;
use crate::{
    args::serve::McpArgs,
    exit_status::ExitStatus,
    local_api::{self, segment},
    output::printable,
};

mod place;

/// Does it.
///
/// # Errors
/// When no appliance answers, it refuses, or the connection to it is lost.
pub(crate) fn execute(args: &McpArgs) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start gig's own runtime")?;
    let status = runtime.block_on(async {
        let place = Place::of(args)?;
        let (stream, place) = place.connect().await?;
        let socket = attach(stream, &place, args).await?;
        pass(socket).await
    });
    // A thread may wait for standard input for ever.
    runtime.shutdown_background();
    status
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Asks for the server and becomes a WebSocket. A refusal is in the appliance's own words.
async fn attach(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    place: &Place,
    args: &McpArgs,
) -> anyhow::Result<Socket> {
    let lost = "the appliance was lost";
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .context(lost)?;
    let key = generate_key();
    let mut request = Request::builder()
        .uri(format!("/api/v1/servers/{}/attach", segment(&args.server)))
        .header(header::HOST, place.authority())
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_PROTOCOL, protocol::PROTOCOL)
        .header(header::SEC_WEBSOCKET_KEY, &key);
    if let Some(token) = place.token() {
        request = request.header(header::AUTHORIZATION, token);
    }
    if let Some(profile) = &args.profile {
        request = request.header(PROFILE_HEADER, profile);
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let asked = async {
        let answer = sender.send_request(request).await.context(lost)?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LONGEST_REFUSAL).collect();
            let body = body.await.map(http_body_util::Collected::to_bytes);
            let refused = local_api::refused(status, &body.unwrap_or_default());
            match status {
                StatusCode::UNAUTHORIZED => refused.context(
                    "the appliance knows no such token as GIG_TOKEN holds, or its time is over: `gig token add` makes one",
                )?,
                _ => refused?,
            };
            bail!("the appliance answered {status} and no WebSocket");
        }
        let accept = answer.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        if accept.map(header::HeaderValue::as_bytes)
            != Some(derive_accept_key(key.as_bytes()).as_bytes())
        {
            bail!("what answered is no WebSocket: is the address an appliance's?");
        }
        hyper::upgrade::on(answer).await.context(lost)
    };
    let mut connection = pin!(connection.with_upgrades());
    let mut asked = pin!(asked);
    let upgraded = tokio::select! {
        upgraded = &mut asked => upgraded?,
        _ended = &mut connection => asked.await?,
    };
    let limits = Some(protocol::limits());
    Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, limits).await)
}

/// Passes octets until the program has ended.
async fn pass(socket: Socket) -> anyhow::Result<ExitStatus> {
    let (sink, stream) = socket.split();
    let mut incoming = pin!(incoming(stream));
    let mut outgoing = pin!(outgoing(sink));
    tokio::select! {
        status = &mut incoming => status,
        // It only ends when nothing can be sent: what was sent to us says why.
        () = &mut outgoing => incoming.await,
    }
}

/// Standard input to the program, and a sign of life now and then: whoever reads from us may stand still.
async fn outgoing(mut sink: SplitSink<Socket, Message>) {
    let Ok(mut stdin) = stream(rustix::stdio::stdin()) else {
        return;
    };
    let mut open = true;
    let mut octets = protocol::message(protocol::STDIN);
    let mut beat = tokio::time::interval(BEAT);
    loop {
        let message = tokio::select! {
            read = stdin.read_buf(&mut octets), if open => {
                open = matches!(read, Ok(1..));
                let next = protocol::message(protocol::STDIN);
                Message::Binary(std::mem::replace(&mut octets, next).freeze())
            }
            _ = beat.tick() => Message::Ping(Bytes::new()),
        };
        if sink.send(message).await.is_err() {
            return;
        }
    }
}

/// What the program prints, to where it belongs; then, how it ended.
async fn incoming(mut from: SplitStream<Socket>) -> anyhow::Result<ExitStatus> {
    let lost = "the connection to the appliance was lost: the program has ended";
    let mut stdout = Some(stream(rustix::stdio::stdout())?);
    let mut stderr = stream(rustix::stdio::stderr())?;
    let mut status = None;
    loop {
        let message = tokio::time::timeout(SILENCE, from.next()).await;
        let message = message.context("nothing was heard of the appliance for a minute")?;
        let message = match message {
            Some(message) => message.context(lost)?,
            None => bail!(lost),
        };
        match message {
            Message::Binary(octets) => match octets.split_first() {
                Some((&protocol::STDOUT, [])) => {
                    stdout = None;
                    close_stdout();
                }
                Some((&protocol::STDOUT, octets)) => {
                    if let Some(stdout) = &mut stdout {
                        let written = write(stdout, octets).await;
                        written.context("nobody reads standard output: the program is ended")?;
                    }
                }
                // Nobody need read its complaints.
                Some((&protocol::STDERR, octets)) => drop(write(&mut stderr, octets).await),
                _ => bail!("the appliance sent what is not understood"),
            },
            Message::Text(text) => {
                let said: Value = serde_json::from_str(&text).unwrap_or_default();
                let said = said.get("exit").and_then(Value::as_u64);
                status = said.and_then(|said| u8::try_from(said).ok());
            }
            Message::Close(frame) => {
                let (code, reason) = frame.map_or((0, String::new()), |frame| {
                    (frame.code.into(), frame.reason.to_string())
                });
                return ended(status, code, &reason);
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

/// The program's own status, with a word where it did not end by itself.
fn ended(status: Option<u8>, code: u16, reason: &str) -> anyhow::Result<ExitStatus> {
    let reason = printable(reason);
    match status {
        Some(status) => {
            if code != protocol::ENDED {
                // Nobody need read it.
                let _unread = writeln!(std::io::stderr(), "gig: {reason}");
            }
            Ok(ExitStatus(status))
        }
        None if reason.is_empty() => bail!("the appliance let go without a word"),
        None => bail!("the appliance let go: {reason}"),
    }
}

/// One of this process's standard streams; waited for beside the runtime.
fn stream(standard: BorrowedFd<'_>) -> anyhow::Result<File> {
    let own = standard.try_clone_to_owned();
    let own = own.context("a standard stream is closed")?;
    Ok(File::from_std(own.into()))
}

async fn write(to: &mut (impl AsyncWrite + Unpin), octets: &[u8]) -> std::io::Result<()> {
    to.write_all(octets).await?;
    to.flush().await
}

/// The program has closed its standard output: whoever reads ours is told.
fn close_stdout() {
    let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    // Without it the end comes with the process's own.
    let _closed = null.and_then(rustix::stdio::dup2_stdout);
}

/// Of a problem document.
const LONGEST_REFUSAL: usize = 1024 * 1024;
/// More often than the appliance asks.
const BEAT: Duration = Duration::from_secs(15);
/// The appliance asks four times in it.
const SILENCE: Duration = Duration::from_secs(70);
