//! How fast bodies are looked through where nothing in them matches: octets a nanosecond on one core,
//! beside the gigabyte a second that each way has to reach.
//!
//! `cargo bench -p gig-proxy --bench scan [-- [--1|--16|--64] KIND…]`, in pieces of so many KiB. Answers go through the scrubber, uploads through what the
//! proxy makes for a body of their type: to a bound host guard and substituter, elsewhere the guard. Each figure
//! is the best of rounds, each so short that others seldom have a turn within it; what they take of the caches
//! remains. Of bodies in which pieces are put together there is a second line: what the first mebibyte costs,
//! where that is done, and what a long body costs as a whole, which is what the target is for. The last column
//! is how long AES-256-GCM, which every such octet goes through twice, takes for as much, as a share of the
//! slowest way: that says more than a figure where the machine is another. What somebody would write who wants
//! looking to take long is measured, and is not what the target is for.
//! `met` is a word, never an exit status; with `--check` kinds that fell far below it are one.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a measurement: it prints, times, and ends when it cannot"
)]

mod bodies;

use std::{process::ExitCode, sync::Arc, time::Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use gig_policy::{SandboxId, SecretGrant};
use gig_proxy::credential::{
    body::{BodyPlan, Passes, Trailing},
    memory::Memory,
    misuse::Bearer,
    place::{Places, Replacement},
    rewrite::Rewrite as _,
    scrub::{Fit, Scrub},
    swap::Swappable,
    tally::Tally,
    watch::{LiveSentinel, Watch},
};
use gig_vault::{Guarded, GuardedValue, Part, Secret, SecretBytes, Shape, Treatment};

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

use bodies::{Chance, KINDS, Kind};

fn main() -> ExitCode {
    let (options, wanted): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|arg| arg.starts_with('-'));
    let checks = options.iter().any(|option| option == "--check");
    let sealing = sealing();
    println!(
        "GB/s, the best of {ROUNDS} rounds; each at least {TARGET}; AES-256-GCM: {sealing:.2}"
    );
    println!(
        "{:<12} {:>7} {:>6} | {:>8} {:>8} {:>9} {:>5}",
        "body", "secrets", "piece", WAYS[0], WAYS[1], WAYS[2], "/AES"
    );
    let mut sums = Sums::default();
    for kind in &KINDS {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == kind.name) {
            continue;
        }
        let body = Bytes::from((kind.make)(LENGTH));
        for count in [0, 1, 10, 50] {
            let secrets = Secrets::new(count, kind.marked);
            for piece in [1, 16, 64] {
                // Few do that at once; what it costs shows well enough at one length.
                let wanted = options.is_empty() || options.contains(&format!("--{piece}"));
                if if count == 0 || checks {
                    piece != 16
                } else {
                    !wanted
                } {
                    continue;
                }
                sums.add(kind, &row(&secrets, kind, &body, (piece, sealing)));
            }
        }
    }
    sums.tell();
    match sums.low.as_slice() {
        [] => ExitCode::SUCCESS,
        low if checks => {
            println!("below {FLOOR} of what AES-256-GCM does: {}", low.join(", "));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Measures and prints one row, and perhaps one more; gives GB/s of each way, and the slowest beside `sealing`.
fn row(secrets: &Secrets, kind: &Kind, body: &Bytes, (piece, sealing): (usize, f64)) -> Row {
    let mut pieces = pieces(body, piece * 1024);
    let answer = secrets.answer(&pieces);
    let begin = format!("{:<12} {:>7} {piece:>4} K", kind.name, secrets.count());
    if kind.in_pieces {
        let [bound, elsewhere] = secrets.uploads(&pieces, kind);
        println!(
            "{begin} | {:>8} {bound:>8.2} {elsewhere:>9.2}  its beginning",
            ""
        );
        pieces = vec![pieces; LONG].concat();
    }
    let [bound, elsewhere] = secrets.uploads(&pieces, kind);
    let figures = [answer, bound, elsewhere];
    let beside = figures.into_iter().fold(f64::MAX, f64::min) / sealing;
    print!("{begin} | {answer:>8.2} {bound:>8.2} {elsewhere:>9.2} {beside:>5.2}");
    let missed: Vec<&str> = WAYS
        .into_iter()
        .zip(figures)
        .filter_map(|(way, figure)| (figure < TARGET).then_some(way))
        .collect();
    match (kind.hostile, missed.as_slice()) {
        (true, _) => println!("  hostile"),
        (false, []) => println!("  met"),
        (false, missed) => println!("  NOT MET: {}", missed.join(", ")),
    }
    Row { figures, beside }
}

struct Row {
    figures: [f64; WAYS.len()],
    beside: f64,
}

/// What all rows come to.
#[derive(Default)]
struct Sums {
    met: [usize; WAYS.len()],
    cells: usize,
    low: Vec<String>,
}

impl Sums {
    fn add(&mut self, kind: &Kind, row: &Row) {
        if kind.hostile {
            return;
        }
        self.cells += 1;
        for (figure, met) in row.figures.iter().zip(&mut self.met) {
            *met += usize::from(*figure >= TARGET);
        }
        let name = kind.name.to_owned();
        if row.beside < FLOOR && !self.low.contains(&name) {
            self.low.push(name);
        }
    }

    fn tell(&self) {
        for (way, met) in WAYS.iter().zip(self.met) {
            let word = if met == self.cells { "met" } else { "NOT MET" };
            println!(
                "{way}: {met} of {} cells reach {TARGET} GB/s: {word}",
                self.cells
            );
        }
    }
}

/// GB/s of AES-256-GCM in TLS records of 16 KiB.
fn sealing() -> f64 {
    let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("a key");
    let key = LessSafeKey::new(key);
    let records = pieces(&Bytes::from(vec![1; LENGTH]), 16 * 1024);
    best(&records, || {
        let mut gone = 0;
        for record in &records {
            let mut octets = record.to_vec();
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut octets);
            let _tag = std::hint::black_box(tag.expect("seals"));
            gone += octets.len();
        }
        gone
    })
}

/// Everything that is looked for.
struct Secrets {
    /// `None` where there is nothing to look for in answers.
    scrub: Option<Arc<Scrub>>,
    watch: Arc<Watch>,
    replacements: Vec<Swappable>,
    grants: Vec<SecretGrant>,
}

impl Secrets {
    fn new(count: usize, marked: bool) -> Self {
        let mut chance = Chance::new(7);
        let values: Vec<Vec<u8>> = (0..count)
            .map(|number| bodies::secret(number, marked, &mut chance))
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
                    part: Some(0),
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
                keeper: None,
            })
        };
        Self {
            scrub: Scrub::of(guarded(), &texts, &grants),
            watch: Arc::new(Watch::new(&live, &guarded())),
            replacements: values.iter().enumerate().map(replacement).collect(),
            grants,
        }
    }

    fn answer(&self, pieces: &[Bytes]) -> f64 {
        let Some(scrub) = &self.scrub else {
            return f64::INFINITY;
        };
        best(pieces, || {
            let mut scrubber = scrub.scrubber(Fit::Free);
            let mut gone = 0;
            for piece in pieces {
                gone += scrubber.pass(piece.clone()).len();
            }
            let mut rest = Vec::new();
            scrubber.finish(&mut rest).expect("scrubs");
            gone + rest.len()
        })
    }

    fn count(&self) -> usize {
        self.replacements.len()
    }

    /// To a host that all are bound to, and elsewhere.
    fn uploads(&self, pieces: &[Bytes], kind: &Kind) -> [f64; 2] {
        [&self.replacements[..], &[]].map(|swappable| {
            let grants = if swappable.is_empty() {
                &[]
            } else {
                &self.grants[..]
            };
            best(pieces, || self.upload(pieces, kind, (swappable, grants)))
        })
    }

    /// As the proxy has it for a body of this type.
    fn upload(
        &self,
        pieces: &[Bytes],
        kind: &Kind,
        (swappable, granted): (&[Swappable], &[SecretGrant]),
    ) -> usize {
        let bearer = Bearer {
            sandbox: sandbox(),
            granted,
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind.media));
        let plan = BodyPlan::new(
            &headers,
            (&self.watch, &bearer),
            (swappable.to_vec(), Trailing::default()),
            (&Arc::new(Tally::default()), &Memory::of_sandbox()),
        );
        let Passes {
            mut guard,
            mut rewrite,
            ..
        } = plan.passes();
        let mut out = Vec::with_capacity(2 * pieces[0].len());
        let mut gone = 0;
        for piece in pieces {
            if let Some(guard) = &mut guard {
                guard.look(piece).expect("nothing is refused");
            }
            out.clear();
            match &mut rewrite {
                Some(rewrite) => {
                    rewrite.push(piece, &mut out).expect("swaps");
                    gone += out.len();
                }
                None => gone += piece.len(),
            }
        }
        out.clear();
        if let Some(rewrite) = &mut rewrite {
            rewrite.finish(&mut out).expect("swaps");
        }
        gone + out.len()
    }
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
/// Of what AES-256-GCM does in the same run: five times as slow as any kind is has another reason than the machine.
const FLOOR: f64 = 0.02;
/// Little enough for a round to be over before somebody else has a turn.
const LENGTH: usize = 256 * 1024;
const ROUNDS: usize = 60;
/// How often a long body has it.
const LONG: usize = 64;
