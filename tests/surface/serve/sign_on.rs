//! Single sign-on through a real OpenID provider, and what nobody gets by it.

use gig_tests::lab::openid_provider::OpenIdProvider;
use serde_json::{Value, json};

use super::{Appliance, Ask, PASSWORD, Reply, command};

/// A real one, and what a browser does with it.
struct Provider(OpenIdProvider);

impl Provider {
    fn start(algorithm: &str) -> Self {
        Self(OpenIdProvider::start(algorithm, "{}"))
    }

    /// Whoever comes next is this.
    fn following(&self, claims: &Value) {
        let told = Ask::new("POST", "/_next").json(claims);
        assert_eq!(told.send_to(self.0.address()).status, 200);
    }

    /// An appliance that knows it.
    fn appliance(&self, options: &[&str]) -> Appliance {
        let folder = tempfile::tempdir().expect("a folder");
        Appliance::start_with(folder, options, None, &self.0.environment())
    }

    /// To the provider and back, as a browser goes; where it comes back to, and the cookie of the round.
    fn round(&self, appliance: &Appliance) -> (String, String) {
        let begun = Ask::new("GET", "/sign-in/oidc?next=/people").send(appliance);
        assert_eq!(begun.status, 303, "{begun:?}");
        let to = begun.location().strip_prefix(self.0.issuer());
        let vouched = Ask::new("GET", to.expect("the provider")).send_to(self.0.address());
        let back = vouched.location();
        let path = back.strip_prefix(&format!("http://{}", appliance.address));
        (path.expect("our own").to_owned(), begun.cookie())
    }

    fn sign_on(&self, appliance: &Appliance, claims: &Value) -> Reply {
        self.following(claims);
        let (back, cookie) = self.round(appliance);
        Ask::new("GET", &back).cookie(&cookie).send(appliance)
    }
}

fn eva(groups: &[&str]) -> Value {
    json!({"sub": "u-17", "preferred_username": "eva@corp.example", "groups": groups})
}

const OPEN: [&str; 2] = ["--outbound-private", "127.0.0.0/8"];

#[test]
fn people_sign_in_through_a_real_openid_provider() {
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        let provider = Provider::start(algorithm);
        let appliance = provider.appliance(&OPEN);
        let page = Ask::new("GET", "/sign-in").send(&appliance);
        assert!(page.body.contains("/sign-in/oidc?next="), "{page:?}");
        let done = provider.sign_on(&appliance, &eva(&["staff", "writers"]));
        assert_eq!((done.status, done.location()), (303, "/people"), "{done:?}");
        let me = Ask::new("GET", "/api/v1/me").cookie(&done.cookie());
        let expected = json!({"name": "eva@corp.example", "role": "editor"});
        assert_eq!(me.send(&appliance).json(), expected, "{algorithm}");
        let people = Ask::new("GET", "/people").cookie(&done.cookie());
        let people = people.send(&appliance);
        assert!(people.body.contains("single sign-on"), "{people:?}");
        assert!(!people.body.contains("/people/password"), "{people:?}");
    }
}

#[test]
fn roles_follow_the_groups_and_whoever_has_none_is_refused_on_the_record() {
    let provider = Provider::start("RS256");
    let appliance = provider.appliance(&OPEN);
    let admin = appliance.first_admin();
    let token = appliance.token("auditor");
    let role = |reply: &Reply| {
        let me = Ask::new("GET", "/api/v1/me").cookie(&reply.cookie());
        me.send(&appliance).json()["role"].clone()
    };
    assert_eq!(role(&provider.sign_on(&appliance, &eva(&["ops"]))), "admin");
    let second = provider.sign_on(&appliance, &eva(&["writers"]));
    assert_eq!(role(&second), "editor");
    // The e-mail address or the name of somebody is not who they are.
    let other = json!({"sub": "u-18", "preferred_username": "ana", "email": "eva@corp.example",
                       "groups": ["ops"]});
    let named = provider.sign_on(&appliance, &other);
    let me = Ask::new("GET", "/api/v1/me").cookie(&named.cookie());
    assert_eq!(me.send(&appliance).json()["name"], "ana-2");
    let refused = provider.sign_on(&appliance, &eva(&["staff"]));
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("none of your groups"), "{refused:?}");
    assert!(!refused.head.contains("gig=ses_"), "{refused:?}");
    let found = appliance.records(&token, "event=auth&verdict=deny");
    let words = found[0].to_string();
    assert!(
        words.contains("none of your groups") && words.contains("eva@corp.example"),
        "{words}"
    );
    let found = appliance.records(&token, "event=auth&verdict=allow").len();
    assert!(found >= 3, "each sign-in is recorded");
    // What the provider decides is decided by nobody here, and there is no password to guess.
    let path = "/api/v1/users/eva@corp.example";
    for change in [json!({"role": "admin"}), json!({"password": PASSWORD})] {
        let asked = Ask::new("PATCH", path).cookie(&admin).json(&change);
        let origin = format!("http://{}", appliance.address);
        let answer = asked.header("Origin", &origin).send(&appliance);
        assert_eq!(answer.status, 409, "{answer:?}");
        assert!(answer.body.contains("single sign-on"), "{answer:?}");
    }
    for password in ["", PASSWORD] {
        let fields = format!(
            "name=eva@corp.example&password={}",
            password.replace(' ', "+")
        );
        assert_eq!(
            appliance.form("/sign-in", &fields).send(&appliance).status,
            403
        );
    }
}

