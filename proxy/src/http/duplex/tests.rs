//! Resets end a tunnel, whichever of its halves had ended before.

use std::{future::poll_fn, sync::Arc, time::Duration};

use gig_policy::{Policy, SandboxId};
use http::{Request, Response};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};

use super::*;
use crate::{
    opaque::{SpliceEnd, SpliceLimits, Spliced, splice_until},
    subject::Subject,
};

/// A program's end of an accepted tunnel, the origin's other end, and what passes bytes between them.
struct Tunnel {
    program: SendStream<Bytes>,
    answer: RecvStream,
    origin: DuplexStream,
    tasks: JoinSet<Option<Spliced>>,
}

async fn tunnel() -> Tunnel {
    let (ours, theirs) = duplex(64 * 1024);
    let (up, origin) = duplex(16);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connection = h2::server::handshake(ours).await.unwrap();
        let (request, mut reply) = connection.accept().await.unwrap().unwrap();
        let (accept, accepted) = oneshot::channel();
        let mut down = Duplex::asked(request.into_body(), accepted, &Backlog::default());
        let send = reply.send_response(Response::new(()), false).unwrap();
        accept.send(send).unwrap();
        down.ready().await.unwrap();
        let limits = SpliceLimits {
            idle: Duration::from_secs(7200),
            subject: Subject::new(
                SandboxId::new(uuid::Uuid::nil()),
                [10, 200, 0, 2].into(),
                [10, 200, 0, 1].into(),
                Policy::deny_all("none"),
            ),
        };
        let limits = Arc::new(limits);
        let passing = splice_until(Bytes::new(), (down, up), &limits, std::future::pending());
        tokio::pin!(passing);
        loop {
            tokio::select! {
                spliced = &mut passing => return Some(spliced),
                more = connection.accept() => assert!(more.is_none()),
            }
        }
    });
    let (sender, connection) = h2::client::handshake(theirs).await.unwrap();
    tasks.spawn(async move {
        connection.await.ok();
        None
    });
    let mut sender = sender.ready().await.unwrap();
    let request = Request::connect("api.test:443").body(()).unwrap();
    let (answer, program) = sender.send_request(request, false).unwrap();
    let answer = answer.await.unwrap().into_body();
    Tunnel {
        program,
        answer,
        origin,
        tasks,
    }
}

