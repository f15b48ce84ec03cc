//! A whole appliance under load: `gig serve` on SQLite, and a sandbox that asks at a fixed rate.
//!
//! `gig-load [--gig PROGRAM] [--rate N] [--seconds N] [--lanes N]` starts an origin without TLS, the appliance in a
//! directory of its own, and in one of its sandboxes this program again, which asks RATE times a second over LANES
//! connections, whether or not it was answered. Meanwhile the console's first page and a search are asked for once a
//! second. It prints what was reached, and ends with 1 where a request was refused or unanswered, less than 98 % of
//! the rate was reached, or the record holds fewer requests than were answered. How much a machine of two cores bears
//! is measured so: `--rate 2000 --seconds 600` with a release build and nothing else running.
//!
//! `gig-load --sandboxes N` starts so many sandboxes of a program that sleeps, each for another person, and prints how
//! long that took and what all processes of the appliance take of memory when all run.
#![forbid(unsafe_code)]

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

mod appliance;
mod client;
mod crowd;
mod origin;

use appliance::Appliance;
use client::Figures;

struct Options {
    gig: PathBuf,
    rate: u64,
    seconds: u64,
    lanes: u64,
    /// So many at once, in place of requests.
    sandboxes: Option<u16>,
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == client::WORD) {
        client::run(&words.split_off(1));
        return ExitCode::SUCCESS;
    }
    let options = options(words.into_iter());
    let port = origin::start();
    let appliance = Appliance::start(&options.gig, port, options.sandboxes);
    if let Some(count) = options.sandboxes {
        crowd::run(&appliance, count);
        return ExitCode::SUCCESS;
    }
    println!(
        "== {} requests a second for {} s over {} connections",
        options.rate, options.seconds, options.lanes
    );
    let order = client::Order {
        port,
        rate: options.rate,
        seconds: options.seconds,
        lanes: options.lanes,
    };
    let sandbox = appliance.run(&order);
    let (mut pages, mut searches) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    let patience = Duration::from_secs(options.seconds + 120);
    let figures = loop {
        if let Some(figures) = appliance.figures(&sandbox) {
            break figures;
        }
        assert!(
            begun.elapsed() < patience,
            "the sandbox never said how it went"
        );
        pages.push(appliance.takes("/"));
        searches.push(appliance.takes("/audit?verdict=deny&host=127.0.0.1"));
        std::thread::sleep(Duration::from_secs(1));
    };
    println!("   {figures}");
    tell("the overview", &mut pages);
    tell("a search", &mut searches);
    let recorded = appliance.counted();
    println!("   recorded: {recorded} decisions that let something pass");
    let verdict = judged(&figures, &options, recorded);
    println!(
        "   {}",
        verdict.as_ref().map_or_else(String::as_str, |()| "held")
    );
    match verdict {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn judged(figures: &Figures, options: &Options, recorded: u64) -> Result<(), String> {
    if figures.refused + figures.failed > 0 {
        return Err("FAILED: some were refused or not answered".to_owned());
    }
    if figures.rate() < 0.98 * options.rate as f64 {
        return Err("FAILED: the rate was not reached".to_owned());
    }
    if recorded < figures.answered {
        return Err("FAILED: the record holds fewer than were answered".to_owned());
    }
    Ok(())
}

fn options(mut words: impl Iterator<Item = String>) -> Options {
    let here = std::env::current_exe().expect("this program");
    let mut options = Options {
        gig: here.with_file_name("gig"),
        rate: 2_000,
        seconds: 60,
        lanes: 64,
        sandboxes: None,
    };
    while let Some(word) = words.next() {
        let value = words
            .next()
            .unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--gig" => options.gig = value.into(),
            "--rate" => options.rate = value.parse().expect("a number"),
            "--seconds" => options.seconds = value.parse().expect("a number"),
            "--sandboxes" => options.sandboxes = Some(value.parse().expect("a number to 4096")),
            "--lanes" => options.lanes = value.parse().expect("a number"),
            _ => panic!("no option {word}"),
        }
    }
    options
}

fn tell(what: &str, waits: &mut [Duration]) {
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize];
    println!(
        "   {what}, asked for {} times: p50 {:?} p99 {:?} most {:?}",
        waits.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