#[test]
fn an_answer_of_a_provider_signs_in_one_browser_once() {
    let provider = Provider::start("RS256");
    let appliance = provider.appliance(&OPEN);
    let back = |path: &str, cookie: &str| Ask::new("GET", path).cookie(cookie).send(&appliance);
    provider.following(&eva(&["writers"]));
    let (first, cookie) = provider.round(&appliance);
    let (second, other) = provider.round(&appliance);
    // Somebody else's browser, none at all, and an answer to another round.
    for (path, cookie) in [
        (&first, other.as_str()),
        (&first, "a=b"),
        (&second, &cookie),
    ] {
        let refused = back(path, cookie);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(
            refused.body.contains("not begun in this browser"),
            "{refused:?}"
        );
    }
    let mixed = format!("{first}&iss=http%3A%2F%2Fevil.example");
    let mixed = back(&mixed, &cookie);
    assert_eq!(mixed.status, 403);
    // Who is refused goes on to where they wanted to go, when they are let in.
    assert!(mixed.body.contains("next=%2Fpeople"), "{}", mixed.body);
    // What another site has a browser begin fills no line: with a fifth round those before it are over.
    let four = ["a", "b", "c", "d"].map(|one| format!("gig-sso-{}=1", one.repeat(8)));
    let begun = |cookies: &str| {
        back("/sign-in/oidc", cookies)
            .head
            .matches("=; Path=/")
            .count()
    };
    assert_eq!(begun(&four[..3].join("; ")), 0);
    assert_eq!(begun(&four.join("; ")), 4);
    // Another round in the same browser, as in another tab, ends this one not.
    let done = back(&first, &format!("{other}; {cookie}"));
    assert_eq!(done.status, 303, "{done:?}");
    assert!(
        done.head.contains("gig-sso-")
            && done.head.contains("=; Path=/")
            && done.head.contains("Max-Age=0"),
        "{done:?}"
    );
    // The code is used up, whoever kept the cookie.
    let again = back(&first, &cookie);
    assert_eq!(again.status, 502, "{again:?}");
    assert!(!again.head.contains("gig=ses_"), "{again:?}");
}

#[test]
fn a_provider_at_a_private_address_is_asked_only_where_it_is_open() {
    let provider = Provider::start("RS256");
    let appliance = provider.appliance(&[]);
    let refused = Ask::new("GET", "/sign-in/oidc").send(&appliance);
    assert_eq!(refused.status, 502, "{refused:?}");
    assert!(refused.body.contains("--outbound-private"), "{refused:?}");
    // People with passwords come in all the same.
    appliance.first_admin();
}

#[test]
fn a_setting_of_single_sign_on_that_is_not_known_refuses_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, said) in [
        ("GIG_OIDC_ISUER", "GIG_OIDC_ISUER is not a setting"),
        ("GIG_OIDC_ISSUER", "needs GIG_OIDC_CLIENT_ID"),
    ] {
        let ended = command(&folder, None)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env(name, "https://idp.example")
            .output()
            .expect("start gig");
        let words = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && words.contains(said), "{words}");
    }
}
