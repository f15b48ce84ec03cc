//! Where secrets go, as it is shown.

use super::*;
use crate::{
    app::tests::{Lab, saved},
    store::{Change, Place, Vouched},
};

#[test]
fn a_version_is_compiled_once_however_often_secrets_are_looked_at() {
    let lab = Lab::new();
    let bound = |host: &str| Change::SavePolicy {
        name: "bound".parse().unwrap(),
        expected: None,
        document: format!("version: 1\negress:\n  - {{host: {host}, secrets: [MAIL]}}\n"),
        reason: String::new(),
        secrets: Vouched::Freely,
    };
    lab.make(&saved("p"));
    lab.make(&bound("a.example"));
    let places = SecretPlaces::default();
    let targets = || -> Vec<_> {
        let all = places.of_all(lab.store.as_ref()).unwrap();
        let all = all.iter().flat_map(|one| one.iter());
        all.map(|(name, place)| format!("{name} {}", place.target))
            .collect()
    };
    let kept = |name: &str| {
        let known = places.known.lock();
        let found = known.iter().find(|((of, _), _)| of == name);
        found.map(|((_, version), kept)| (*version, Arc::clone(kept)))
    };
    let first = targets();
    assert!(
        first.len() == 1 && first[0].contains("a.example"),
        "{first:?}"
    );
    let before = kept("bound").unwrap();
    assert_eq!(targets(), first);
    assert!(Arc::ptr_eq(&before.1, &kept("bound").unwrap().1));
    lab.make(&bound("b.example"));
    assert!(targets()[0].contains("b.example"));
    assert_eq!(kept("bound").unwrap().0, 2);
    assert_eq!(places.known.lock().len(), 2, "the old one is forgotten");
}

#[tokio::test]
async fn by_a_policy_that_is_in_force_for_nobody_a_secret_goes_nowhere() {
    let lab = Lab::new();
    for name in ["idle", "used"] {
        lab.make(&Change::SavePolicy {
            name: name.parse().unwrap(),
            expected: None,
            document: format!(
                "version: 1\negress:\n  - {{host: {name}.example, secrets: [MAIL]}}\n"
            ),
            reason: String::new(),
            secrets: Vouched::Freely,
        });
    }
    lab.make(&Change::Assign {
        place: Place::All,
        policy: Some("used".to_owned()),
        expected: None,
    });
    let all = known(&lab.app, &Caller::itself("ana")).await.unwrap();
    let places = all["MAIL"].places.iter();
    let places: Vec<_> = places
        .map(|place| (place.policy.as_str(), place.in_force.join(", ")))
        .collect();
    let want = [("used", "all servers".to_owned()), ("idle", String::new())];
    assert_eq!(places, want);
    let goes = all["MAIL"].goes_to();
    assert!(
        goes.len() == 1 && goes[0].contains("used.example"),
        "{goes:?}"
    );
}
