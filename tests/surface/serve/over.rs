//! Secrets whose time is over, while policies and servers name them.

use serde_json::{Value, json};

use super::{Appliance, Ask, Reply};

const VALUE: &str = "value-that-is-over-3Kd8";

fn ask(appliance: &Appliance, token: &str, (method, path): (&str, &str), body: &Value) -> Reply {
    let ask = Ask::new(method, path).token(token).json(body);
    ask.send(appliance)
}

#[test]
fn a_secret_that_is_over_is_listed_as_long_as_something_names_it() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let listed = || {
        let all = ask(&appliance, &token, ("GET", "/api/v1/secrets"), &json!({}));
        all.json()["items"].clone()
    };
    for name in ["USED", "UNUSED"] {
        let path = format!("/api/v1/secrets/{name}");
        let made = ask(&appliance, &token, ("PUT", &path), &json!({"value": VALUE}));
        assert_eq!(made.status, 201, "{made:?}");
    }
    let words = ["server", "add", "ss", "--secret", "USED", "--", "/bin/true"];
    let added = appliance.gig(&words, "");
    assert_eq!(added.status, 0, "{added:?}");
    let version = "/api/v1/secrets/USED?version=1";
    let ended = ask(&appliance, &token, ("DELETE", version), &json!({}));
    assert_eq!(ended.status, 204, "{ended:?}");
    let found = listed();
    assert_eq!(
        (&found[1]["name"], &found[1]["ended"]),
        (&json!("USED"), &json!(true))
    );
    assert_eq!(found[0]["ended"], false, "{found}");
    let cookie = appliance.first_admin();
    let page = |path: &str| {
        let page = Ask::new("GET", path).cookie(&cookie).send(&appliance);
        assert_eq!(page.status, 200, "{page:?}");
        page.body
    };
    assert!(page("/secrets").contains(">ended</span>"));
    assert!(page("/secrets/USED").contains("until it has another value"));
    for name in ["USED", "UNUSED"] {
        let path = format!("/api/v1/secrets/{name}");
        let gone = ask(&appliance, &token, ("DELETE", &path), &json!({}));
        assert_eq!(gone.status, 204, "{gone:?}");
    }
    let found = listed();
    assert_eq!(found.as_array().expect("a list").len(), 1, "{found}");
    let used = &found[0];
    assert_eq!(
        (&used["name"], &used["set"]),
        (&json!("USED"), &json!(false))
    );
    assert_eq!(used["servers"], json!(["ss"]), "{used}");
    assert!(used["removed"].is_string(), "{used}");
    assert!(page("/secrets").contains(">removed</span>"));
}
