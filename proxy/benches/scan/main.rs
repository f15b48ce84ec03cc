//! How fast bodies are looked through where nothing in them matches: octets a nanosecond on one core,
//! beside the gigabyte a second that each way has to reach.
//!
//! `cargo bench -p gig-proxy --bench scan [-- KIND…]`. Answers go through the scrubber, uploads to a bound
//! host through guard and substituter, uploads elsewhere through the guard. Each figure is the best of
//! rounds, each so short that others seldom have a turn within it; what they take of the caches remains.
//! Of bodies in which pieces are put together there is a second line: what the first mebibyte costs, where
//! that is done, and what a long body costs as a whole, which is what the target is for.
//! `met` is a word, never an exit status.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a measurement: it prints, times, and ends when it cannot"
)]

mod bodies;

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use gig_policy::{SandboxId, SecretGrant};
use gig_proxy::credential::{
    misuse::{Bearer, Guard, Pieces},
    place::{Escape, Places, Replacement},
    rewrite::Rewrite,
    scrub::{Fit, Scrub},
    swap::{Swap, Swappable},
    tally::Tally,
    watch::{LiveSentinel, Watch},
};
use gig_vault::{Guarded, GuardedValue, Part, Secret, SecretBytes, Shape, Treatment};

use bodies::{Chance, KINDS};

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    println!("GB/s, the best of {ROUNDS} rounds; each at least {TARGET}");
    println!(
        "{:<12} {:>7} {:>6} | {:>8} {:>8} {:>9}",
        "body", "secrets", "piece", WAYS[0], WAYS[1], WAYS[2]
    );
    let (mut met, mut cells) = ([0; WAYS.len()], 0);
    for (kind, make) in KINDS {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == kind) {
            continue;
        }
        let body = Bytes::from(make(LENGTH));
        for count in [1, 10, 50] {
            let secrets = Secrets::new(count);
            for piece in [1, 16, 64] {
                let mut pieces = pieces(&body, piece * 1024);
                let mut figures = [
                    secrets.answer(&pieces),
                    secrets.bound(&pieces, kind),
                    secrets.elsewhere(&pieces, kind),
                ];
                if in_pieces(kind) {
                    let [_, bound, elsewhere] = figures;
                    println!(
                        "{kind:<12} {count:>7} {:>6} | {:>8} {bound:>8.2} {elsewhere:>9.2}  its beginning",
                        format!("{piece} K"),
                        "",
                    );
                    pieces = vec![pieces; LONG].concat();
                    figures = [
                        figures[0],
                        secrets.bound(&pieces, kind),
                        secrets.elsewhere(&pieces, kind),
                    ];
                }
                let [answer, bound, elsewhere] = figures;
                print!(
                    "{kind:<12} {count:>7} {:>6} | {answer:>8.2} {bound:>8.2} {elsewhere:>9.2}",
                    format!("{piece} K"),
                );
                cells += 1;
                let mut missed = Vec::new();
                for ((way, figure), met) in WAYS.iter().zip(figures).zip(&mut met) {
                    if figure >= TARGET {
                        *met += 1;
                    } else {
                        missed.push(*way);
                    }
                }
                if missed.is_empty() {
                    println!("  met");
                } else {
                    println!("  NOT MET: {}", missed.join(", "));
                }
            }
        }
    }
    for (way, met) in WAYS.iter().zip(met) {
        let word = if met == cells { "met" } else { "NOT MET" };
        println!("{way}: {met} of {cells} cells reach {TARGET} GB/s: {word}");
    }
}

/// Everything that is looked for.
struct Secrets {
    scrub: Arc<Scrub>,
    watch: Arc<Watch>,
    replacements: Vec<Swappable>,
}

