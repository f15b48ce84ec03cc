//! What the bench prints: the contenders' figures, and gig's against its targets.

use std::fmt::Write as _;

use crate::{
    measure::{Figure, Results},
    starts::Starts,
};

/// One row a contender.
pub(crate) fn figures(results: &Results, names: &[&'static str]) -> String {
    let mut text = String::new();
    for (title, columns) in TABLES {
        let _ = write!(text, "\n{title}\n{:<13}", "");
        for (head, ..) in *columns {
            let _ = write!(text, "{head:>15}");
        }
        text.push('\n');
        for name in names {
            let _ = write!(text, "{name:<13}");
            for (_, figure, decimals) in *columns {
                let _ = write!(
                    text,
                    "{:>15}",
                    cell(results.median(*figure, name), *decimals)
                );
            }
            text.push('\n');
        }
    }
    text
}

/// Start-up and idle memory.
pub(crate) fn starts(starts: Starts) -> String {
    let ratio = starts.gig.zip(starts.bwrap).map(|(gig, bwrap)| gig / bwrap);
    format!(
        "\nstart to end of `true`, p50: bwrap {} ms, gig run {} ms ({}x; at most 30 ms)\n\
         memory of an idle sandbox: bwrap's processes {} KiB (at most 800), gig and its hub {} KiB\n",
        cell(starts.bwrap, 1),
        cell(starts.gig, 1),
        cell(ratio, 1),
        cell(starts.sandbox_kib, 0),
        cell(starts.gig_kib, 0),
    )
}

/// gig's figures beside what they have to be. `met` is a word, never an exit status: other work on
/// the machine moves every absolute figure by a third.
pub(crate) fn targets(results: &Results, gig: &'static str) -> String {
    against(results, gig, TARGETS)
}

/// gig's figures with secrets beside its own without.
pub(crate) fn secrets(results: &Results, gig: &'static str) -> String {
    against(results, gig, OVER_NONE)
}

fn against(results: &Results, gig: &'static str, targets: &[Target]) -> String {
    let mut text = format!("\n{gig} against its targets\n");
    for target in targets {
        let (value, unit) = match target.over {
            None => (results.median(target.figure, gig), ""),
            Some(other) => (results.ratio(target.figure, gig, other), "x"),
        };
        let (word, met) = match target.bound {
            AtMost(limit) => (format!("<= {limit}{unit}"), value.map(|v| v <= limit)),
            AtLeast(limit) => (format!(">= {limit}{unit}"), value.map(|v| v >= limit)),
        };
        let met = match met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        let value = cell(value, if target.over.is_some() { 2 } else { 3 });
        let _ = writeln!(
            text,
            "  {:<52}{value:>12}{unit:<2}{word:>12}  {met}",
            target.what
        );
    }
    text
}

fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

type Column = (&'static str, Figure, usize);

const TABLES: &[(&str, &[Column])] = &[
    (
        "HTTP/1.1, 64 connections, and one",
        &[
            ("CPU s/10k req", Figure::Http1Cpu, 3),
            ("req/s", Figure::Http1Rate, 0),
            ("p50 us", Figure::Http1P50, 0),
            ("p99 us", Figure::Http1P99, 0),
            ("1: CPU s/10k", Figure::SingleCpu, 3),
            ("1: p50 us", Figure::SingleP50, 0),
        ],
    ),
    (
        "HTTP/2, 64 streams on one connection",
        &[
            ("CPU s/10k req", Figure::Http2Cpu, 3),
            ("req/s", Figure::Http2Rate, 0),
            ("p99 us", Figure::Http2P99, 0),
        ],
    ),
    (
        "With a credential: a secret where the contender has any",
        &[
            ("h1: CPU s/10k", Figure::Http1BearerCpu, 3),
            ("h1: p99 us", Figure::Http1BearerP99, 0),
            ("h2: CPU s/10k", Figure::Http2BearerCpu, 3),
            ("h2: p99 us", Figure::Http2BearerP99, 0),
        ],
    ),
    (
        "New TLS connections: a known name, and names never seen",
        &[
            ("CPU ms", Figure::CachedCpu, 3),
            ("conn/s", Figure::CachedRate, 0),
            ("p50 ms", Figure::CachedP50, 2),
            ("new: CPU ms", Figure::FreshCpu, 3),
            ("new: conn/s", Figure::FreshRate, 0),
        ],
    ),
    (
        "Bulk, and connections that are held",
        &[
            ("down MB/s", Figure::DownRate, 0),
            ("CPU s/GiB", Figure::DownCpu, 2),
            ("up MB/s", Figure::UpRate, 0),
            ("CPU s/GiB", Figure::UpCpu, 2),
            ("KiB/held", Figure::Held, 1),
        ],
    ),
];

struct Target {
    what: &'static str,
    figure: Figure,
    over: Option<&'static str>,
    bound: Bound,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

const fn target(
    what: &'static str,
    figure: Figure,
    over: Option<&'static str>,
    bound: Bound,
) -> Target {
    Target {
        what,
        figure,
        over,
        bound,
    }
}

use Bound::{AtLeast, AtMost};

/// What three secrets may cost, of which each request carries one.
const OVER_NONE: &[Target] = &[
    target(
        "a secret in each request, h1, 64 connections: CPU",
        Figure::Http1BearerCpu,
        Some("gig"),
        AtMost(1.15),
    ),
    target(
        "a secret in each request, h2, 64 streams: CPU",
        Figure::Http2BearerCpu,
        Some("gig"),
        AtMost(1.15),
    ),
    target(
        "secrets, and requests that carry none, h1: CPU",
        Figure::Http1Cpu,
        Some("gig"),
        AtMost(1.15),
    ),
    target(
        "secrets, and requests that carry none, h2: CPU",
        Figure::Http2Cpu,
        Some("gig"),
        AtMost(1.15),
    ),
];

const TARGETS: &[Target] = &[
    target(
        "CPU s / 10,000 requests, h1, 64 connections",
        Figure::Http1Cpu,
        None,
        AtMost(0.22),
    ),
    target(
        "  over the tunnel, both behind a veth",
        Figure::Http1Cpu,
        Some("tunnel veth"),
        AtMost(1.4),
    ),
    target(
        "  over the tunnel on loopback",
        Figure::Http1Cpu,
        Some("tunnel"),
        AtMost(1.4),
    ),
    target(
        "  over HAProxy, both behind a veth",
        Figure::Http1Cpu,
        Some("HAProxy veth"),
        AtMost(1.05),
    ),
    target(
        "  over HAProxy on loopback",
        Figure::Http1Cpu,
        Some("HAProxy"),
        AtMost(1.05),
    ),
    target(
        "CPU s / 10,000 requests, h2, 64 streams",
        Figure::Http2Cpu,
        None,
        AtMost(0.18),
    ),
    target(
        "  over HAProxy, both behind a veth",
        Figure::Http2Cpu,
        Some("HAProxy veth"),
        AtMost(1.2),
    ),
    target(
        "  over HAProxy on loopback",
        Figure::Http2Cpu,
        Some("HAProxy"),
        AtMost(1.2),
    ),
    target(
        "CPU s / 10,000 requests, h1, 1 connection",
        Figure::SingleCpu,
        None,
        AtMost(0.70),
    ),
    target(
        "p99 us, h1, 64 connections",
        Figure::Http1P99,
        None,
        AtMost(2_700.0),
    ),
    target(
        "CPU ms / new connection, leaf cached",
        Figure::CachedCpu,
        None,
        AtMost(0.20),
    ),
    target(
        "  over HAProxy, both behind a veth",
        Figure::CachedCpu,
        Some("HAProxy veth"),
        AtMost(0.7),
    ),
    target(
        "  over HAProxy on loopback",
        Figure::CachedCpu,
        Some("HAProxy"),
        AtMost(0.7),
    ),
    target(
        "CPU ms / new connection, name never seen",
        Figure::FreshCpu,
        None,
        AtMost(0.60),
    ),
    target(
        "  over the tunnel, both behind a veth",
        Figure::FreshCpu,
        Some("tunnel veth"),
        AtMost(2.7),
    ),
    target(
        "  over the tunnel on loopback",
        Figure::FreshCpu,
        Some("tunnel"),
        AtMost(2.7),
    ),
    target(
        "p50 ms to the answer, new connection",
        Figure::CachedP50,
        None,
        AtMost(1.3),
    ),
    target("GiB down, MB/s", Figure::DownRate, None, AtLeast(850.0)),
    target("GiB down, CPU s", Figure::DownCpu, None, AtMost(0.9)),
    target("GiB up, MB/s", Figure::UpRate, None, AtLeast(1_300.0)),
    target("GiB up, CPU s", Figure::UpCpu, None, AtMost(0.75)),
    target("KiB / held connection", Figure::Held, None, AtMost(40.0)),
];
