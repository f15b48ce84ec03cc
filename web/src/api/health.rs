//! Whether gig lives and whether it can do its work; for whoever restarts it; that tells no more.
//! Who signed in is told of each layer.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::{sync::Mutex, time::Instant};

use super::Whole;
use crate::{api_error::Problem, app::App, auth::Caller, control::Health, role::Permission};

/// `GET /healthz`: the process answers.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "alive")), security(()))]
pub(crate) async fn alive() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// `GET /readyz`: store, record, vault and hub work.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "ready"), (status = 503, description = "a part does not work")),
    security(()))]
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let parts = app.parts().await;
    let ready = parts.iter().all(|(_, works)| *works);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let words = if ready { "ready" } else { "not ready" };
    let parts: serde_json::Map<String, serde_json::Value> = parts
        .iter()
        .map(|(part, works)| (part.to_string(), (*works).into()))
        .collect();
    (status, Json(json!({"status": words, "parts": parts}))).into_response()
}

/// Each layer that sandboxes, people and the record stand on, and whether it works.
#[utoipa::path(get, path = "/api/v1/health", tag = "health",
    responses((status = 200, body = Whole<Health>)))]
pub(crate) async fn layers(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Whole<Health>>, Problem> {
    caller.require(Permission::Look)?;
    let items = app.health().await;
    Ok(Json(Whole { items }))
}

/// Each part, and whether it works.
type Parts = Arc<[(Arc<str>, bool)]>;

/// What was found last, and when.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    parts: Mutex<Option<(Instant, Parts)>>,
    /// Whether the store could be written.
    written: Mutex<Option<(Instant, bool)>>,
    /// Whether the vault could be opened.
    opened: Mutex<Option<(Instant, bool)>>,
}

impl App {
    /// Looked at once a second at most, however many ask: anybody may.
    pub(crate) async fn parts(&self) -> Parts {
        let mut known = self.readiness.parts.lock().await;
        if let Some((at, parts)) = &*known
            && at.elapsed() < FRESH
        {
            return Arc::clone(parts);
        }
        let recorder = self.recorder.clone();
        let asked = self.ask(move |store| Ok((store.assignments().is_ok(), recorder.is_well())));
        let (read, record) = asked.await.unwrap_or((false, false));
        let store = read && self.store_takes().await;
        let vault = self.vault_opens().await;
        let parts = self.control.health().into_iter();
        let mut parts: Vec<_> = parts.map(|part| (part.part, part.works)).collect();
        parts.extend([
            ("store".into(), store),
            ("record".into(), record),
            ("vault".into(), vault),
        ]);
        let parts = Parts::from(parts);
        *known = Some((Instant::now(), Arc::clone(&parts)));
        parts
    }
}

impl App {
    /// Whether the vault opens, without which no sandbox starts: a node that lacks the fleet's key. Tried once in some
    /// seconds: it may take a connection to a database.
    async fn vault_opens(&self) -> bool {
        let mut known = self.readiness.opened.lock().await;
        if let Some((at, opens)) = *known
            && at.elapsed() < OPENED
        {
            return opens;
        }
        let secrets = Arc::clone(&self.secrets);
        let opened = self.ask(move |_| Ok(secrets.list().is_ok())).await;
        let opens = opened.unwrap_or(false);
        *known = Some((Instant::now(), opens));
        opens
    }
}

impl App {
    /// Whether the store can be written, by a real write: what is read is there on a full disk, too. Tried once in
    /// some seconds, however many ask.
    pub(crate) async fn store_takes(&self) -> bool {
        let mut known = self.readiness.written.lock().await;
        if let Some((at, works)) = *known
            && at.elapsed() < WRITTEN
        {
            return works;
        }
        let told = known.is_some_and(|(_, works)| !works);
        // Whoever hangs up meanwhile does not have it tried anew.
        *known = Some((Instant::now(), known.is_some_and(|(_, works)| works)));
        let now = self.now();
        let tried = self.ask(move |store| Ok(store.try_out(now))).await;
        let works = match tried {
            Ok(Ok(())) => true,
            Ok(Err(error)) if !told => {
                drop(Problem::store(error));
                false
            }
            _ => false,
        };
        *known = Some((Instant::now(), works));
        works
    }
}

const FRESH: Duration = Duration::from_secs(1);
const OPENED: Duration = Duration::from_secs(5);
/// As long as the record's writer goes by what it knows.
const WRITTEN: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::app::tests::Lab;

    #[tokio::test]
    async fn however_many_ask_whether_it_is_ready_it_looks_once() {
        let lab = Lab::new();
        let before = lab.store.asked.load(Ordering::SeqCst);
        let known = lab.app.parts().await;
        assert!(known.iter().all(|(_, works)| *works), "{known:?}");
        let mut again = Vec::new();
        for _ in 0..100 {
            again.push(lab.app.parts().await);
        }
        assert!(again.iter().all(|parts| **parts == *known));
        // A second may pass meanwhile, on a machine that is busy.
        let asked = lab.store.asked.load(Ordering::SeqCst) - before;
        assert!(asked < 50, "{asked}");
    }

    #[tokio::test]
    async fn a_store_that_is_read_and_not_written_is_not_ready() {
        let lab = Lab::new();
        lab.store.read_only.store(true, Ordering::SeqCst);
        let known = lab.app.parts().await;
        let of = |name: &str| known.iter().find(|(part, _)| &**part == name).unwrap().1;
        assert_eq!((of("store"), of("record")), (false, true));
        let before = lab.store.asked.load(Ordering::SeqCst);
        for _ in 0..100 {
            assert!(!lab.app.store_takes().await);
        }
        let tried = lab.store.asked.load(Ordering::SeqCst) - before;
        assert!(tried < 30, "{tried}");
        let health = lab.app.health().await;
        let store = health.iter().find(|part| &*part.part == "store").unwrap();
        assert!(
            !store.works && store.words.contains("disk is full"),
            "{store:?}"
        );
    }

    #[tokio::test]
    async fn a_store_that_fails_and_a_record_that_is_not_written_are_told() {
        let lab = Lab::new();
        lab.store.failing.store(true, Ordering::SeqCst);
        lab.log.fail(true);
        let entry = gig_audit::Entry::new(gig_audit::Event::Admin);
        assert!(lab.app.recorder.record(entry).await.is_err());
        let known = lab.app.parts().await;
        let of = |name: &str| known.iter().find(|(part, _)| &**part == name).unwrap().1;
        assert_eq!((of("store"), of("record")), (false, false), "{known:?}");
    }
}
