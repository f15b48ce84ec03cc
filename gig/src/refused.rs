//! What the hub's firewall refused, brought into the record: once a second, and once more when a sandbox is over.
//!
//! The kernel refuses by itself and does not wait for the record. Beyond a thousand different destinations a second,
//! of all sandboxes together, what is refused is not told.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use gig_audit::RecordRefused;
use gig_netns::Refusals;
use gig_proxy::{
    Identity, Ledger,
    enforce::datagram::{Refused, record_refused},
};
use tokio::sync::Mutex;

/// Reads and records.
pub(crate) struct Refusing {
    refusals: Refusals,
    ledger: Ledger,
    identity: Arc<dyn Identity>,
    /// What one took is handed in before the next one asks: nothing is missing from a record that says it is over.
    turn: Mutex<()>,
}

impl fmt::Debug for Refusing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusing").finish_non_exhaustive()
    }
}

impl Refusing {
    pub(crate) fn new(refusals: Refusals, ledger: Ledger, identity: Arc<dyn Identity>) -> Self {
        Self {
            refusals,
            ledger,
            identity,
            turn: Mutex::default(),
        }
    }

    /// Records what was refused since the last time.
    pub(crate) async fn record(&self) {
        self.taken().await.recorded().await;
    }

    /// What was refused since the last time, handed in: what is handed in after it is recorded after it.
    pub(crate) async fn taken(&self) -> Taken<'_> {
        let _turn = self.turn.lock().await;
        let refusals = self.refusals.clone();
        // The hub may be busy with a start.
        let taken = tokio::task::spawn_blocking(move || refusals.take()).await;
        let packets = match taken {
            Ok(Ok(packets)) => packets,
            Ok(Err(error)) => {
                tracing::error!(%error, "what the firewall refused is not in the record");
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        let records = packets.into_iter().filter_map(|packet| {
            let subject = self.identity.subject(packet.source)?;
            let refused = Refused {
                destination: packet.destination,
                port: packet.port,
            };
            Some(record_refused(&self.ledger, &subject, refused).boxed())
        });
        Taken(records.collect())
    }
}

/// Records on their way.
#[derive(Default)]
pub(crate) struct Taken<'a>(Vec<BoxFuture<'a, Result<(), RecordRefused>>>);

impl Taken<'_> {
    /// Waits until all are recorded.
    pub(crate) async fn recorded(self) {
        for record in join_all(self.0).await {
            if let Err(error) = record {
                tracing::error!(%error, "a refused packet is not in the record");
            }
        }
    }
}

/// Does that once a second, for as long as `refusing` can be had.
pub(crate) async fn keep_recording(refusing: impl Fn() -> Option<Arc<Refusing>>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(refusing) = refusing() else { return };
        refusing.record().await;
    }
}

/// Soon enough for who looks at the console, and next to nothing for the hub.
const PERIOD: Duration = Duration::from_secs(1);
