//! `Expect: 100-continue`, end to end.
//!
//! hyper's server tells the program to go on when the request body is first read. So the body is not
//! read before the origin said 100: the gate holds it. An origin that says nothing is waited for a
//! little (RFC 9110 §10.1.1 lets the client go on by itself, and asks nobody to wait for ever).

use std::{future::Future, sync::Arc, time::Duration};

use http::{Request, StatusCode};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::interject::Interjections;

/// Opened when the origin asks for the body.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Gate {
    /// A closed gate, and what opens with it. If the gate is dropped, that never opens.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (open, opened) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(open)))), opened)
    }

    /// Lets the body pass.
    pub fn open(&self) {
        if let Some(open) = self.0.lock().take() {
            // Nobody waits any more when the upload is gone.
            let _gone = open.send(());
        }
    }

    /// Opens when the origin answers 100; other interim responses to `request` are passed on.
    pub fn open_on_informational<B>(
        &self,
        request: &mut Request<B>,
        interjections: &Arc<Interjections>,
    ) {
        let (gate, interjections) = (self.clone(), Arc::clone(interjections));
        hyper::ext::on_informational(request, move |response| {
            if response.status() == StatusCode::CONTINUE {
                gate.open();
            } else {
                interjections.offer(response.status(), response.headers());
            }
        });
    }

    /// Waits for `answer`, and opens when it takes long.
    pub async fn opening_late<F: Future>(&self, answer: F) -> F::Output {
        tokio::pin!(answer);
        tokio::select! {
            answered = &mut answer => answered,
            () = tokio::time::sleep(PATIENCE) => {
                self.open();
                answer.await
            }
        }
    }
}

/// curl, too, goes on by itself after one second: an origin that does not know 100 costs no more here
/// than it does without us.
const PATIENCE: Duration = Duration::from_secs(1);
