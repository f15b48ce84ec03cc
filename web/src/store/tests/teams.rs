//! Teams, and what is assigned to them and to people, on both databases.

use super::{
    super::*,
    actor, apply, policy, registered,
    two_person::{by, decide, make, owner, proposed, ruled},
    user,
};
use crate::{in_force::effective, role::Role};

mod named;

on_both! {
    the_most_specific_assignment_is_in_force_and_every_floor_bounds_it,
    nobody_is_of_two_teams_of_different_policies,
    a_team_is_changed_by_who_has_seen_it_and_stays_while_it_is_used,
    what_is_assigned_is_changed_by_who_has_seen_it,
    what_is_in_force_for_a_name_stays_when_its_account_goes,
    under_the_two_person_rule_teams_wait_and_go_stale,
    the_record_says_who_came_to_a_team_and_who_went,
}

fn team(name: &str, members: &[&str]) -> Change {
    let names: Vec<Name> = members.iter().map(|name| name.parse().unwrap()).collect();
    Change::SaveTeam {
        name: name.parse().unwrap(),
        members: teams::members(&names),
        expected: None,
    }
}

fn assign(place: Place, policy: Option<&str>) -> Change {
    Change::Assign {
        place,
        policy: policy.map(str::to_owned),
        expected: None,
    }
}

fn floor(place: Place, policy: Option<&str>) -> Change {
    Change::SetFloor {
        place,
        policy: policy.map(str::to_owned),
        expected: None,
    }
}

fn of_team(name: &str) -> Place {
    Place::Team(name.to_owned())
}

fn of_server(name: &str) -> Place {
    Place::Server(name.to_owned())
}

/// Policies that allow one host each, of their own name.
fn policies(store: &dyn Store, names: &[&str]) {
    for name in names {
        let document = format!("version: 1\negress:\n  - host: {name}.example.com\n");
        apply(store, &policy(name, None, &document)).unwrap();
    }
}

/// What is in force, by what, and how many floors bound it.
fn in_force(store: &dyn Store, server: &str, profile: &str) -> (String, String, usize) {
    let ruling = effective(store, server, profile).unwrap();
    let name = ruling.policy.reference().name.to_string();
    (name, ruling.by.to_string(), ruling.policy.floors().len())
}

fn is(found: (String, String, usize), policy: &str, by: &str, floors: usize) {
    assert_eq!(found, (policy.to_owned(), by.to_owned(), floors));
}

fn the_most_specific_assignment_is_in_force_and_every_floor_bounds_it(store: &dyn Store) {
    policies(store, &["p", "t", "s", "a", "f1", "f2"]);
    for name in ["docs", "mail"] {
        apply(store, &registered(name)).unwrap();
    }
    apply(store, &team("data", &["Ana", "ben"])).unwrap();
    apply(store, &team("other", &["ana"])).unwrap();
    // Least first, each wins over those before it, for those whom it concerns alone.
    is(
        in_force(store, "docs", "ana"),
        "nothing assigned",
        "nothing assigned",
        0,
    );
    apply(store, &assign(Place::All, Some("a"))).unwrap();
    is(in_force(store, "docs", "ana"), "a", "all servers", 0);
    apply(store, &assign(of_server("docs"), Some("s"))).unwrap();
    is(in_force(store, "docs", "ana"), "s", "server docs", 0);
    is(in_force(store, "mail", "ana"), "a", "all servers", 0);
    apply(store, &assign(of_team("data"), Some("t"))).unwrap();
    is(in_force(store, "docs", "ANA"), "t", "team data", 0);
    is(in_force(store, "mail", "ben"), "t", "team data", 0);
    is(in_force(store, "docs", "cem"), "s", "server docs", 0);
    is(in_force(store, "docs", ""), "s", "server docs", 0);
    apply(store, &assign(Place::profile("Ana"), Some("p"))).unwrap();
    is(in_force(store, "docs", "ana"), "p", "profile ana", 0);
    is(in_force(store, "docs", "ben"), "t", "team data", 0);
    // Floors of all of their places, each policy once.
    for (place, policy) in [
        (Place::All, "f1"),
        (of_server("docs"), "f2"),
        (of_team("data"), "f1"),
        (of_team("other"), "f2"),
        (Place::profile("ben"), "f2"),
    ] {
        apply(store, &floor(place, Some(policy))).unwrap();
    }
    is(in_force(store, "docs", "ana"), "p", "profile ana", 2);
    is(in_force(store, "mail", "ana"), "p", "profile ana", 2);
    is(in_force(store, "mail", "ben"), "t", "team data", 2);
    is(in_force(store, "mail", "cem"), "a", "all servers", 1);
    // What no floor allows is denied, whoever assigned it.
    let ruling = effective(store, "mail", "cem").unwrap();
    let asked = ruling.policy.explain("GET", "https://a.example.com/");
    assert_eq!(asked.unwrap().verdict, "deny");
    is(
        in_force(store, "gone", "ana"),
        "no longer registered",
        "no longer registered",
        0,
    );
    // Away with the most specific one: the next is in force.
    apply(store, &assign(Place::profile("ANA"), None)).unwrap();
    is(in_force(store, "docs", "ana"), "t", "team data", 2);
    apply(store, &team("data", &["ben"])).unwrap();
    is(in_force(store, "mail", "ana"), "a", "all servers", 2);
}

