//! Registering a network namespace that gig did not make as a sandbox of a server.
//!
//! For this machine's owner, by the socket in the data directory, and for a token that an admin made for it by name:
//! whoever names a process or a path decides what becomes of a stranger's network. Both mean something on one machine:
//! a token that is used at another node names that node's. Recorded before anything is done, and when it is refused.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use gig_audit::VerdictWord;
use gig_policy::SandboxId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Made, OptionalBody, Path,
    sandboxes::{SandboxView, act},
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    control::{Named, Registered, Registration},
    profile::Whose,
    role::Permission,
    store::{Name, ServerKind},
};

/// Which namespace, and for whom.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegistrationAsked {
    /// A process whose network namespace it is; the registration ends with it. One of `pid` and `path`.
    pid: Option<u32>,
    /// A file that names the namespace, as `ip netns` makes it; the registration ends when it names it no more.
    path: Option<String>,
    /// Where programs in there find the certificate authority; `/etc/gig-ca.pem` unless said.
    ca_path: Option<String>,
}

/// The sandbox, and what its programs are to be given.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RegisteredView {
    pub(crate) sandbox: SandboxView,
    /// Variables of its programs: the proxy, where the authority is, sentinels.
    pub(crate) variables: BTreeMap<String, String>,
    /// The certificate authority that they are to trust, as PEM.
    pub(crate) ca_pem: String,
}

impl RegisteredView {
    fn of(made: Registered, node: &str) -> Self {
        Self {
            sandbox: SandboxView::here(made.facts, node),
            variables: made.variables.into_iter().collect(),
            ca_pem: made.ca_pem,
        }
    }
}

/// Takes a network namespace of this machine as a sandbox of a server of kind `foreign`. For this machine's
/// owner, by gig's own socket, and for a token whose scopes name `namespaces:register`.
#[utoipa::path(post, path = "/api/v1/servers/{name}/register", tag = "sandboxes", request_body = RegistrationAsked,
    params(("Gig-Profile" = Option<String>, Header, description = "whose it is; the caller's own unless said")),
    responses((status = 201, body = RegisteredView),
              (status = 200, description = "it was registered before", body = RegisteredView),
              (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem),
              (status = 429, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    OptionalBody(asked): OptionalBody<RegistrationAsked>,
) -> Result<Response, Problem> {
    let may = caller.may(Permission::RegisterNamespaces);
    if !may {
        // Who runs none at all is told no more.
        caller.require(Permission::RunSandboxes)?;
    }
    let name: Name = name.parse()?;
    let wanted = name.to_string();
    let known = app.ask(move |store| store.server(&wanted)).await?;
    // To a token of other servers it is not there.
    if !caller.reaches(name.as_str()) {
        app.tell_hidden(&caller, "POST /api/v1/servers/{name}/register");
        return Err(Problem::missing("server", name.as_str()));
    }
    let server = known.ok_or_else(|| Problem::missing("server", name.as_str()))?;
    if server.spec.kind != ServerKind::Foreign {
        return Err(refused(
            "this server has a program of its own: register namespaces for one of kind foreign \
             (`gig server add NAME --foreign`)",
        ));
    }
    let registration = asked.registration()?;
    if !may {
        return Err(Problem::forbidden(
            "a namespace is registered by this machine's owner (`gig netns register` on the machine itself, as root or \
             as the user who runs gig) or by a token whose scopes name namespaces:register",
        ));
    }
    let whose = Whose::of(&app, &caller, &headers).await?;
    let id = SandboxId::new(uuid::Uuid::now_v7());
    let entry = |verdict, words: &str| {
        let mut entry = act(&app, &caller, name.as_str(), Some(id), words);
        entry.verdict = Some(verdict);
        entry.findings.extend(whose.words());
        entry
    };
    let words = format!(
        "registration of a network namespace asked for: {}",
        named(&registration.named)
    );
    app.record(entry(VerdictWord::Allow, &words)).await?;
    let made = app.register(
        name.to_string(),
        (id, Arc::clone(&whose.profile)),
        registration,
    );
    match made.await {
        Ok(made) => {
            let already = made.already;
            let view = RegisteredView::of(made, &app.node);
            if already {
                return Ok(Json(view).into_response());
            }
            let place = format!("/api/v1/sandboxes/{}", view.sandbox.id);
            Ok(Made { place, view }.into_response())
        }
        Err(problem) => {
            let words = format!("not registered: {}", problem.detail);
            app.record(entry(VerdictWord::Deny, &words)).await?;
            Err(problem)
        }
    }
}

impl RegistrationAsked {
    fn registration(&self) -> Result<Registration, Problem> {
        let named = match (self.pid, &self.path) {
            (Some(pid), None) => Named::Process(pid),
            (None, Some(path)) if path.starts_with('/') && !path.contains('\0') => {
                Named::Path(PathBuf::from(path))
            }
            (None, Some(_)) => return Err(refused("the path is not absolute")),
            _ => return Err(refused("name one of pid and path")),
        };
        let ca_path = self.ca_path.clone().unwrap_or_else(|| CA_PATH.to_owned());
        let plain = ca_path.starts_with('/') && !ca_path.contains(char::is_control);
        match plain && ca_path.len() <= LONGEST_PATH {
            true => Ok(Registration { named, ca_path }),
            false => Err(refused("the place of the authority is no absolute path")),
        }
    }
}

fn named(named: &Named) -> String {
    match named {
        Named::Process(pid) => format!("process {pid}"),
        Named::Path(path) => path.display().to_string(),
    }
}

fn refused(words: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "registration", words)
}

/// Where sandboxes of gig's own have it.
const CA_PATH: &str = "/etc/gig-ca.pem";
/// As Linux takes it.
const LONGEST_PATH: usize = 4095;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pid: Option<u32>, path: Option<&str>, ca: Option<&str>) -> RegistrationAsked {
        RegistrationAsked {
            pid,
            path: path.map(str::to_owned),
            ca_path: ca.map(str::to_owned),
        }
    }

    #[test]
    fn one_namespace_is_named_and_by_an_absolute_path() {
        let right = asked(Some(7), None, None).registration().unwrap();
        assert_eq!(right.named, Named::Process(7));
        assert_eq!(right.ca_path, CA_PATH);
        let right = asked(None, Some("/run/netns/a"), Some("/tmp/ca.pem"));
        assert_eq!(right.registration().unwrap().ca_path, "/tmp/ca.pem");
        for wrong in [
            asked(None, None, None),
            asked(Some(7), Some("/run/netns/a"), None),
            asked(None, Some("run/netns/a"), None),
            asked(None, Some("/run/\0"), None),
            asked(Some(7), None, Some("ca.pem")),
            asked(Some(7), None, Some("/ca\n")),
        ] {
            assert!(wrong.registration().is_err(), "{wrong:?}");
        }
    }
}
