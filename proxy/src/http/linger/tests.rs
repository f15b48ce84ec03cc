//! A closing connection in front of a peer that is still sending.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

const MOST: Lingering = Lingering {
    whole: Duration::from_secs(60),
    silence: Duration::from_secs(15),
};

impl Abort for DuplexStream {
    fn abort(&self, _reset: bool) {}
}

fn lingering(ending: Ending) -> (Linger<DuplexStream>, DuplexStream) {
    let (near, far) = duplex(1024);
    (Linger::new(near, MOST, ending), far)
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_other_side_and_takes_what_it_sends() {
    let (mut near, mut far) = lingering(Ending::default());
    near.write_all(b"answer").await.unwrap();
    let (shut, ()) = tokio::join!(near.shutdown(), async {
        far.write_all(&[b'x'; 100_000]).await.unwrap();
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
        far.shutdown().await.unwrap();
    });
    shut.unwrap();
}

#[tokio::test(start_paused = true)]
async fn silence_and_slowness_end_it() {
    let (mut near, _far) = lingering(Ending::default());
    let begun = Instant::now();
    near.shutdown().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), MOST.silence.as_secs());

    let (mut near, mut far) = lingering(Ending::default());
    let begun = Instant::now();
    tokio::select! {
        shut = near.shutdown() => shut.unwrap(),
        () = async {
            loop {
                far.write_all(b"x").await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        } => {}
    }
    assert_eq!(begun.elapsed().as_secs(), MOST.whole.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_flood_ends_it() {
    let (mut near, mut far) = lingering(Ending::default());
    let part = [0; 1024];
    let mut sent = 0;
    tokio::select! {
        shut = near.shutdown() => shut.unwrap(),
        () = async {
            loop {
                far.write_all(&part).await.unwrap();
                sent += part.len() as u64;
            }
        } => {}
    }
    assert!(
        (MOST_OCTETS..MOST_OCTETS + 100_000).contains(&sent),
        "{sent}"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_when_the_other_side_has_closed_or_is_no_longer_http() {
    let (mut near, mut far) = lingering(Ending::default());
    far.shutdown().await.unwrap();
    assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
    let begun = Instant::now();
    near.shutdown().await.unwrap();

    let ending = Ending::default();
    let (mut near, mut far) = lingering(ending.clone());
    ending.plain();
    near.shutdown().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    far.write_all(b"still").await.unwrap();
    let mut octets = [0; 5];
    near.read_exact(&mut octets).await.unwrap();
    assert_eq!(&octets, b"still");
}

#[tokio::test(start_paused = true)]
async fn an_abrupt_end_takes_the_place_of_an_answer() {
    let ending = Ending::default();
    let (mut near, mut far) = lingering(ending.clone());
    near.write_all(b"before").await.unwrap();
    ending.abrupt();
    assert!(near.write_all(b"after").await.is_err());
    assert!(near.shutdown().await.is_err());
    drop(near);
    let mut all = Vec::new();
    far.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"before");
}
