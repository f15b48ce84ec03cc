//! What was forgotten is not used again, whatever takes its name, its number and its second.

use super::{rotating::TokenServer, *};

const LOGIN: &str = "kind: {oauth2_refresh_token: {endpoint: {token_url: 'https://id.example/token'}, \
                     client: {client_id: app, authentication: none}}}";

#[tokio::test]
async fn a_forgotten_value_is_not_used_again() {
    let lab = Lab::new();
    put(&lab.vault, "V", "first value", "{}", 0);
    put(&lab.vault, "ALL", "first value", "{}", 0);
    let keeper = lab.keeper();
    for secret in ["V", "ALL"] {
        assert_eq!(get(&keeper, secret).await.unwrap(), "first value");
    }
    // By another process, within one second, and without a question of this one in between.
    let other = vault(lab.dir.path(), &lab.clock);
    other.remove(&name("V"), Some(1), true).unwrap();
    put(&other, "V", "second value", "{}", 1);
    other.remove(&name("ALL"), None, true).unwrap();
    put(&other, "ALL", "second value", "{}", 0);
    for secret in ["V", "ALL"] {
        let at_hand = keeper.at_hand(&name(secret)).map(|secret| text(&secret));
        assert_eq!(at_hand, None, "{secret}");
        assert_eq!(get(&keeper, secret).await.unwrap(), "second value");
    }
}

#[tokio::test]
async fn what_was_minted_of_another_login_is_not_used_for_the_one_that_is_left() {
    let lab = Lab::new();
    let (first, second) = (TokenServer::open(), TokenServer::open());
    for server in [&first, &second] {
        server.takes_anything();
    }
    put(&lab.vault, "LOGIN", "of the first login", LOGIN, 0);
    let keeper = lab.beside(&first);
    assert_eq!(get(&keeper, "LOGIN").await.unwrap(), "access-1");
    // Another process uses a second login, whose root is forgotten: what is left of it descends from nobody here.
    put(&lab.vault, "LOGIN", "of the second login", LOGIN, 0);
    let other = lab.beside(&second);
    for number in 1..=3 {
        other.refused(&name("LOGIN"));
        let got = get(&other, "LOGIN").await.unwrap();
        assert_eq!(got, format!("access-{number}"));
        lab.pass(31);
    }
    lab.vault.remove(&name("LOGIN"), Some(3), true).unwrap();
    assert!(keeper.at_hand(&name("LOGIN")).is_none());
}

#[tokio::test]
async fn an_answer_for_a_forgotten_login_takes_no_others_place() {
    let lab = Lab::new();
    let server = TokenServer::open();
    put(&lab.vault, "LOGIN", "refresh-0", LOGIN, 0);
    let keeper = lab.beside(&server);
    server.gate.forget_permits(1000);
    let login = name("LOGIN");
    let mut waiting = keeper.current(&login);
    assert!(futures_poll(&mut waiting).is_none());
    while server.asked() == 0 {
        std::thread::yield_now();
    }
    lab.vault.remove(&login, None, true).unwrap();
    put(&lab.vault, "LOGIN", "of another login", LOGIN, 0);
    server.gate.add_permits(1000);
    drop(waiting);
    assert!(keeper.settle(LONG));
    assert_eq!(lab.stored("LOGIN"), "of another login");
}
