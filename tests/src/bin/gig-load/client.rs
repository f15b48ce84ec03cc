//! The sandboxed side: asks at a fixed rate, over connections to the explicit proxy that stay open.
//!
//! Each request has its moment, and how long it took is counted from that, also where every connection was still
//! busy then: who waits in line is not left out.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep_until, timeout},
};

/// What this program is told to be, by its first argument.
pub(crate) const WORD: &str = "--client";
/// Before the figures, on a line of their own.
pub(crate) const SAYS: &str = "figures=";

/// What to do.
pub(crate) struct Order {
    /// The origin's.
    pub(crate) port: u16,
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
    pub(crate) lanes: u64,
}

/// How it went.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// With 200.
    pub(crate) answered: u64,
    /// With another status.
    pub(crate) refused: u64,
    /// Not at all.
    pub(crate) failed: u64,
    seconds: f64,
    p50_us: u64,
    p99_us: u64,
    most_us: u64,
}

impl Order {
    pub(crate) fn words(&self) -> [String; 5] {
        let numbers = [u64::from(self.port), self.rate, self.seconds, self.lanes];
        let [port, rate, seconds, lanes] = numbers.map(|number| number.to_string());
        [WORD.to_owned(), port, rate, seconds, lanes]
    }

    fn of(words: &[String]) -> Self {
        let numbers: Vec<u64> = words
            .iter()
            .map(|word| word.parse().expect("a number"))
            .collect();
        let [port, rate, seconds, lanes] = numbers[..] else {
            panic!("four numbers")
        };
        Self {
            port: u16::try_from(port).expect("a port"),
            rate,
            seconds,
            lanes,
        }
    }
}

impl Figures {
    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |value: u64| Duration::from_micros(value);
        write!(
            f,
            "{} answered, {:.0} a second; refused: {}; unanswered: {}; from when it was due p50 {:?} p99 {:?} most {:?}",
            self.answered,
            self.rate(),
            self.refused,
            self.failed,
            us(self.p50_us),
            us(self.p99_us),
            us(self.most_us)
        )
    }
}

/// Asks as it was told, and says how it went.
pub(crate) fn run(words: &[String]) {
    let order = Order::of(words);
    let proxy = std::env::var("HTTP_PROXY").or_else(|_| std::env::var("http_proxy"));
    let proxy = proxy.expect("the sandbox's proxy");
    let proxy = proxy.trim_start_matches("http://").trim_end_matches('/');
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let figures = runtime.block_on(ask(&order, proxy));
    println!("{SAYS}{}", serde_json::to_string(&figures).expect("JSON"));
}

async fn ask(order: &Order, proxy: &str) -> Figures {
    let total = order.rate * order.seconds;
    let next = Arc::new(AtomicU64::new(0));
    let begun = Instant::now() + Duration::from_millis(200);
    let mut lanes = tokio::task::JoinSet::new();
    for _ in 0..order.lanes {
        let (next, proxy) = (Arc::clone(&next), proxy.to_owned());
        let (port, rate) = (order.port, order.rate);
        lanes.spawn(async move {
            let mut figures = Figures::default();
            let mut waits = Vec::new();
            let mut kept: Option<TcpStream> = None;
            loop {
                let n = next.fetch_add(1, Relaxed);
                if n >= total {
                    return (figures, waits);
                }
                let due = begun + Duration::from_micros(n * 1_000_000 / rate);
                sleep_until(due).await;
                let asked = once(kept.take(), &proxy, port, n);
                match timeout(PATIENCE, asked).await {
                    Ok(Ok((200, stream))) => {
                        figures.answered += 1;
                        kept = Some(stream);
                    }
                    Ok(Ok(_)) => figures.refused += 1,
                    Ok(Err(_)) | Err(_) => figures.failed += 1,
                }
                waits.push(due.elapsed());
            }
        });
    }
    let (mut figures, mut waits) = (Figures::default(), Vec::new());
    while let Some(lane) = lanes.join_next().await {
        let (one, theirs) = lane.expect("a lane");
        figures.answered += one.answered;
        figures.refused += one.refused;
        figures.failed += one.failed;
        waits.extend(theirs);
    }
    figures.seconds = begun.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_micros();
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| u64::try_from(at(part)).unwrap_or(u64::MAX));
    (figures.p50_us, figures.p99_us, figures.most_us) = (p50, p99, most);
    figures
}

/// The status, and the connection to go on with.
async fn once(
    kept: Option<TcpStream>,
    proxy: &str,
    port: u16,
    n: u64,
) -> std::io::Result<(u16, TcpStream)> {
    let mut stream = match kept {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(proxy).await?;
            stream.set_nodelay(true)?;
            stream
        }
    };
    // A few hundred paths, as programs have them.
    let request = format!(
        "GET http://127.0.0.1:{port}/items/{} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        n % 300
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is = name.eq_ignore_ascii_case("content-length");
            is.then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() < length.unwrap_or_default() {
            continue;
        }
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        return Ok((status.unwrap_or_default(), stream));
    }
}

/// Longer is no answer.
const PATIENCE: Duration = Duration::from_secs(10);
