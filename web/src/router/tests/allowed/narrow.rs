//! The width `path` never writes a rule for all of a host.

use super::*;
use crate::router::tests::furnished::denial;

#[tokio::test]
async fn what_was_denied_before_it_named_a_path_is_allowed_by_the_width_of_its_host_alone() {
    let appliance = Furnished::new().await;
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let of = |event: Event, host: &str, protocol: Option<&str>| {
        let mut entry = denial(&appliance.sandbox, ("ana", host, "/x"));
        (entry.event, entry.method, entry.path) = (event, None, None);
        (entry.request, entry.protocol) = (None, protocol.map(Into::into));
        entry
    };
    let named = of(Event::Connect, "tls.example", Some("https"));
    let opaque = of(Event::Connect, "opaque.example", Some("tcp"));
    appliance.record([named, opaque]).await;
    let id = async |host: &str| {
        let what = format!("GET /api/v1/audit?event=connect&host={host}");
        let found = appliance
            .ask(Ask {
                token: &editor,
                ..Ask::of(&what)
            })
            .await;
        found.json()["records"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let what = format!("POST /api/v1/audit/{}/allow", id("tls.example").await);
    for narrow in [
        json!({"for": "ever"}),
        json!({"for": "hour", "width": "path"}),
    ] {
        let refused = allow(&appliance, &what, &editor, &narrow).await;
        assert_eq!(refused.status, 409, "{refused:?}");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("by the width `host`"), "{detail}");
        assert!(!document(&appliance, "p").contains("tls.example"));
    }
    let wide = json!({"for": "ever", "width": "host"});
    let made = allow(&appliance, &what, &editor, &wide).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert!(document(&appliance, "p").contains("{host: tls.example, ports: [443]}"));
    // Opaque bytes have no path: host and port are all that there is.
    let what = format!("POST /api/v1/audit/{}/allow", id("opaque.example").await);
    let made = allow(&appliance, &what, &editor, &json!({"for": "ever"})).await;
    assert_eq!(made.status, 200, "{made:?}");
}
