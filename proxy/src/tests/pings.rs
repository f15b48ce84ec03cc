//! How an HTTP/2 origin that says nothing is asked whether it is still there.

use std::{sync::Arc, time::Duration};

use http::Request;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use super::lab::h2;
use crate::{
    http::{body::Upload, interim::Interims},
    upstream::{dial::Reached, http2},
};

const PING: u8 = 6;
const ACK: u8 = 1;

/// When a silent origin was asked, with a request waiting if `waited_for`, and whether the connection was
/// given up within twenty minutes.
async fn asked(answers: bool, waited_for: bool) -> (Vec<u64>, bool) {
    let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
    let tasks = TaskTracker::new();
    let reached = Reached {
        address: Some(([127, 0, 0, 1], 443).into()),
        is_private: false,
    };
    let opened = http2::open(ours, reached, &tasks).await;
    let (mut http2, driver) = opened.unwrap();
    tasks.spawn(driver.run());
    if waited_for {
        tasks.spawn(async move {
            let request = Request::get("https://api.test/").body(Upload::Empty);
            let interims = Interims::new(None, &Arc::default(), None, None);
            drop(http2.send(&mut request.unwrap(), &interims).await);
        });
    } else {
        // Kept, as a pool keeps it.
        tasks.spawn(async move {
            std::future::pending::<()>().await;
            drop(http2);
        });
    }
    let mut times = Vec::new();
    let most = Duration::from_secs(1200);
    let silent = tokio::time::timeout(most, silence(&mut theirs, answers, &mut times)).await;
    (times, silent.is_ok())
}

/// Reads until the connection is closed.
async fn silence(stream: &mut DuplexStream, answers: bool, times: &mut Vec<u64>) {
    let begun = Instant::now();
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    let settings = h2::frame(h2::SETTINGS, 0, 0, &[]);
    stream.write_all(&settings).await.unwrap();
    while let Ok((kind, flags, _, payload)) = h2::read_frame(stream).await {
        if kind == PING && flags & ACK == 0 {
            times.push(begun.elapsed().as_secs());
            if answers {
                let pong = h2::frame(PING, ACK, 0, &payload);
                stream.write_all(&pong).await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_origin_is_asked_as_seldom_as_grpc_servers_want() {
    let (times, over) = asked(true, true).await;
    assert_eq!((times, over), (vec![30, 360, 690, 1020], false));
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_does_not_answer_is_given_up() {
    assert_eq!(asked(false, true).await, (vec![30], true));
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_nobody_waits_for_is_not_asked() {
    assert_eq!(asked(true, false).await, (vec![], false));
}
