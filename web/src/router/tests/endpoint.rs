//! The page of a server tells who may run it where MCP clients find it, and a cookie opens nothing there.

use super::{console::signed_in, furnished::Furnished};
use crate::{
    role::{Permission, Role},
    store::{Change, ServerKind, ServerSpec},
};

#[tokio::test]
async fn who_may_run_a_server_is_shown_how_an_mcp_client_reaches_it() {
    let appliance = Furnished::new().await;
    appliance.lab.make(&Change::SaveServer {
        name: "theirs".parse().unwrap(),
        spec: ServerSpec {
            kind: ServerKind::Foreign,
            ..ServerSpec::default()
        },
        new: true,
        expected: None,
    });
    let cookies = signed_in(&appliance);
    for (role, cookie) in Role::ALL.into_iter().zip(&cookies) {
        let page = appliance.page("GET /servers/docs", cookie).await;
        let shown = page.body.contains("/sandbox/docs/mcp");
        assert_eq!(
            shown,
            role.may(Permission::RunSandboxes),
            "{role}: {page:?}"
        );
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert_eq!(policy.contains("script-src"), shown, "{policy}");
        let client = "Bearer ${GIG_TOKEN}";
        assert_eq!(page.body.contains(client), shown, "{page:?}");
        let foreign = appliance.page("GET /servers/theirs", cookie).await;
        assert!(!foreign.body.contains("/sandbox/"), "{foreign:?}");
    }
    for method in ["GET", "POST", "DELETE"] {
        for cookie in &cookies {
            let asked = format!("{method} /sandbox/docs/mcp");
            let refused = appliance.page(&asked, cookie).await;
            assert_eq!(refused.status, 401, "{refused:?}");
            assert_eq!(refused.headers["content-type"], "application/problem+json");
        }
    }
}