impl Secrets {
    fn new(count: usize) -> Self {
        let mut chance = Chance::new(7);
        let values: Vec<Vec<u8>> = (0..count)
            .map(|number| bodies::secret(number, &mut chance))
            .collect();
        let sentinels: Vec<Arc<str>> = (0..count)
            .map(|_| format!("gigph-{}", chance.hex(32)).into())
            .collect();
        let guarded = || Guarded {
            generation: 1,
            values: values
                .iter()
                .enumerate()
                .map(|(number, value)| GuardedValue {
                    name: name(number),
                    version: 1,
                    value: Arc::new(SecretBytes::new(value.clone())),
                    current: true,
                })
                .collect(),
        };
        let live: Vec<LiveSentinel> = sentinels
            .iter()
            .enumerate()
            .map(|(number, text)| LiveSentinel {
                sandbox: sandbox(),
                name: name(number),
                text: Arc::clone(text),
            })
            .collect();
        let texts: Vec<&str> = sentinels.iter().map(|text| &**text).collect();
        let grants: Vec<SecretGrant> = (0..count)
            .map(|number| SecretGrant::everywhere(name(number)))
            .collect();
        let replacement = |(number, value): (usize, &Vec<u8>)| {
            let part = Part {
                variable: "T".into(),
                value: SecretBytes::new(value.clone()),
                shape: Shape::Plain,
            };
            Swappable::Ready(Replacement {
                sentinel: Arc::clone(&sentinels[number]),
                secret: Arc::new(Secret {
                    name: name(number),
                    version: 1,
                    parts: vec![part],
                    treatment: Treatment::Replace,
                    entrusted: false,
                }),
                part: 0,
                places: Places::default(),
            })
        };
        Self {
            scrub: Scrub::of(guarded(), &texts, &grants).expect("values"),
            watch: Arc::new(Watch::new(&live, &guarded())),
            replacements: values.iter().enumerate().map(replacement).collect(),
        }
    }

    fn answer(&self, pieces: &[Bytes]) -> f64 {
        best(pieces, || {
            let mut scrubber = self.scrub.scrubber(Fit::Free);
            let mut gone = 0;
            for piece in pieces {
                gone += scrubber.pass(piece.clone()).len();
            }
            let mut rest = Vec::new();
            scrubber.finish(&mut rest).expect("scrubs");
            gone + rest.len()
        })
    }

    fn bound(&self, pieces: &[Bytes], kind: &str) -> f64 {
        best(pieces, || {
            let tally = Arc::new(Tally::default());
            let mut guard = self.guard(&tally, kind);
            let mut swap = Swap::new(self.replacements.clone(), Escape::Json, &tally);
            let mut out = Vec::with_capacity(2 * pieces[0].len());
            let mut gone = 0;
            for piece in pieces {
                guard.look(piece).expect("nothing is refused");
                out.clear();
                swap.push(piece, &mut out).expect("swaps");
                gone += out.len();
            }
            out.clear();
            swap.finish(&mut out).expect("swaps");
            gone + out.len()
        })
    }

    fn elsewhere(&self, pieces: &[Bytes], kind: &str) -> f64 {
        best(pieces, || {
            let tally = Arc::new(Tally::default());
            let mut guard = self.guard(&tally, kind);
            for piece in pieces {
                guard.look(piece).expect("nothing is refused");
            }
            pieces.iter().map(Bytes::len).sum()
        })
    }

    /// As a body of this kind has it: what is in pieces in it is put together.
    fn guard(&self, tally: &Arc<Tally>, kind: &str) -> Guard {
        let bearer = Bearer {
            sandbox: sandbox(),
            granted: &[],
        };
        let pieces = match kind {
            "form" => Pieces::form(),
            kind if in_pieces(kind) => Pieces::json(),
            _ => Pieces::never(),
        };
        Guard::new(&self.watch, &bearer, ("body", kind == "form"), tally).in_pieces(pieces)
    }
}

/// Whether pieces are put together in a body of this kind.
fn in_pieces(kind: &str) -> bool {
    kind == "form" || kind.contains("json")
}

fn sandbox() -> SandboxId {
    SandboxId::new(uuid::Uuid::nil())
}

fn name(number: usize) -> gig_policy::SecretName {
    format!("SECRET_{number}").parse().expect("a name")
}

fn pieces(body: &Bytes, length: usize) -> Vec<Bytes> {
    let starts = (0..body.len()).step_by(length);
    starts
        .map(|at| body.slice(at..body.len().min(at + length)))
        .collect()
}

/// Octets a nanosecond of the quickest round.
fn best(pieces: &[Bytes], round: impl Fn() -> usize) -> f64 {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let rounds = if length > LENGTH {
        ROUNDS / LONG.min(ROUNDS) + 2
    } else {
        ROUNDS
    };
    let quickest = (0..rounds).map(|_| {
        let begun = Instant::now();
        assert_eq!(round(), length, "nothing matches");
        begun.elapsed()
    });
    length as f64 / quickest.min().unwrap().as_nanos() as f64
}

/// What bodies go through, and by which name.
const WAYS: [&str; 3] = ["answer", "bound", "elsewhere"];
/// GB/s on one core where nothing matches.
const TARGET: f64 = 1.0;
/// Little enough for a round to be over before somebody else has a turn.
const LENGTH: usize = 256 * 1024;
const ROUNDS: usize = 60;
/// How often a long body has it.
const LONG: usize = 64;
