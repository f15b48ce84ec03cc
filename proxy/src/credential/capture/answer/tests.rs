//! Answers as servers write them, and what a program sees of them.

use proptest::prelude::*;

use super::*;

const TOKEN: &str = "r3al+token/of=it";

/// What the program sees, and which fields were kept back.
fn taken(body: &str, media: &str) -> Result<(String, bool, Vec<&'static str>), CaptureError> {
    taken_from(body, media, &[])
}

/// The same where the policy says that these members hold tokens.
fn taken_from(
    body: &str,
    media: &str,
    members: &[&str],
) -> Result<(String, bool, Vec<&'static str>), CaptureError> {
    let from: Vec<_> = members
        .iter()
        .map(|name| SecretPlace::Member((*name).into()))
        .collect();
    let mut fields = Vec::new();
    let shown = take_apart(body.as_bytes(), (media, &from), |token| {
        assert_ne!(token.lives, Some(0), "over at once");
        let lives = token.lives.map_or(0, |lives| lives);
        fields.push(token.field.as_str());
        Ok(format!("S{lives}").into())
    })?;
    let text = String::from_utf8(shown.body).unwrap();
    Ok((text, shown.told, fields))
}

#[test]
fn tokens_are_found_where_servers_put_them() {
    let json = "application/json";
    let cases = [
        (
            r#"{"access_token":"T","token_type":"Bearer","expires_in":3600,"refresh_token":"T","refresh_expires_in":"7"}"#,
            r#"{"access_token":"S3600","expires_in":3600,"refresh_expires_in":"7","refresh_token":"S7","token_type":"Bearer"}"#,
        ),
        // Keycloak's offline tokens do not end.
        (
            r#"{"access_token":"T","expires_in":60,"refresh_token":"T","refresh_expires_in":0}"#,
            r#"{"access_token":"S60","expires_in":60,"refresh_expires_in":0,"refresh_token":"S0"}"#,
        ),
        // OpenID Connect, AWS IAM Identity Center, RFC 8628, Slack.
        (r#"{"id_token":"T"}"#, r#"{"id_token":"S0"}"#),
        (
            r#"{"accessToken":"T","expiresIn":8}"#,
            r#"{"accessToken":"S8","expiresIn":8}"#,
        ),
        (
            r#"{"device_code":"T","user_code":"A-B","expires_in":9}"#,
            r#"{"device_code":"S9","expires_in":9,"user_code":"A-B"}"#,
        ),
        (
            r#"{"ok":true,"authed_user":{"access_token":"T"},"bot_access_token":"T"}"#,
            r#"{"authed_user":{"access_token":"S0"},"bot_access_token":"S0","ok":true}"#,
        ),
        // The last of two is what is read, and all that is written.
        (
            r#"{"access_token":"T","access_token":"U"}"#,
            r#"{"access_token":"S0"}"#,
        ),
    ];
    for (body, expected) in cases {
        let body = body.replace("\"T\"", &format!("\"{TOKEN}\""));
        let (shown, told, fields) = taken(&body, json).unwrap();
        assert_eq!(shown, expected);
        assert!(told && !fields.is_empty());
    }
    let form = "application/x-www-form-urlencoded";
    let body = "access_token=r3al%2btoken%2Fof%3dit&expires_in=5&scope=repo+gist&token_type=bearer";
    let (shown, told, fields) = taken(body, form).unwrap();
    assert_eq!(
        shown,
        "access_token=S5&expires_in=5&scope=repo%20gist&token_type=bearer"
    );
    assert!(told && fields == ["access_token"]);
}

#[test]
fn what_says_no_is_told_and_what_says_nothing_is_not() {
    let json = "application/json";
    let (shown, told, fields) = taken(r#"{"error":"authorization_pending"}"#, json).unwrap();
    assert_eq!(shown, r#"{"error":"authorization_pending"}"#);
    assert!(told && fields.is_empty());
    assert!(
        taken("error=bad_code", "application/x-www-form-urlencoded")
            .unwrap()
            .1
    );
    assert!(taken("{}", json).unwrap().1);
    assert!(!taken(r#"{"note":"somewhere else"}"#, json).unwrap().1);
    // Words that say nothing, and what an error has no room for.
    for sly in [
        r#"{"error":"","data":"T"}"#,
        r#"{"error":0,"data":"T"}"#,
        r#"{"error":false,"data":"T"}"#,
        r#"{"error":{},"data":"T"}"#,
        r#"{"error":"x","data":["T"]}"#,
    ] {
        let sly = sly.replace('T', TOKEN);
        assert!(!taken(&sly, json).unwrap().1, "{sly}");
    }
    let form = "application/x-www-form-urlencoded";
    assert!(!taken(&format!("error=&data={TOKEN}"), form).unwrap().1);
    assert!(!taken(&format!("error=x&data={TOKEN}"), form).unwrap().1);
    let told = r#"{"error":"x","error_description":"What was given has expired."}"#;
    assert!(taken(told, json).unwrap().1);
    let plain = "text/plain";
    for (text, media) in [
        ("a=b", plain),
        ("the token is T (a=b)", plain),
        ("error=none\naccess_token=T", plain),
        ("error=none\r\naccess_token=T", form),
    ] {
        let text = text.replace('T', TOKEN);
        assert_eq!(
            taken(&text, media).unwrap_err(),
            CaptureError::Unparsable,
            "{text}"
        );
    }
    // What explains is no place for one either.
    for (text, media) in [
        ("error=none%0aaccess_token%3dT", form),
        ("error=x&error_uri=https://a.test/%23access_token%3dT", form),
        (
            r#"{"error":"x","error_description":"use access_token=T"}"#,
            json,
        ),
        (r#"{"error":"none\naccess_token=T"}"#, json),
    ] {
        let text = text.replace('T', "r3al-token-of-it-and-more");
        assert!(!taken(&text, media).unwrap().1, "{text}");
    }
    for strange in [
        r#"{"access_token":{"value":"T"}}"#,
        r#"{"a":[{"id_token":7}]}"#,
    ] {
        assert_eq!(taken(strange, json).unwrap_err(), CaptureError::Strange);
    }
    for broken in [
        "",
        "{",
        r#"{"access_token":"T"} x"#,
        "<html>",
        "\u{feff}{}",
        "access_token=T",
    ] {
        assert_eq!(
            taken(broken, json).unwrap_err(),
            CaptureError::Unparsable,
            "{broken}"
        );
    }
}

#[test]
fn credentials_under_other_names_are_found_beside_a_token() {
    let cases = [
        // Supabase.
        r#"{"access_token":"T","token_type":"bearer","refresh_token":"T","provider_token":"T","provider_refresh_token":"T"}"#,
        // Slack's oauth.v2.access.
        r##"{"ok":true,"access_token":"T","incoming_webhook":{"channel":"#a","configuration_url":"https://a.test","url":"T"}}"##,
        // Cognito identity.
        r#"{"Credentials":{"AccessKeyId":"A","Expiration":1,"SecretKey":"T","SessionToken":"T"},"IdentityId":"i"}"#,
        // RFC 7591.
        r#"{"client_id":"c","client_secret":"T","registration_access_token":"T","client_secret_expires_at":0}"#,
        // With a word that says nothing.
        r#"{"error":"","token":"T"}"#,
        r#"{"tokens":[],"session":{"key":"k","jwt":"T","api-key":"T","Password":"T"},"token":["T"]}"#,
    ];
    for body in cases {
        let body = body.replace("\"T\"", &format!("\"{TOKEN}\""));
        let (shown, told, fields) = taken(&body, "application/json").unwrap();
        assert!(told && !fields.is_empty(), "{body}");
        assert!(!shown.contains(TOKEN), "{shown}");
    }
    let form = "application/x-www-form-urlencoded";
    let body = "access_token=abc&provider_token=r3al%2btoken%2Fof%3dit&password_grant=password";
    let (shown, ..) = taken(body, form).unwrap();
    assert_eq!(
        shown,
        "access_token=S0&provider_token=S0&password_grant=password"
    );
    // What is called so and holds none is what it is.
    let plain = r#"{"error":"x","password":false,"token":{"expires_at":"2026-11-23T03:00:00Z"},"token_type":"bearer"}"#;
    assert_eq!(taken(plain, "application/json").unwrap().0, plain);
}

#[test]
fn json_that_is_a_text_is_looked_through() {
    use base64::{
        Engine as _,
        engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
    };
    let json = "application/json";
    let inner = format!(r#"{{"access_token":"{TOKEN}","refresh_token":"{TOKEN}","n":[10]}}"#);
    let shown = r#"{"access_token":"S0","n":[10],"refresh_token":"S0"}"#;
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let outer = |text: &str| format!(r#"{{"access_token":"{TOKEN}","payload":{}}}"#, quoted(text));
    let expected = |text: &str| format!(r#"{{"access_token":"S0","payload":{}}}"#, quoted(text));
    for (text, of) in [
        (inner.clone(), shown.to_owned()),
        (format!(" [{inner}]\n"), format!("[{shown}]")),
        (STANDARD.encode(&inner), STANDARD.encode(shown)),
        (
            URL_SAFE_NO_PAD.encode(&inner),
            URL_SAFE_NO_PAD.encode(shown),
        ),
        (
            format!("{{\"deeper\":{}}}", quoted(&inner)),
            format!("{{\"deeper\":{}}}", quoted(shown)),
        ),
    ] {
        let (text, told, fields) = (taken(&outer(&text), json)).unwrap();
        assert_eq!((&*text, told, fields.len()), (&*expected(&of), true, 3));
    }
    // Also where nothing else is a token, and in a form.
    let alone = format!(r#"{{"body":{}}}"#, quoted(&inner));
    assert!(taken(&alone, json).unwrap().1);
    let form = format!(
        "payload={}&x=1",
        percent_encoding::utf8_percent_encode(&inner, percent_encoding::NON_ALPHANUMERIC)
    );
    let (text, told, _) = taken(&form, "application/x-www-form-urlencoded").unwrap();
    assert!(told && !text.contains("r3al"), "{text}");
    // What holds none stays as it was written.
    let plain = r#"{"access_token":"T","note":"{ \"a\" : [1,2] }","x":"eyJhIjogMX0="}"#;
    let plain = plain.replace("\"T\"", &format!("\"{TOKEN}\""));
    let (text, ..) = taken(&plain, json).unwrap();
    assert!(
        text.contains(r#""{ \"a\" : [1,2] }""#) && text.contains("eyJhIjogMX0="),
        "{text}"
    );
    let strange = outer(r#"{"access_token":{"value":"T"}}"#);
    assert_eq!(taken(&strange, json).unwrap_err(), CaptureError::Strange);
    let deep = (0..6).fold(inner, |inner, _| format!(r#"{{"x":{}}}"#, quoted(&inner)));
    assert_eq!(
        taken(&outer(&deep), json).unwrap_err(),
        CaptureError::Strange
    );
}

#[test]
fn what_the_policy_names_holds_tokens_under_any_name() {
    let json = "application/json";
    for (body, expected) in [
        // A key for a code, as OpenRouter gives it.
        (
            r#"{"key":"T","user_id":"u"}"#,
            r#"{"key":"S0","user_id":"u"}"#,
        ),
        (
            r#"{"data":[{"key":"T"}],"access_token":"T"}"#,
            r#"{"access_token":"S0","data":[{"key":"S0"}]}"#,
        ),
        // What is shorter than other credentials, too: the policy says what it is.
        (r#"{"key":"1a"}"#, r#"{"key":"S0"}"#),
    ] {
        let body = body.replace("\"T\"", &format!("\"{TOKEN}\""));
        let (shown, told, _) = taken_from(&body, json, &["key"]).unwrap();
        assert_eq!((&*shown, told), (expected, true));
        // Of itself the name says nothing of what is short.
        let (shown, ..) = taken(&body, json).unwrap();
        assert!(!shown.contains(TOKEN), "{shown}");
        assert_eq!(shown.contains("1a"), body.contains("1a"), "{shown}");
    }
    let quoted = r#"{"key":"two words of it, and more","access_token":"T"}"#;
    assert!(taken(quoted, json).unwrap().0.contains("two words"));
    let form = "application/x-www-form-urlencoded";
    let body = "key=r3al%2btoken%2Fof%3dit&Key=x";
    let (shown, told, _) = taken_from(body, form, &["key"]).unwrap();
    assert_eq!((&*shown, told), ("key=S0&Key=x", true));
    for strange in [r#"{"key":17}"#, r#"{"key":{"of":"T"}}"#, r#"{"key":["T"]}"#] {
        let found = taken_from(strange, json, &["key"]);
        assert_eq!(found.unwrap_err(), CaptureError::Strange, "{strange}");
    }
    assert!(
        !taken_from(r#"{"key":"","x":null}"#, json, &["key"])
            .unwrap()
            .1
    );
}

#[test]
fn a_token_in_a_header_field_is_seen() {
    for value in [
        "https://app.test/#access_token=T&state=x",
        "https://app.test/?x=1&id_token=T",
        "access_token=T; Path=/",
        "https://app.test/?token=r3al-token-of-it-1",
        "https://app.test/#x=1&client_secret=r3al-token-of-it-1",
    ] {
        assert!(holds_token_parameter(value.as_bytes(), &[]), "{value}");
    }
    for value in [
        "Bearer error=\"invalid_token\"",
        "application/json",
        "no-store",
        "access_token",
        "https://app.test/?token=short",
    ] {
        assert!(!holds_token_parameter(value.as_bytes(), &[]), "{value}");
    }
    let own = "https://app.test/cb?state=x&key=r3al";
    assert!(!holds_token_parameter(own.as_bytes(), &[]));
    let from = [SecretPlace::Member("key".into())];
    assert!(holds_token_parameter(own.as_bytes(), &from));
}

/// Names of tokens and other credentials, as servers have them.
const CALLED: [&str; 8] = [
    "access_token",
    "refreshToken",
    "provider_token",
    "client_secret",
    "SecretKey",
    "session-token",
    "jwt",
    "password",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
        Just(Value::from(TOKEN)),
    ];
    let name = prop_oneof![
        prop::sample::select(&CALLED[..]).prop_map(str::to_owned),
        "[a-z]{1,4}"
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Whether the token stands in a field that is called one.
fn is_shown(value: &Value, field: bool) -> bool {
    match value {
        Value::String(text) => field && text == TOKEN,
        Value::Array(items) => items.iter().any(|item| is_shown(item, false)),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| is_shown(value, CALLED.contains(&name.as_str()))),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

proptest! {
    #[test]
    fn no_field_that_is_called_a_token_shows_one(value in any_json()) {
        let body = serde_json::to_string(&value).unwrap();
        if let Ok((shown, ..)) = taken(&body, "application/json") {
            let shown: Value = serde_json::from_str(&shown).unwrap();
            prop_assert!(!is_shown(&shown, false), "{}", shown);
        }
    }

    #[test]
    fn any_octets_are_taken_apart_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for media in ["application/json", "application/x-www-form-urlencoded", "text/html"] {
            let result = take_apart(&body, (media, &[]), |_| Ok("S".into()));
            prop_assert!(result.is_ok() || !matches!(result, Err(CaptureError::TooLong)));
        }
    }
}
