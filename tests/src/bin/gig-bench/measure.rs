//! The rounds: every contender does the same piece of load, one after the other, before the next
//! piece begins. What else the machine does then falls on all of them alike, and ratios hold
//! within one round.

use std::collections::BTreeMap;

use crate::{
    contender::{Contender, Sample},
    order::Load,
    origin::Origin,
    outcome::Outcome,
};

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Rounds; medians are over these.
    pub(crate) rounds: u32,
    /// Seconds of each keep-alive load.
    pub(crate) seconds: f64,
    /// New connections of each connection load.
    pub(crate) connections: u32,
    /// Connections to names never seen, each round.
    pub(crate) fresh: u32,
    /// Octets of a bulk body.
    pub(crate) bulk: u64,
    /// Connections held open.
    pub(crate) held: u32,
    /// Starts of a sandbox.
    pub(crate) starts: u32,
}

impl Scale {
    /// As the figures of a release are made.
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        seconds: 4.0,
        connections: 1_500,
        fresh: 600,
        bulk: 1 << 30,
        held: 400,
        starts: 41,
    };
    /// Under a minute: shows that everything runs, not how fast.
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        seconds: 0.7,
        connections: 150,
        fresh: 60,
        bulk: 128 << 20,
        held: 100,
        starts: 7,
    };
}

/// What is measured, in the table's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    /// CPU seconds for 10,000 requests: HTTP/1.1, 64 connections.
    Http1Cpu,
    /// Requests a second in the same load.
    Http1Rate,
    /// Microseconds.
    Http1P50,
    /// Microseconds.
    Http1P99,
    /// CPU seconds for 10,000 requests: HTTP/2, one connection, 64 streams.
    Http2Cpu,
    /// Requests a second in the same load.
    Http2Rate,
    /// Microseconds.
    Http2P99,
    /// CPU seconds for 10,000 requests with a credential: HTTP/1.1, 64 connections.
    Http1BearerCpu,
    /// Microseconds.
    Http1BearerP99,
    /// CPU seconds for 10,000 requests with a credential: HTTP/2, one connection, 64 streams.
    Http2BearerCpu,
    /// Microseconds.
    Http2BearerP99,
    /// CPU seconds for 10,000 requests: HTTP/1.1, one connection.
    SingleCpu,
    /// Microseconds.
    SingleP50,
    /// CPU milliseconds for a new TLS connection, name known.
    CachedCpu,
    /// New TLS connections a second, name known.
    CachedRate,
    /// Milliseconds from connecting to the answer, one connection at a time.
    CachedP50,
    /// CPU milliseconds for a new TLS connection, name never seen.
    FreshCpu,
    /// New TLS connections a second, name never seen.
    FreshRate,
    /// Megabytes (10^6 octets) a second towards the client.
    DownRate,
    /// CPU seconds for a GiB towards the client.
    DownCpu,
    /// Megabytes a second towards the origin.
    UpRate,
    /// CPU seconds for a GiB towards the origin.
    UpCpu,
    /// KiB for a held connection.
    Held,
}

