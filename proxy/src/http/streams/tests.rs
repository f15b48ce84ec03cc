//! What stands between a stream and the pipeline, without a pipeline.

use std::{
    sync::atomic::AtomicUsize,
    task::{Wake, Waker},
    time::Duration,
};

use http::Request;
use tokio::{io::duplex, task::JoinSet};

use super::*;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn an_interim_response_leaves_who_waits_for_a_reset_waiting() {
    let (ours, theirs) = duplex(64 * 1024);
    let mut tasks = JoinSet::new();
    let (accepted, reply) = oneshot::channel();
    tasks.spawn(async move {
        let mut connection = h2::server::handshake(ours).await.unwrap();
        let (_request, reply) = connection.accept().await.unwrap().unwrap();
        accepted.send(reply).ok();
        while connection.accept().await.is_some() {}
    });
    let (sender, connection) = h2::client::handshake(theirs).await.unwrap();
    tasks.spawn(async move {
        connection.await.ok();
    });
    let mut sender = sender.ready().await.unwrap();
    let request = Request::get("https://api.test/").body(()).unwrap();
    let (mut answer, mut program) = sender.send_request(request, false).unwrap();
    let reply = Reply::new(reply.await.unwrap(), false);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut waiting = Context::from_waker(&waker);
    assert!(reply.poll_reset(&mut waiting).is_pending());
    reply.interim(StatusCode::EARLY_HINTS, HeaderMap::new());
    let interim = poll_fn(|cx| answer.poll_informational(cx)).await;
    assert_eq!(interim.unwrap().unwrap().status(), StatusCode::EARLY_HINTS);
    woken.0.store(0, Ordering::SeqCst);
    program.send_reset(Reason::CANCEL);
    let waking = async {
        while woken.0.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(60), waking).await;
    assert!(heard.is_ok(), "the reset woke nobody");
    assert!(reply.poll_reset(&mut waiting).is_ready());
}
