//! Starts one after the other, in turn with plain bwrap.

use std::fmt;
use std::io::Read as _;
use std::time::{Duration, Instant};

use gig_sandbox::{Network, Prepared};

use crate::lab::{self, Lab};

/// So long the hub has to fill its pool between two starts; nothing of it is
/// counted.
const BETWEEN: Duration = Duration::from_millis(60);

/// Milliseconds, each list in order.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    bwrap: Vec<f64>,
    ours: Vec<f64>,
    /// Lease, design, spawn, meet, go.
    steps: [Vec<f64>; 5],
}

/// Measures both in turn.
pub(crate) fn measure(lab: &Lab, count: usize) -> Starts {
    let runtime = runtime();
    let (hub, _listeners) = lab::hub(64);
    let mut starts = Starts::default();
    for _ in 0..count {
        std::thread::sleep(BETWEEN);
        starts.bwrap.push(plain(lab));
        std::thread::sleep(BETWEEN);
        let mut marks = vec![Instant::now()];
        let lease = hub.lease().expect("a lease");
        marks.push(Instant::now());
        let (design, stdin, mut says) = lab.design(&hub, &lease);
        marks.push(Instant::now());
        let starting = design
            .start(&hub, Network::Leased(&lease))
            .expect("a start");
        marks.push(Instant::now());
        let prepared: Prepared = starting.meet().expect("a sandbox");
        marks.push(Instant::now());
        let mut running = prepared.go().expect("a program");
        says.read_exact(&mut [0]).expect("the program's word");
        marks.push(Instant::now());
        for (step, pair) in starts.steps.iter_mut().zip(marks.windows(2)) {
            if let [begun, ended] = pair {
                step.push(millis(*ended - *begun));
            }
        }
        starts.ours.extend(
            marks
                .first()
                .zip(marks.last())
                .map(|(a, b)| millis(*b - *a)),
        );
        drop(stdin);
        runtime.block_on(running.wait()).expect("its end");
        hub.release(lease).expect("the slot back");
    }
    for list in [&mut starts.bwrap, &mut starts.ours]
        .into_iter()
        .chain(&mut starts.steps)
    {
        list.sort_by(f64::total_cmp);
    }
    starts
}

fn plain(lab: &Lab) -> f64 {
    let begun = Instant::now();
    let mut child = lab.bwrap().spawn().expect("bwrap");
    let mut stdout = child.stdout.take().expect("its output");
    stdout.read_exact(&mut [0]).expect("the program's word");
    let took = millis(begun.elapsed());
    drop(child.stdin.take());
    child.wait().expect("its end");
    took
}

/// A runtime for waiting.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn at(list: &[f64], hundredth: usize) -> f64 {
    list.get(list.len() * hundredth / 100)
        .copied()
        .unwrap_or(f64::NAN)
}

impl fmt::Display for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bwrap, ours) = (at(&self.bwrap, 50), at(&self.ours, 50));
        writeln!(
            f,
            "to the first instruction, ms: p10, p50, p90 of {} starts in turn",
            self.ours.len()
        )?;
        writeln!(
            f,
            "  plain bwrap    {:6.2} {bwrap:6.2} {:6.2}",
            at(&self.bwrap, 10),
            at(&self.bwrap, 90)
        )?;
        writeln!(
            f,
            "  from the pool  {:6.2} {ours:6.2} {:6.2}",
            at(&self.ours, 10),
            at(&self.ours, 90)
        )?;
        writeln!(
            f,
            "  ratio          {:6.2} {:6.2}   (to reach: 1.4)",
            at(&self.ours, 10) / at(&self.bwrap, 10),
            ours / bwrap
        )?;
        for (name, step) in ["lease", "design", "spawn", "meet", "go"]
            .iter()
            .zip(&self.steps)
        {
            writeln!(
                f,
                "    {name:10}   {:6.2} {:6.2} {:6.2}",
                at(step, 10),
                at(step, 50),
                at(step, 90)
            )?;
        }
        Ok(())
    }
}
