//! A factor is asked for, never skipped, and refuses like a wrong password.

use std::sync::atomic::Ordering;

use http::StatusCode;

use super::*;
use crate::{
    Hasher,
    app::tests::Lab,
    auth::sign_in::{Typed as Proof, sign_in},
    role::Role,
    store::{Actor, Change, Standing},
};

const PASSWORD: &str = "correct horse battery";

fn themselves(lab: &Lab) -> Actor {
    Actor {
        request: None,
        once: None,
        name: "ana".into(),
        person: Some("ana".into()),
        owner: false,
        standing: Standing::Itself,
        address: None,
        at: lab.app.now(),
    }
}

/// Somebody with a factor, which was set up long ago, and the first of their recovery codes.
async fn person(lab: &Lab) -> (Seed, String) {
    let password = Hasher::hash("ana", PASSWORD).unwrap();
    lab.make(&Change::AddUser {
        name: "ana".parse().unwrap(),
        role: Role::Admin,
        password: password.clone(),
    });
    let (seed, since) = (Seed::random().unwrap(), lab.app.now());
    let codes = written_down().unwrap();
    let change = Change::SetFactor {
        name: "ana".to_owned(),
        password,
        sealed: lab.app.seal_factor("Ana", &seed, since).await.unwrap(),
        since,
        step: 0,
        codes: codes.iter().map(|(_, digest)| *digest).collect(),
    };
    lab.app.change(themselves(lab), change).await.unwrap();
    (seed, codes[0].0.to_string())
}

fn code_now(lab: &Lab, seed: &Seed) -> String {
    seed.code(lab.app.now().as_second().div_euclid(30))
        .to_string()
}

async fn signed_in(lab: &Lab, password: &str, code: &str) -> Result<(), Problem> {
    let proof = Proof {
        name: "ANA".to_owned(),
        password: Zeroizing::new(password.to_owned()),
        code: Zeroizing::new(code.to_owned()),
        known: None,
        // Another place each time: what counts tries is not asked here.
        address: None,
    };
    sign_in(&lab.app, proof, "browser".to_owned())
        .await
        .map(drop)
}

#[tokio::test]
async fn without_a_code_that_is_new_nobody_signs_in_and_nobody_is_told_what_was_wrong() {
    let lab = Lab::new();
    let (seed, written) = person(&lab).await;
    let mut refused = Vec::new();
    for (password, code) in [
        (PASSWORD, String::new()),
        (PASSWORD, "no code".to_owned()),
        (PASSWORD, Seed::random().unwrap().code(1).to_string()),
        (PASSWORD, "aaaa-bbbb-cccc-dddd".to_owned()),
        ("wrong wrong wrong", code_now(&lab, &seed)),
    ] {
        refused.push(signed_in(&lab, password, &code).await.unwrap_err());
    }
    let code = code_now(&lab, &seed);
    signed_in(&lab, PASSWORD, &code).await.unwrap();
    refused.push(signed_in(&lab, PASSWORD, &code).await.unwrap_err());
    signed_in(&lab, PASSWORD, &written).await.unwrap();
    refused.push(signed_in(&lab, PASSWORD, &written).await.unwrap_err());
    for problem in &refused {
        let same = (problem.status(), &problem.detail);
        assert_eq!(same, (StatusCode::FORBIDDEN, &refused[0].detail));
    }
    let told = lab.log.records().into_iter().map(|record| record.entry);
    let told: Vec<String> = told.map(|entry| entry.findings.join("; ")).collect();
    // For who reads the record: a password is known to who should not know it.
    let of_codes = told
        .iter()
        .filter(|one| one.contains("the password was right"));
    assert_eq!(of_codes.count(), refused.len() - 1, "{told:?}");
    let count = |what: &str| told.iter().filter(|one| one.starts_with(what)).count();
    assert_eq!(count("sign-in refused"), refused.len(), "{told:?}");
    assert_eq!(count("signed in with a code, session "), 1, "{told:?}");
    assert_eq!(
        count("signed in with a recovery code, session "),
        1,
        "{told:?}"
    );
}

