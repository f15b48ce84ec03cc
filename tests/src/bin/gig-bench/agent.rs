//! The load agent: reads orders from standard input, carries them out, answers on standard output.
//!
//! One thread, so that it keeps to the core it is pinned to. The HTTP/1.1 side is written by hand
//! and does nothing that is not needed to count answers; HTTP/2 is hyper's.

use std::io::{BufRead as _, Write as _, stdin, stdout};

use tokio::time::Instant;

use crate::{
    bulk,
    http1::{Exchange, request_for},
    http2,
    order::{Answer, Figures, GO, Load, Order, PROXY, fresh_name},
    outcome::Outcome,
    stream::Opener,
};

/// Serves orders until standard input ends.
pub(crate) fn run() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    while let Some(line) = next_line()? {
        if line.trim() == PROXY {
            say(&Answer::Proxy(
                std::env::var("HTTPS_PROXY").unwrap_or_default(),
            ))?;
            continue;
        }
        let order: Order = serde_json::from_str(&line)?;
        let answer = match runtime.block_on(carry_out(order)) {
            Ok(figures) => Answer::Done(figures),
            Err(error) => Answer::Failed(error.to_string()),
        };
        say(&answer)?;
    }
    Ok(())
}

async fn carry_out(order: Order) -> Outcome<Figures> {
    let Order { route, load } = order;
    match load {
        Load::Requests {
            h2: true,
            lanes,
            seconds,
            bearer,
        } => http2::requests(&Opener::new(route, "h2")?, (lanes, seconds), bearer).await,
        Load::Requests {
            h2: false,
            lanes,
            seconds,
            bearer,
        } => {
            let opener = Opener::new(route, "http/1.1")?;
            let request = if bearer {
                opener.bearing()
            } else {
                request_for(&opener, "/1k")
            };
            requests(&opener, (lanes, seconds), &request).await
        }
        Load::Connections {
            lanes,
            count,
            fresh_from,
        } => connections(&Opener::new(route, "http/1.1")?, lanes, count, fresh_from).await,
        Load::Down(bytes) => bulk::down(&Opener::new(route, "http/1.1")?, bytes).await,
        Load::Up(bytes) => bulk::up(&Opener::new(route, "http/1.1")?, bytes).await,
        Load::Hold(count) => hold(&Opener::new(route, "http/1.1")?, count).await,
    }
}

async fn requests(
    opener: &Opener,
    (lanes, seconds): (u32, f64),
    request: &[u8],
) -> Outcome<Figures> {
    let mut exchanges = Vec::new();
    for _ in 0..lanes {
        let mut exchange = Exchange::new(opener.open().await?, request.to_vec());
        exchange.once().await?;
        exchanges.push(exchange);
    }
    ready()?;
    let start = Instant::now();
    let end = start + std::time::Duration::from_secs_f64(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for mut exchange in exchanges {
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(64 * 1024);
            let mut now = Instant::now();
            while now < end {
                exchange.once().await?;
                let then = Instant::now();
                times.push(then - now);
                now = then;
            }
            Outcome::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(lane) = tasks.join_next().await {
        times.extend(lane??);
    }
    Ok(figures(start, times))
}

async fn connections(
    opener: &Opener,
    lanes: u32,
    count: u32,
    fresh_from: Option<u32>,
) -> Outcome<Figures> {
    Exchange::new(opener.open().await?, request_for(opener, "/1k"))
        .once()
        .await?;
    ready()?;
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..lanes {
        let opener = opener.clone();
        tasks.spawn(async move {
            let mut times = Vec::new();
            for n in (lane..count).step_by(lanes as usize) {
                let begun = Instant::now();
                let host = fresh_from.map(|first| fresh_name(first + n));
                let (stream, request) = match &host {
                    Some(host) => (opener.open_as(host).await?, opener.request_as(host, "/1k")),
                    None => (opener.open().await?, request_for(&opener, "/1k")),
                };
                Exchange::new(stream, request).once().await?;
                times.push(begun.elapsed());
            }
            Outcome::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(lane) = tasks.join_next().await {
        times.extend(lane??);
    }
    Ok(figures(start, times))
}

/// The bench reads memory while these are held: between `ready` and `go`.
async fn hold(opener: &Opener, count: u32) -> Outcome<Figures> {
    let mut held = Vec::new();
    let start = Instant::now();
    for _ in 0..count {
        let mut exchange = Exchange::new(opener.open().await?, request_for(opener, "/1k"));
        exchange.once().await?;
        held.push(exchange);
    }
    ready()?;
    Ok(Figures {
        requests: held.len() as u64,
        seconds: start.elapsed().as_secs_f64(),
        ..Figures::default()
    })
}

/// Counts and percentiles of the answers since `start`.
pub(crate) fn figures(start: Instant, mut times: Vec<std::time::Duration>) -> Figures {
    let seconds = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times
            .get(index)
            .or_else(|| times.last())
            .map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    Figures {
        requests: times.len() as u64,
        seconds,
        bytes: 0,
        p50_us: at(0.50),
        p99_us: at(0.99),
    }
}

/// Tells the bench that all is open, and waits until it has read its clocks.
pub(crate) fn ready() -> Outcome<()> {
    say(&Answer::Ready)?;
    match next_line()? {
        Some(line) if line.trim() == GO => Ok(()),
        other => Err(format!("expected {GO:?}, got {other:?}").into()),
    }
}

fn say(answer: &Answer) -> Outcome<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    Ok(out.flush()?)
}

fn next_line() -> Outcome<Option<String>> {
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then_some(line))
}
