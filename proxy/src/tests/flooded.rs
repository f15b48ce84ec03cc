//! One sandbox asks without end for what it may not have: its neighbour is served, and the record keeps its measure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gig_audit::{Event, VerdictWord};
use http::StatusCode;
use tokio::{task::JoinSet, time::Instant};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{Client, get},
    origin::{Origin, hello},
};

const FLOODING: usize = 16;

/// How long each of some requests took, sorted.
async fn served(client: &mut Client) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        assert_eq!(
            client.send(get("http://api.test/")).await.status,
            StatusCode::OK
        );
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times
}

/// Connections that are denied until they are told to stop; counts the denials.
async fn flood(lab: &Lab, stop: &Arc<AtomicBool>, denied: &Arc<AtomicU64>) -> JoinSet<()> {
    let mut flooding = JoinSet::new();
    for _ in 0..FLOODING {
        let mut client = lab.http("evil.test").await;
        let (stop, denied) = (Arc::clone(stop), Arc::clone(denied));
        flooding.spawn(async move {
            while !stop.load(Relaxed) {
                let answer = client.send(get("http://evil.test/")).await;
                assert_eq!(answer.status, StatusCode::FORBIDDEN);
                denied.fetch_add(1, Relaxed);
            }
        });
    }
    flooding
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbour_is_served_while_denials_are_endless_and_all_of_them_are_counted() {
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let neighbour = lab.neighbour();
    let stream = lab.connect_as(&neighbour, Way::to("api.test", 80)).await;
    let mut client = lab.client(stream, false).await;
    let quiet = served(&mut client).await;

    let (stop, denied) = (Arc::default(), Arc::default());
    let begun = Instant::now();
    let flooding = flood(&lab, &stop, &denied).await;
    while denied.load(Relaxed) < 1500 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let loud = served(&mut client).await;
    stop.store(true, Relaxed);
    flooding.join_all().await;
    let took = begun.elapsed();

    // Each of its requests waits for its turn among as many as flood, and no more.
    let turns = u32::try_from(4 * FLOODING).unwrap();
    let (median, worst) = (quiet[quiet.len() / 2], quiet[quiet.len() - 1]);
    let fair = |quiet: Duration| quiet.max(Duration::from_millis(1)) * turns;
    assert!(loud[loud.len() / 2] < fair(median), "{quiet:?} {loud:?}");
    assert!(
        loud[loud.len() - 1] < fair(worst) + Duration::from_secs(1),
        "{loud:?}"
    );

    let (denied, paced) = (denied.load(Relaxed), 1000 + 50 * (took.as_secs() + 1));
    lab.worker.ledger().close(lab.subject.id()).await;
    let mut records = lab.records(Event::Request);
    records.retain(|record| record.entry.verdict == Some(VerdictWord::Deny));
    let folded = |record: &gig_audit::Record| gig_audit::counted(&record.entry.findings);
    let counted: u64 = records.iter().filter_map(folded).sum();
    let own = records.iter().filter(|record| folded(record).is_none());
    let own = own.count() as u64;
    assert!((1000..=paced).contains(&own), "{own} of {denied}");
    assert_eq!(own + counted, denied);
    // What is allowed has two each, whoever else asks for what.
    let mut theirs = lab.log.records();
    theirs.retain(|record| record.entry.sandbox == Some(neighbour.id()));
    let requests = theirs
        .iter()
        .filter(|record| record.entry.event == Event::Request);
    assert_eq!(requests.count(), 200);
}