async fn end(tasks: &mut JoinSet<Option<Spliced>>) -> SpliceEnd {
    let ending = async {
        loop {
            if let Some(spliced) = tasks.join_next().await.unwrap().unwrap() {
                return spliced.end;
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ending).await;
    ended.expect("a tunnel that was reset goes on")
}

#[tokio::test]
async fn a_reset_ends_a_tunnel_that_is_read_from() {
    for reason in [Reason::CANCEL, Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let mut tunnel = tunnel().await;
        tunnel.program.send_reset(reason);
        assert_eq!(end(&mut tunnel.tasks).await, SpliceEnd::DownstreamBroke);
        assert_eq!(tunnel.origin.read(&mut [0; 1]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_reset_ends_a_tunnel_whose_program_had_no_more_to_send() {
    let mut tunnel = tunnel().await;
    tunnel.program.send_data(Bytes::new(), true).unwrap();
    // Passed on: the origin may still answer, and does.
    assert_eq!(tunnel.origin.read(&mut [0; 1]).await.unwrap(), 0);
    tunnel.origin.write_all(b"on").await.unwrap();
    assert_eq!(tunnel.answer.data().await.unwrap().unwrap(), "on");
    tunnel.program.send_reset(Reason::CANCEL);
    assert_eq!(end(&mut tunnel.tasks).await, SpliceEnd::DownstreamBroke);
}

#[tokio::test]
async fn a_reset_ends_a_tunnel_whose_origin_reads_nothing() {
    let mut tunnel = tunnel().await;
    let octets = Bytes::from_static(&[b'x'; 100]);
    tunnel.program.send_data(octets, false).unwrap();
    // The rest waits for an origin that takes sixteen at a time, and never again.
    let mut first = [0; 1];
    tunnel.origin.read_exact(&mut first).await.unwrap();
    tunnel.program.send_reset(Reason::CANCEL);
    assert_eq!(end(&mut tunnel.tasks).await, SpliceEnd::DownstreamBroke);
}

/// An origin's end of a tunnel that gig opened, and gig's.
async fn opened() -> (Duplex, SendStream<Bytes>, RecvStream, JoinSet<()>) {
    let (ours, theirs) = duplex(64 * 1024);
    let mut tasks = JoinSet::new();
    let (there, arrived) = oneshot::channel();
    tasks.spawn(async move {
        let mut connection = h2::server::handshake(theirs).await.unwrap();
        let (request, mut reply) = connection.accept().await.unwrap().unwrap();
        let send = reply.send_response(Response::new(()), false).unwrap();
        there.send((send, request.into_body())).ok();
        while connection.accept().await.is_some() {}
    });
    let (sender, connection) = h2::client::handshake(ours).await.unwrap();
    tasks.spawn(async move {
        connection.await.ok();
    });
    let mut sender = sender.ready().await.unwrap();
    let request = Request::connect("api.test:443").body(()).unwrap();
    let (answer, send) = sender.send_request(request, false).unwrap();
    let receive = answer.await.unwrap().into_body();
    let duplex = Duplex::open(receive, send, Running::for_test());
    let (send, receive) = arrived.await.unwrap();
    (duplex, send, receive, tasks)
}

#[tokio::test]
async fn what_an_origin_ended_before_it_resets_arrives_whole() {
    let (mut duplex, mut origin, _receive, _tasks) = opened().await;
    let octets = Bytes::from_static(b"all of it");
    origin.send_data(octets, true).unwrap();
    // A reset would overtake what was not sent yet.
    let mut got = vec![duplex.read_u8().await.unwrap()];
    origin.send_reset(Reason::NO_ERROR);
    duplex.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"all of it");
    // It takes no more, which is heard as soon as the reset is there.
    let hearing = async {
        while duplex.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(60), hearing).await;
    assert!(heard.is_ok(), "a reset stream can be flushed");
}

#[tokio::test]
async fn an_origin_that_only_resets_ended_nothing() {
    let (mut duplex, mut origin, _receive, _tasks) = opened().await;
    origin.send_reset(Reason::NO_ERROR);
    let mut got = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), duplex.read_to_end(&mut got));
    read.await.unwrap().unwrap_err();
}

/// One connection with many accepted tunnels whose program opened every window and reads while it is told to.
struct Crowd {
    tunnels: Vec<Duplex>,
    answers: Vec<RecvStream>,
    reads: watch::Sender<bool>,
    _sends: Vec<SendStream<Bytes>>,
    _tasks: JoinSet<()>,
}

async fn crowd(count: usize) -> Crowd {
    let (ours, theirs) = duplex(16 * 1024);
    let mut tasks = JoinSet::new();
    let (give, mut taken) = mpsc::channel(count);
    tasks.spawn(async move {
        let mut opening = h2::server::Builder::new();
        opening.max_send_buffer_size(256 * 1024);
        let mut connection = opening.handshake::<_, Bytes>(ours).await.unwrap();
        let backlog = Backlog::default();
        while let Some(accepted) = connection.accept().await {
            let (request, mut reply) = accepted.unwrap();
            let (accept, accepted) = oneshot::channel();
            let down = Duplex::asked(request.into_body(), accepted, &backlog);
            let send = reply.send_response(Response::new(()), false).unwrap();
            accept.send(send).unwrap();
            give.try_send(down).unwrap();
        }
    });
    let mut opening = h2::client::Builder::new();
    opening.initial_window_size((1 << 31) - 1);
    opening.initial_connection_window_size((1 << 31) - 1);
    let (mut sender, mut connection) = opening.handshake::<_, Bytes>(theirs).await.unwrap();
    let (reads, mut told) = watch::channel(true);
    tasks.spawn(async move {
        loop {
            let open = *told.borrow_and_update();
            tokio::select! {
                _ = &mut connection, if open => return,
                changed = told.changed() => if changed.is_err() { return },
            }
        }
    });
    let (mut tunnels, mut answers, mut sends) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        sender = sender.ready().await.unwrap();
        let request = Request::connect("api.test:443").body(()).unwrap();
        let (answer, kept) = sender.send_request(request, false).unwrap();
        sends.push(kept);
        let mut tunnel = taken.recv().await.unwrap();
        tunnel.ready().await.unwrap();
        answers.push(answer.await.unwrap().into_body());
        tunnels.push(tunnel);
    }
    Crowd {
        tunnels,
        answers,
        reads,
        _sends: sends,
        _tasks: tasks,
    }
}

/// Writes until nothing more is taken; how much was of each.
async fn fill(tunnels: &mut [Duplex], piece: &[u8], most: usize) -> Vec<usize> {
    let mut taken = vec![0; tunnels.len()];
    let mut quiet = 0;
    while quiet < 20 && taken.iter().sum::<usize>() < most {
        quiet += 1;
        for (tunnel, taken) in tunnels.iter_mut().zip(&mut taken) {
            let wrote = poll_fn(|cx| Poll::Ready(Pin::new(&mut *tunnel).poll_write(cx, piece)));
            if let Poll::Ready(wrote) = wrote.await {
                *taken += wrote.unwrap();
                quiet = 0;
            }
        }
        tokio::task::yield_now().await;
    }
    taken
}

#[tokio::test]
async fn tunnels_that_nobody_reads_hold_little_together_and_go_on_when_they_are_read() {
    // Messages of an octet hold far more than they say.
    for (piece, most) in [(16 * 1024, 1200 * 1024), (1, 8 * 1024)] {
        let mut crowd = crowd(100).await;
        crowd.reads.send(false).unwrap();
        let piece = vec![b'x'; piece];
        let taken = fill(&mut crowd.tunnels, &piece, 2 * most).await;
        let sum: usize = taken.iter().sum();
        assert!((1..=most).contains(&sum), "{sum} octets are held");
        crowd.reads.send(true).unwrap();
        let mut going = JoinSet::new();
        let ends = crowd.tunnels.into_iter().zip(crowd.answers).zip(taken);
        for ((mut tunnel, mut answer), taken) in ends {
            let piece = piece.clone();
            going.spawn(async move {
                let writing = async {
                    tunnel.write_all(&piece).await.unwrap();
                    tunnel.shutdown().await.unwrap();
                };
                let reading = async {
                    let mut got = 0;
                    while let Some(data) = answer.data().await {
                        got += data.unwrap().len();
                    }
                    got
                };
                let ((), got) = tokio::join!(writing, reading);
                assert_eq!(got, taken + piece.len());
            });
        }
        let through = tokio::time::timeout(Duration::from_secs(60), going.join_all()).await;
        assert!(through.is_ok(), "tunnels that are read stand still");
    }
}
