//! What is gathered goes whole, in order, once, and never later than the flush that follows.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Wake, Waker},
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

/// Counts wake-ups.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A stream whose peer was heard, and the peer.
async fn heard(room: usize) -> (Gathering<DuplexStream>, DuplexStream) {
    let (near, mut far) = tokio::io::duplex(room);
    let mut gathering = Gathering::new(near);
    far.write_all(b"!").await.unwrap();
    gathering.read_u8().await.unwrap();
    (gathering, far)
}

fn flush(gathering: &mut Gathering<DuplexStream>, bell: &Arc<Bell>) -> Poll<io::Result<()>> {
    let waker = Waker::from(Arc::clone(bell));
    Pin::new(gathering).poll_flush(&mut Context::from_waker(&waker))
}

/// What the peer can read now.
async fn arrived(far: &mut DuplexStream) -> Vec<u8> {
    let mut octets = Vec::new();
    poll_fn(|cx| {
        let mut space = [0; 1024];
        let mut buffer = ReadBuf::new(&mut space);
        while Pin::new(&mut *far).poll_read(cx, &mut buffer).is_ready()
            && !buffer.filled().is_empty()
        {
            octets.extend_from_slice(buffer.filled());
            buffer.clear();
        }
        Poll::Ready(())
    })
    .await;
    octets
}

#[tokio::test(start_paused = true)]
async fn a_flush_behind_a_write_wakes_and_the_next_one_sends() {
    let (mut gathering, mut far) = heard(4096).await;
    let bell = Arc::new(Bell::default());
    for piece in [&b"one"[..], b"two"] {
        gathering.write_all(piece).await.unwrap();
        assert!(flush(&mut gathering, &bell).is_ready());
    }
    assert_eq!(arrived(&mut far).await, b"");
    assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    assert!(flush(&mut gathering, &bell).is_ready());
    assert_eq!(arrived(&mut far).await, b"onetwo");
    assert_eq!(gathering.gathered.capacity(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_writes_on_and_on_is_sent_in_time() {
    let (mut gathering, mut far) = heard(4096).await;
    let bell = Arc::new(Bell::default());
    gathering.write_all(b"one").await.unwrap();
    assert!(flush(&mut gathering, &bell).is_ready());
    tokio::time::advance(LONGEST).await;
    gathering.write_all(b"two").await.unwrap();
    assert!(flush(&mut gathering, &bell).is_ready());
    assert_eq!(arrived(&mut far).await, b"onetwo");
}

#[tokio::test(start_paused = true)]
async fn before_the_peer_is_heard_everything_goes_at_once() {
    let (near, mut far) = tokio::io::duplex(4096);
    let mut gathering = Gathering::new(near);
    gathering.write_all(b"SETTINGS").await.unwrap();
    assert_eq!(arrived(&mut far).await, b"SETTINGS");
}

#[tokio::test(start_paused = true)]
async fn a_large_write_goes_behind_what_was_gathered() {
    let (mut gathering, mut far) = heard(256).await;
    let large = vec![b'x'; ROOM + 1];
    let writing = async {
        gathering.write_all(b"head").await.unwrap();
        gathering.write_all(&large).await.unwrap();
        gathering.write_all(b"tail").await.unwrap();
        gathering.shutdown().await.unwrap();
        drop(gathering);
    };
    let mut octets = Vec::new();
    let (_, read) = tokio::join!(writing, far.read_to_end(&mut octets));
    assert_eq!(read.unwrap(), 4 + large.len() + 4);
    assert!(octets.starts_with(b"headxx") && octets.ends_with(b"xxtail"));
}
