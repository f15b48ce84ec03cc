//! One large body, either way.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::Instant,
};

use crate::{
    agent::ready,
    http1::{Exchange, request_for},
    order::Figures,
    outcome::Outcome,
    stream::Opener,
};

/// Reads `/down` and throws it away; the origin must send exactly `bytes`.
pub(crate) async fn down(opener: &Opener, bytes: u64) -> Outcome<Figures> {
    let mut exchange = Exchange::new(opener.open().await?, request_for(opener, "/down"));
    ready()?;
    let start = Instant::now();
    let (length, mut come) = exchange.begin().await?;
    let mut buffer = vec![0; BUFFER];
    while come < length {
        match exchange.stream().read(&mut buffer).await? {
            0 => return Err(format!("the body ended after {come} of {length} octets").into()),
            n => come += n as u64,
        }
    }
    if length != bytes {
        return Err(format!("the body has {length} octets, not {bytes}").into());
    }
    Ok(moved(start, length))
}

/// Sends `bytes` of zeros; the sink answers when it has read them all.
pub(crate) async fn up(opener: &Opener, bytes: u64) -> Outcome<Figures> {
    let (host, port) = (opener.host(), opener.port());
    let head = format!(
        "POST /up HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: gig-bench\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\r\n"
    );
    let mut exchange = Exchange::new(opener.open().await?, head.into_bytes());
    ready()?;
    let start = Instant::now();
    exchange.send_head().await?;
    let buffer = vec![0; BUFFER];
    let mut left = bytes;
    while left > 0 {
        let part = buffer
            .get(..left.min(BUFFER as u64) as usize)
            .unwrap_or(&buffer);
        exchange.stream().write_all(part).await?;
        left -= part.len() as u64;
    }
    exchange.stream().flush().await?;
    exchange.answer().await?;
    Ok(moved(start, bytes))
}

fn moved(start: Instant, bytes: u64) -> Figures {
    let seconds = start.elapsed().as_secs_f64();
    Figures {
        requests: 1,
        seconds,
        bytes,
        ..Figures::default()
    }
}

/// What one read or write of the agent moves at most: four TLS records.
const BUFFER: usize = 64 * 1024;
