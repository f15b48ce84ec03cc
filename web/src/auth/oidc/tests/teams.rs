//! Teams by groups: what a token says of them, and what it does not.

use super::*;
use crate::store::Store as _;

#[tokio::test]
async fn a_token_that_says_nothing_of_groups_takes_nobody_out_of_a_team() {
    let mut round = Round::new();
    round.sso = SingleSignOn::new(OidcSettings {
        teams: vec![("writers".to_owned(), "data".to_owned())],
        default_role: Some(Role::Viewer),
        ..settings()
    });
    round.lab.make(&Change::SaveTeam {
        name: "data".parse().unwrap(),
        members: Vec::new(),
        expected: None,
    });
    let members = || round.lab.store.teams().unwrap()[0].members.clone();
    round.sign_on(json!({})).await.ok().unwrap();
    assert_eq!(members(), ["ana"]);
    // Too many for the token, and of another shape.
    for groups in [Value::Null, json!({"src1": "elsewhere"})] {
        round.sign_on(json!({"groups": groups})).await.ok().unwrap();
        assert_eq!(members(), ["ana"], "{groups}");
        assert_eq!(round.user("ana").unwrap().role, Role::Viewer);
    }
    round.sign_on(json!({"groups": []})).await.ok().unwrap();
    assert!(members().is_empty(), "it says that there are none");
}

#[tokio::test]
async fn who_may_sign_in_no_more_is_out_of_the_teams_that_their_groups_say_no_more() {
    let mut round = Round::new();
    let teams = [("writers", "data"), ("others", "ops"), ("writers", "none")];
    let teams = teams.map(|(group, team)| (group.to_owned(), team.to_owned()));
    round.sso = SingleSignOn::new(OidcSettings {
        teams: teams.into(),
        ..settings()
    });
    let save = |team: &str, members: &[&str]| {
        round.lab.make(&Change::SaveTeam {
            name: team.parse().unwrap(),
            members: members.iter().map(|one| (*one).to_owned()).collect(),
            expected: None,
        });
    };
    save("data", &[]);
    save("ops", &[]);
    let of = || {
        let teams = round.lab.store.teams().unwrap().into_iter();
        let hers = teams.filter(|team| team.members.iter().any(|one| one == "ana"));
        hers.map(|team| team.name).collect::<Vec<_>>()
    };
    let first = json!({"groups": ["writers", "others"]});
    round.sign_on(first).await.ok().unwrap();
    // What people here put her into is theirs to take her out of.
    save("own", &["ana"]);
    assert_eq!(of(), ["data", "ops", "own"]);
    // As a viewer without session or token she is in a team still, once.
    for again in [false, true] {
        let before = round.told().len();
        let refused = words(round.sign_on(json!({"groups": ["others"]})).await);
        assert!(refused.contains("none of your groups"), "{refused}");
        assert_eq!(of(), ["ops", "own"], "and no team more");
        let told = round.told();
        let out = told.iter().skip(before).filter(|one| {
            let mut words = one.findings.iter();
            words.any(|word| &**word == "taken out of team data, as the provider says")
        });
        assert_eq!(out.count(), usize::from(!again), "{told:?}");
    }
    round.sign_on(json!({"groups": []})).await.err().unwrap();
    assert_eq!(of(), ["own"]);
}