fn nobody_is_of_two_teams_of_different_policies(store: &dyn Store) {
    policies(store, &["p", "q"]);
    apply(store, &registered("docs")).unwrap();
    apply(store, &team("one", &["ana", "ben"])).unwrap();
    apply(store, &team("two", &["ben", "cem"])).unwrap();
    apply(store, &assign(of_team("one"), Some("p"))).unwrap();
    let refused = apply(store, &assign(of_team("two"), Some("q"))).unwrap_err();
    assert!(
        matches!(&refused, ChangeError::Ambiguous { person, policies }
            if person == "ben" && *policies == ["p".to_owned(), "q".to_owned()]),
        "{refused}"
    );
    assert_eq!(store.assignments().unwrap().len(), 1);
    // The same policy says the same.
    apply(store, &assign(of_team("two"), Some("p"))).unwrap();
    is(in_force(store, "docs", "ben"), "p", "team one", 0);
    apply(store, &team("two", &["cem"])).unwrap();
    apply(store, &assign(of_team("two"), Some("q"))).unwrap();
    // By who is of it, too, and by a new team.
    let refused = apply(store, &team("two", &["cem", "Ben"])).unwrap_err();
    assert!(
        matches!(refused, ChangeError::Ambiguous { .. }),
        "{refused}"
    );
    is(in_force(store, "docs", "ben"), "p", "team one", 0);
    // One of their own does not make it clear what is in force without it.
    apply(store, &assign(Place::profile("ben"), Some("q"))).unwrap();
    assert!(apply(store, &team("two", &["ben"])).is_err());
}