#[tokio::test]
async fn the_last_try_before_a_wait_is_recorded_as_that() {
    let lab = Lab::new();
    let (_seed, _written) = person(&lab).await;
    let mut waits = 0;
    for number in 0..8 {
        let proof = Proof {
            name: "ana".to_owned(),
            password: Zeroizing::new(format!("wrong wrong wrong {number}")),
            code: Zeroizing::new(String::new()),
            known: None,
            address: Some("192.0.2.7:1000".parse().unwrap()),
        };
        let refused = sign_in(&lab.app, proof, "browser".to_owned()).await;
        let status = refused.map(drop).unwrap_err().status();
        waits += usize::from(status == StatusCode::TOO_MANY_REQUESTS);
    }
    let records = lab.log.records().into_iter().map(|record| record.entry);
    let refused: Vec<_> = records
        .filter(|entry| entry.deed == Some(gig_audit::Deed::SignInRefused))
        .map(|entry| entry.findings.join("; "))
        .collect();
    assert_eq!((refused.len(), waits), (5, 3), "{refused:?}");
    let (last, before) = refused.split_last().unwrap();
    let over = "the last try for a while";
    assert!(last.contains(over), "{last}");
    assert!(!before.iter().any(|one| one.contains(over)), "{before:?}");
}

#[tokio::test]
async fn a_factor_that_cannot_be_opened_lets_nobody_in() {
    let lab = Lab::new();
    let (seed, written) = person(&lab).await;
    lab.sealer.failing.store(true, Ordering::SeqCst);
    for code in [code_now(&lab, &seed), written, String::new()] {
        let refused = signed_in(&lab, PASSWORD, &code).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.detail.contains("master key"), "{}", refused.detail);
    }
    // Nor is the password told by how it is refused.
    let wrong = signed_in(&lab, "wrong wrong wrong", "").await.unwrap_err();
    assert_eq!(wrong.status(), StatusCode::SERVICE_UNAVAILABLE);
    lab.sealer.failing.store(false, Ordering::SeqCst);
    let code = code_now(&lab, &seed);
    signed_in(&lab, PASSWORD, &code).await.unwrap();
}

#[tokio::test]
async fn what_is_being_set_up_is_of_one_session_and_one_person() {
    let lab = Lab::new();
    let draft = lab.app.draft_factor("Ana", "s1").await.unwrap();
    let again = lab
        .app
        .drafted_factor("ana", "s1", &draft.text)
        .await
        .unwrap();
    assert_eq!(again.seed.octets(), draft.seed.octets());
    for (name, session) in [("ana", "s2"), ("ben", "s1")] {
        assert!(
            lab.app
                .drafted_factor(name, session, &draft.text)
                .await
                .is_err()
        );
    }
    assert!(
        lab.app
            .drafted_factor("ana", "s1", "no draft")
            .await
            .is_err()
    );
    // What a browser brings is never the vault's trouble, and the vault's is told as that.
    let refused = async |text: &str| {
        let drafted = lab.app.drafted_factor("ana", "s1", text).await;
        drafted.err().unwrap().status().as_u16()
    };
    assert_eq!(refused("").await, 400);
    lab.sealer.failing.store(true, Ordering::SeqCst);
    assert_eq!(refused(&draft.text).await, 503);
}

#[test]
fn a_device_is_told_by_whom_for_whom_and_how() {
    let seed = Seed::of(b"12345678901234567890").unwrap();
    assert!(address("ana", "", &seed).starts_with("otpauth://totp/gig:ana?secret="));
    let address = address("ana b@x", "gig.example:8443", &seed);
    assert_eq!(
        *address,
        "otpauth://totp/gig%20gig.example%3A8443:ana%20b%40x?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\
         &issuer=gig%20gig.example%3A8443&algorithm=SHA1&digits=6&period=30"
    );
}
