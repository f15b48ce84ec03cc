//! A closing connection in front of a peer that is still sending.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

const MOST: Lingering = Lingering {
    whole: Duration::from_secs(60),
    silence: Duration::from_secs(15),
};

fn lingering(half_close: HalfClose) -> (Linger<DuplexStream>, DuplexStream) {
    let (near, far) = duplex(1024);
    (Linger::new(near, MOST, half_close), far)
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_other_side_and_takes_what_it_sends() {
    let (mut near, mut far) = lingering(HalfClose::default());
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
    let (mut near, _far) = lingering(HalfClose::default());
    let begun = Instant::now();
    near.shutdown().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), MOST.silence.as_secs());

    let (mut near, mut far) = lingering(HalfClose::default());
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
    let (mut near, mut far) = lingering(HalfClose::default());
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
    let (mut near, mut far) = lingering(HalfClose::default());
    far.shutdown().await.unwrap();
    assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
    let begun = Instant::now();
    near.shutdown().await.unwrap();

    let half_close = HalfClose::default();
    let (mut near, mut far) = lingering(half_close.clone());
    half_close.plain();
    near.shutdown().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    far.write_all(b"still").await.unwrap();
    let mut octets = [0; 5];
    near.read_exact(&mut octets).await.unwrap();
    assert_eq!(&octets, b"still");
}