fn a_team_is_changed_by_who_has_seen_it_and_stays_while_it_is_used(store: &dyn Store) {
    policies(store, &["p"]);
    let on = |change: Change, tag: &str| match change {
        Change::SaveTeam { name, members, .. } => Change::SaveTeam {
            name,
            members,
            expected: Some(tag.to_owned()),
        },
        other => other,
    };
    let remove = |expected: Option<String>| {
        let name = "data".to_owned();
        apply(store, &Change::RemoveTeam { name, expected })
    };
    let tag = || store.teams().unwrap()[0].tag();
    assert!(matches!(remove(None), Err(ChangeError::Missing { .. })));
    apply(store, &on(team("data", &["ana"]), "")).unwrap();
    let first = tag();
    let again = apply(store, &on(team("data", &["ben"]), ""));
    assert!(
        matches!(again, Err(ChangeError::Meanwhile { .. })),
        "{again:?}"
    );
    apply(store, &on(team("data", &["ana", "ben"]), &first)).unwrap();
    assert_ne!(tag(), first);
    assert!(apply(store, &on(team("data", &[]), &first)).is_err());
    assert!(matches!(
        remove(Some(first)),
        Err(ChangeError::Meanwhile { .. })
    ));
    assert_eq!(store.teams().unwrap()[0].members, ["ana", "ben"]);
    let missing = apply(store, &assign(of_team("nobody"), Some("p")));
    assert!(matches!(
        missing,
        Err(ChangeError::Missing { what: "team", .. })
    ));
    for used in [
        assign(of_team("data"), Some("p")),
        floor(of_team("data"), Some("p")),
    ] {
        apply(store, &used).unwrap();
    }
    for taken in [assign(of_team("data"), None), floor(of_team("data"), None)] {
        assert!(matches!(remove(None), Err(ChangeError::InUse { .. })));
        apply(store, &taken).unwrap();
    }
    remove(Some(tag())).unwrap();
    assert!(store.teams().unwrap().is_empty());
    let many: Vec<String> = (0..1001).map(|number| format!("p{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let full = apply(store, &team("many", &many));
    assert!(matches!(full, Err(ChangeError::Full { .. })), "{full:?}");
    apply(store, &team("many", &many[..1000])).unwrap();
}

fn what_is_assigned_is_changed_by_who_has_seen_it(store: &dyn Store) {
    policies(store, &["p", "q"]);
    let at = |change: Change, tag: &str| {
        let tag = Some(tag.to_owned());
        match change {
            Change::Assign { place, policy, .. } => Change::Assign {
                place,
                policy,
                expected: tag,
            },
            Change::SetFloor { place, policy, .. } => Change::SetFloor {
                place,
                policy,
                expected: tag,
            },
            other => other,
        }
    };
    let empty = Assignment::tag(&[]);
    for change in [assign as fn(Place, Option<&str>) -> Change, floor] {
        apply(store, &at(change(Place::All, Some("p")), &empty)).unwrap();
        let late = apply(store, &at(change(Place::All, Some("q")), &empty));
        assert!(
            matches!(late, Err(ChangeError::Meanwhile { .. })),
            "{late:?}"
        );
    }
    let now = Assignment::tag(&store.assignments().unwrap());
    assert_ne!(now, empty);
    apply(store, &at(assign(Place::profile("ana"), Some("q")), &now)).unwrap();
    assert_ne!(Assignment::tag(&store.assignments().unwrap()), now);
}

fn what_is_in_force_for_a_name_stays_when_its_account_goes(store: &dyn Store) {
    policies(store, &["p"]);
    apply(store, &user("ana", Role::Admin)).unwrap();
    for rule in [false, true] {
        apply(store, &user("Ben", Role::Viewer)).unwrap();
        apply(store, &team("data", &["ana", "ben"])).unwrap();
        for change in [assign as fn(Place, Option<&str>) -> Change, floor] {
            apply(store, &change(Place::profile("ben"), Some("p"))).unwrap();
        }
        if rule {
            apply(store, &user("dan", Role::Admin)).unwrap();
            for name in ["ana", "dan"] {
                make(store, &super::two_person::password(name, "own"), &by(name)).unwrap();
            }
            apply(store, &Change::TwoPersonRule { on: true }).unwrap();
        }
        let name = "BEN".to_owned();
        apply(store, &Change::RemoveUser { name }).unwrap();
        // Whatever bounds it would be gone for what runs, and for those whom a gateway calls so.
        assert_eq!(store.teams().unwrap()[0].members, ["ana", "ben"]);
        assert_eq!(store.assignments().unwrap().len(), 1);
        assert_eq!(store.floors().unwrap().len(), 1);
    }
}

fn under_the_two_person_rule_teams_wait_and_go_stale(store: &dyn Store) {
    policies(store, &["q"]);
    ruled(store);
    let ana = by("ana");
    let approve = |id: u64| make(store, &decide(id, Decision::Approve), &by("cem"));
    let first = proposed(make(store, &team("data", &["ana"]), &ana));
    assert!(store.teams().unwrap().is_empty());
    let own = make(store, &decide(first, Decision::Approve), &ana);
    assert!(matches!(own, Err(ChangeError::TwoPeople(_))), "{own:?}");
    approve(first).unwrap();
    assert_eq!(store.teams().unwrap()[0].members, ["ana"]);
    // An assignment is of those who were of the team when it was asked for.
    let assigned = proposed(make(store, &assign(of_team("data"), Some("p")), &ana));
    let wider = proposed(make(store, &team("data", &["ana", "ben"]), &ana));
    let kept = store.proposal(wider).unwrap().unwrap();
    assert_eq!(
        (kept.before.as_str(), kept.draft.value.as_str()),
        ("ana", "ana ben")
    );
    approve(wider).unwrap();
    assert!(store.proposal(assigned).unwrap().unwrap().stale);
    assert!(matches!(
        approve(assigned),
        Err(ChangeError::Outdated { .. })
    ));
    let again = proposed(make(store, &assign(of_team("data"), Some("p")), &ana));
    // And who comes to a team is of what was assigned to it then.
    let more = proposed(make(store, &team("data", &["ana", "ben", "cem"]), &ana));
    approve(again).unwrap();
    assert!(matches!(approve(more), Err(ChangeError::Outdated { .. })));
    // What would be ambiguous is refused to who asks for it, and to who approves.
    let two = proposed(make(store, &team("two", &["ben"]), &ana));
    approve(two).unwrap();
    let unclear = make(store, &assign(of_team("two"), Some("q")), &ana);
    assert!(
        matches!(unclear, Err(ChangeError::Ambiguous { .. })),
        "{unclear:?}"
    );
    let remove = Change::RemoveTeam {
        name: "two".to_owned(),
        expected: None,
    };
    let gone = proposed(make(store, &remove, &ana));
    make(store, &team("two", &["ben"]), &by("ben")).unwrap();
    approve(gone).unwrap();
    // For a person, as for all else.
    let person = proposed(make(store, &assign(Place::profile("Dan"), Some("q")), &ana));
    approve(person).unwrap();
    apply(store, &registered("docs")).unwrap();
    is(in_force(store, "docs", "dan"), "q", "profile dan", 0);
    assert!(
        store
            .assignments()
            .unwrap()
            .iter()
            .any(|one| one.place == Place::profile("dan"))
    );
    // This machine's owner passes, on the record.
    assert!(make(store, &team("data", &[]), &owner()).unwrap().passed);
}

fn the_record_says_who_came_to_a_team_and_who_went(store: &dyn Store) {
    policies(store, &["p"]);
    let told = std::cell::RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        let words: Vec<String> = entry.findings.iter().map(ToString::to_string).collect();
        told.borrow_mut().push((entry.event, words.join("; ")));
        Ok(())
    };
    let remove = Change::RemoveTeam {
        name: "data".to_owned(),
        expected: None,
    };
    for change in [
        team("data", &["ana", "ben"]),
        team("data", &["cem", "ben"]),
        assign(of_team("data"), Some("p")),
        floor(Place::profile("ana"), Some("p")),
        assign(of_team("data"), None),
        remove,
    ] {
        store.apply(&change, &actor(0), &witness).unwrap();
    }
    let (events, words): (Vec<_>, Vec<_>) = told.into_inner().into_iter().unzip();
    use gig_audit::Event::PolicyChange;
    assert_eq!(
        events,
        [
            PolicyChange,
            PolicyChange,
            PolicyChange,
            PolicyChange,
            PolicyChange,
            PolicyChange
        ]
    );
    assert_eq!(
        words,
        [
            "team data: 2 members; added: ana ben",
            "team data: 2 members; added: cem; taken out: ana",
            "p put in force for team data",
            "p is the floor of profile ana",
            "assignment of team data taken away",
            "team data removed; taken out: ben cem",
        ]
    );
    // Not recorded, not changed.
    let lost = store.apply(&team("lost", &["ana"]), &actor(0), &|_| {
        Err("full".to_owned())
    });
    assert!(matches!(lost, Err(ChangeError::NotRecorded(_))));
    assert!(store.teams().unwrap().is_empty());
}

/// The tables as they were before, with something in them; then what brings them up to date.
fn what_was_in_force_stays_so(store: &(impl Store + tables::Tables), update: &str) {
    policies(store, &["p", "q"]);
    apply(store, &registered("docs")).unwrap();
    let before =
        "DROP TABLE team_members; DROP TABLE teams; DROP TABLE assignments; DROP TABLE floors;
        CREATE TABLE assignments (server TEXT PRIMARY KEY, policy TEXT NOT NULL);
        CREATE TABLE floors (server TEXT PRIMARY KEY, policy TEXT NOT NULL);
        INSERT INTO assignments VALUES ('', 'p'), ('docs', 'q');
        INSERT INTO floors VALUES ('', 'q');";
    let made = tables::Tables::change(store, true, |db| {
        db.execute_batch(before)?;
        Ok(db.execute_batch(update)?)
    });
    made.unwrap();
    is(in_force(store, "docs", "ana"), "q", "server docs", 1);
    let kept = store.assignments().unwrap();
    let kept: Vec<_> = kept
        .iter()
        .map(|one| (&one.place, one.policy.as_str()))
        .collect();
    assert_eq!(kept, [(&Place::All, "p"), (&of_server("docs"), "q")]);
    apply(store, &team("data", &["ana"])).unwrap();
    apply(store, &assign(of_team("data"), Some("p"))).unwrap();
    is(in_force(store, "docs", "ana"), "p", "team data", 1);
}

#[test]
fn what_was_in_force_before_there_were_teams_stays_so_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("gig.db")).unwrap();
    let update = include_str!("../sqlite/migrations/V9__teams.sql");
    what_was_in_force_stays_so(&store, update);
}

#[test]
fn what_was_in_force_before_there_were_teams_stays_so_in_a_fleet() {
    let database = super::server::Database::fresh();
    let store = PostgresStore::open(&database.url()).unwrap();
    let update = include_str!("../postgres/migrations/V9__teams.sql");
    what_was_in_force_stays_so(&store, update);
}
