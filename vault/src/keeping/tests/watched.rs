//! What of a stored value is watched for, kind by kind.

use super::*;

#[test]
fn what_only_gig_uses_of_a_value_is_watched_for_by_itself() {
    let lab = Lab::new();
    let client = "endpoint: {token_url: 'https://id.example/token'}, client: {client_id: app}";
    let pem = crate::kind::fake_fetch::rsa_pem();
    let pem = pem.trim();
    let key_file = serde_json::json!({"client_email": "a@b", "private_key": format!("{pem}\n")});
    let cases = [
        (
            "aws: {}",
            r#"{"Version":1,"AccessKeyId":"AKIAREALREALREALREAL","SecretAccessKey":"secret-access-key-of-it","SessionToken":"session-token-of-it"}"#.to_owned(),
            vec!["secret-access-key-of-it", "session-token-of-it"],
        ),
        ("aws: {}", "AKIAREALREALREALREAL:another-access-key".to_owned(), vec!["another-access-key"]),
        (
            &format!("oauth2_refresh_token: {{{client}}}"),
            r#"{"refresh_token": "refresh-token-of-it", "client_secret": "client-secret-of-it"}"#.to_owned(),
            vec!["refresh-token-of-it", "client-secret-of-it"],
        ),
        (&format!("oauth2_client_credentials: {{{client}}}"), "client-secret-alone\n".to_owned(), vec!["client-secret-alone"]),
        ("google_service_account: {scopes: [a]}", key_file.to_string(), vec![pem]),
        (
            "hmac: {message: '{body}', header: S, key_encoding: hex}",
            "6b65792d6f662d7369787465656e2d6f".to_owned(),
            vec!["6b65792d6f662d7369787465656e2d6f", "key-of-sixteen-o"],
        ),
    ];
    for (number, (kind, value, wanted)) in cases.into_iter().enumerate() {
        let secret = format!("S{number}");
        put(&lab.vault, &secret, &value, &format!("kind: {{{kind}}}"), 0);
        let keeper = lab.keeper();
        let guarded = keeper.guarded();
        let of = guarded
            .values
            .iter()
            .filter(|known| known.name.as_str() == secret);
        let found: Vec<_> = of
            .map(|known| (known.value.expose(), known.current))
            .collect();
        let wanted: Vec<_> = wanted.iter().map(|part| (part.as_bytes(), false)).collect();
        assert!(found == wanted, "{kind}");
    }
}

#[test]
fn former_keys_of_aws_are_known_by_their_parts_though_nobody_asked_for_them() {
    let lab = Lab::new();
    let key =
        |number: u32| format!("ASIAREALREALREALREAL:secret-key-{number}:session-token-{number}");
    put(&lab.vault, "AWS", &key(1), "kind: {aws: {}}", 0);
    put(&lab.vault, "AWS", &key(2), "", 60);
    lab.vault.remove(&name("AWS"), Some(2), false).unwrap();
    put(&lab.vault, "AWS", &key(3), "", 60);
    // As after a restart.
    let guarded = lab.keeper().guarded();
    let found: Vec<_> = guarded
        .values
        .iter()
        .map(|known| (known.value.expose().to_vec(), known.part, known.current))
        .collect();
    let wanted: Vec<_> = (1..=3)
        .flat_map(|number| {
            [("secret-key", 1), ("session-token", 2)]
                .map(|(part, at)| (format!("{part}-{number}").into_bytes(), Some(at), false))
        })
        .collect();
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn what_only_gig_uses_of_a_provided_value_is_watched_for_too() {
    let lab = Lab::new();
    let file = lab.dir.path().join("keys");
    std::fs::write(
        &file,
        "AKIAREALREALREALREAL:secret-access-key:session-token",
    )
    .unwrap();
    let server = rotating::TokenServer::open();
    let client = lab.dir.path().join("client");
    std::fs::write(&client, "client-secret-of-it\n").unwrap();
    let text = format!(
        "{{kind: {{oauth2_client_credentials: {{endpoint: {{token_url: 'https://id.example/token'}}, \
         client: {{client_id: app}}}}}}, provider: {{file: {{path: '{}'}}}}}}",
        client.display()
    );
    lab.defined("C", &text);
    let text = format!(
        "{{kind: {{aws: {{}}}}, provider: {{file: {{path: '{}'}}}}}}",
        file.display()
    );
    lab.defined("K", &text);
    let keeper = lab.beside(&server);
    get(&keeper, "K").await.unwrap();
    assert_eq!(
        watched(&keeper),
        [
            ("secret-access-key".to_owned(), true),
            ("session-token".to_owned(), true)
        ]
    );
    server.takes_anything();
    get(&keeper, "C").await.unwrap();
    let watched = watched(&keeper);
    assert!(
        watched.contains(&("client-secret-of-it".to_owned(), false)),
        "{watched:?}"
    );
    assert!(
        watched.contains(&("access-1".to_owned(), true)),
        "{watched:?}"
    );
}

#[tokio::test]
async fn who_asks_again_and_again_hears_of_this_process_at_once_and_of_others_soon() {
    let lab = Lab::new();
    put(&lab.vault, "A", "first value", "{}", 0);
    lab.provided();
    let keeper = lab.keeper();
    let other = vault(lab.dir.path(), &lab.clock);
    let knows = |value: &str| {
        let lately = keeper.lately_guarded();
        let mut known = lately.values.iter();
        known.any(|known| known.value.expose() == value.as_bytes())
    };
    assert!(knows("first value"));
    let before = keeper.lately_guarded();
    put(&other, "A", "second value", "{}", 60);
    assert!(
        Arc::ptr_eq(&before, &keeper.lately_guarded()),
        "no store is asked"
    );
    lab.pass(1);
    assert!(knows("second value"));
    // What was read for that is asked for once more.
    assert!(knows("second value"));
    // What is given out here may come back at once, whoever wrote it.
    put(&other, "A", "third value", "{}", 60);
    assert!(!knows("third value"));
    assert_eq!(get(&keeper, "A").await.unwrap(), "third value");
    assert!(knows("third value"));
    put(&lab.vault, "A", "fourth value", "{}", 60);
    assert!(knows("fourth value"));
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    assert!(knows("value 1"));
    // A clock that is set back makes nobody wait.
    put(&other, "A", "fifth value", "{}", 60);
    let back = StoppedClock::at(Timestamp::from_second(1_700_000_000).unwrap());
    let asked = |now| Asked {
        now,
        changes: keeper.0.asked_now().changes,
    };
    assert!(keeper.0.guard.recent(asked(lab.clock.now())).is_some());
    assert!(keeper.0.guard.recent(asked(back.now())).is_none());
}