/// Every value of every contender, by round.
#[derive(Debug, Default)]
pub(crate) struct Results(BTreeMap<(Figure, &'static str), Vec<Option<f64>>>);

impl Results {
    fn add(&mut self, figure: Figure, contender: &'static str, value: Option<f64>) {
        self.0.entry((figure, contender)).or_default().push(value);
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, figure: Figure, contender: &'static str) -> Option<f64> {
        let values = self.0.get(&(figure, contender))?;
        median(values.iter().copied().flatten().collect())
    }

    /// The median of the rounds' ratios between two contenders.
    pub(crate) fn ratio(
        &self,
        figure: Figure,
        one: &'static str,
        other: &'static str,
    ) -> Option<f64> {
        let (one, other) = (self.0.get(&(figure, one))?, self.0.get(&(figure, other))?);
        let ratios = one
            .iter()
            .zip(other)
            .filter_map(|(a, b)| Some((*a)? / (*b)?));
        median(ratios.collect())
    }
}

/// The middle value.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Runs all rounds. A piece of load that fails is told on standard error and left out.
pub(crate) fn all(
    contenders: &mut [Contender],
    origin: &Origin,
    (scale, pieces): (Scale, &[Piece]),
) -> Results {
    let mut results = Results::default();
    // Memory first: what a proxy keeps after a bulk transfer is not a connection's.
    if pieces.contains(&Piece::Held) {
        for contender in &mut *contenders {
            let held = heard(contender.held(origin, scale.held)).flatten();
            results.add(Figure::Held, contender.name, held);
        }
    }
    // The first read of the origin's file fills the page cache.
    if pieces.contains(&Piece::Down)
        && let Some(first) = contenders.first_mut()
    {
        heard(first.measure(origin, Load::Down(scale.bulk)));
    }
    for round in 0..scale.rounds {
        eprintln!("round {} of {}", round + 1, scale.rounds);
        for piece in pieces {
            for contender in &mut *contenders {
                let Some(load) = piece.load(scale, round) else {
                    continue;
                };
                if matches!(load, Load::Requests { h2: true, .. }) && !contender.h2 {
                    continue;
                }
                let sample = heard(contender.measure(origin, load));
                piece.read(sample, scale, |figure, value| {
                    results.add(figure, contender.name, value);
                });
            }
        }
    }
    results
}

fn heard<T>(outcome: Outcome<T>) -> Option<T> {
    outcome
        .inspect_err(|error| eprintln!("  left out: {error}"))
        .ok()
}

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Held,
    Http1,
    Http2,
    Http1Bearer,
    Http2Bearer,
    Single,
    Cached,
    CachedOneByOne,
    Fresh,
    Down,
    Up,
}

/// All of them, in the order of a round.
pub(crate) const PIECES: [Piece; 11] = [
    Piece::Held,
    Piece::Http1,
    Piece::Http2,
    Piece::Http1Bearer,
    Piece::Http2Bearer,
    Piece::Single,
    Piece::Cached,
    Piece::CachedOneByOne,
    Piece::Fresh,
    Piece::Down,
    Piece::Up,
];

impl Piece {
    /// The piece that `--load` calls so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        PIECES
            .into_iter()
            .find(|piece| format!("{piece:?}").eq_ignore_ascii_case(name))
    }

    fn load(self, scale: Scale, round: u32) -> Option<Load> {
        let seconds = scale.seconds;
        let count = scale.connections;
        Some(match self {
            // Measured before the rounds.
            Self::Held => return None,
            Self::Http1 | Self::Http1Bearer => Load::Requests {
                h2: false,
                lanes: 64,
                seconds,
                bearer: self == Self::Http1Bearer,
            },
            Self::Http2 | Self::Http2Bearer => Load::Requests {
                h2: true,
                lanes: 64,
                seconds,
                bearer: self == Self::Http2Bearer,
            },
            Self::Single => Load::Requests {
                h2: false,
                lanes: 1,
                seconds,
                bearer: false,
            },
            Self::Cached => Load::Connections {
                lanes: 8,
                count,
                fresh_from: None,
            },
            Self::CachedOneByOne => Load::Connections {
                lanes: 1,
                count: count / 3,
                fresh_from: None,
            },
            Self::Fresh => {
                let fresh_from = Some(round * scale.fresh);
                Load::Connections {
                    lanes: 8,
                    count: scale.fresh,
                    fresh_from,
                }
            }
            Self::Down => Load::Down(scale.bulk),
            Self::Up => Load::Up(scale.bulk),
        })
    }

    fn read(self, sample: Option<Sample>, scale: Scale, mut add: impl FnMut(Figure, Option<f64>)) {
        let figures = sample.map(|sample| sample.figures);
        let requests = figures.map(|f| f.requests as f64);
        let cpu = sample.and_then(|sample| sample.cpu);
        let each = |unit: f64| cpu.zip(requests).map(|(cpu, n)| cpu * unit / n);
        let rate = figures.map(|f| f.requests as f64 / f.seconds);
        let p50 = figures.map(|f| f.p50_us);
        let p99 = figures.map(|f| f.p99_us);
        let megabytes = figures.map(|f| f.bytes as f64 / f.seconds / 1e6);
        let gib = cpu.map(|cpu| cpu * (1u64 << 30) as f64 / scale.bulk as f64);
        match self {
            Self::Held => {}
            Self::Http1 => {
                add(Figure::Http1Cpu, each(10_000.0));
                add(Figure::Http1Rate, rate);
                add(Figure::Http1P50, p50);
                add(Figure::Http1P99, p99);
            }
            Self::Http2 => {
                add(Figure::Http2Cpu, each(10_000.0));
                add(Figure::Http2Rate, rate);
                add(Figure::Http2P99, p99);
            }
            Self::Http1Bearer => {
                add(Figure::Http1BearerCpu, each(10_000.0));
                add(Figure::Http1BearerP99, p99);
            }
            Self::Http2Bearer => {
                add(Figure::Http2BearerCpu, each(10_000.0));
                add(Figure::Http2BearerP99, p99);
            }
            Self::Single => {
                add(Figure::SingleCpu, each(10_000.0));
                add(Figure::SingleP50, p50);
            }
            Self::Cached => {
                add(Figure::CachedCpu, each(1_000.0));
                add(Figure::CachedRate, rate);
            }
            Self::CachedOneByOne => add(Figure::CachedP50, p50.map(|us| us / 1_000.0)),
            Self::Fresh => {
                add(Figure::FreshCpu, each(1_000.0));
                add(Figure::FreshRate, rate);
            }
            Self::Down => {
                add(Figure::DownRate, megabytes);
                add(Figure::DownCpu, gib);
            }
            Self::Up => {
                add(Figure::UpRate, megabytes);
                add(Figure::UpCpu, gib);
            }
        }
    }
}
