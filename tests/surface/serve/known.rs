//! Nobody keeps somebody out by guessing at their name: a browser that was here before has tries of its own.

use super::{Appliance, Ask, PASSWORD, Reply};

/// Tries to sign in, in a browser that keeps this.
fn tries(appliance: &Appliance, name: &str, password: &str, kept: &str) -> Reply {
    let fields = format!("name={name}&password={}", password.replace(' ', "+"));
    appliance
        .form("/sign-in", &fields)
        .cookie(kept)
        .send(appliance)
}

/// What a browser keeps beside its session.
fn kept(reply: &Reply) -> String {
    assert_eq!(reply.status, 303, "{reply:?}");
    let mut set = reply
        .head
        .lines()
        .filter_map(|line| line.strip_prefix("set-cookie: "));
    let set = set
        .find(|set| set.starts_with("gig-known="))
        .expect("a cookie");
    for word in ["HttpOnly", "SameSite=Lax", "Max-Age=15552000"] {
        assert!(set.contains(word), "{set}");
    }
    set.split(';').next().expect("a pair").to_owned()
}

#[test]
fn a_stranger_who_guesses_at_a_name_does_not_keep_its_owner_out() {
    let appliance = Appliance::start();
    let ana = appliance.first_admin();
    appliance.member(&ana, "ben", "viewer");
    let own = kept(&tries(&appliance, "ana", PASSWORD, ""));
    let bens = kept(&tries(&appliance, "ben", super::OWN_PASSWORD, ""));
    for _ in 0..5 {
        assert_eq!(
            tries(&appliance, "ana", "wrong wrong wrong", "").status,
            403
        );
    }
    let (plain, tag) = own.split_once('.').expect("two parts");
    let forged = [
        String::new(),
        // Signed for somebody else, cut, or by nobody.
        bens,
        plain.to_owned(),
        format!("{plain}.{}", tag.chars().rev().collect::<String>()),
        format!("{}A.{tag}", plain),
    ];
    for kept in forged {
        let refused = tries(&appliance, "ana", PASSWORD, &kept);
        assert_eq!(refused.status, 429, "{kept}: {refused:?}");
    }
    // Nor does a restart forget who was here, or who guessed.
    let again = kept(&tries(&appliance, "ANA", PASSWORD, &own));
    let appliance = appliance.kill_and_start_again();
    assert_eq!(tries(&appliance, "ana", PASSWORD, "").status, 429);
    // It is no way in, and has no more tries than a stranger.
    for _ in 0..5 {
        assert_eq!(
            tries(&appliance, "ana", "wrong wrong wrong", &again).status,
            403
        );
    }
    assert_eq!(tries(&appliance, "ana", PASSWORD, &again).status, 429);
    assert_eq!(
        tries(&appliance, "ana", PASSWORD, &own).status,
        303,
        "another browser"
    );
    let page = Ask::new("GET", "/").cookie(&own).send(&appliance);
    assert_eq!(page.location(), "/sign-in?next=%2F");
}
