//! A floor is held against the traffic of all whom it bounds, and a place against that of all in it.

use gig_audit::{Entry, Event, Recorder, RecorderSettings, SqliteStore, VerdictWord};
use gig_policy::DenyReason;

use super::*;
use crate::{
    app::tests::Lab,
    recorded::{simulate, simulate_place, simulate_team},
    store::{Change, Place},
};

/// `p`, which allows `api.example.com`, is in force for all; `company` bounds `docs`. What was recorded: of both servers
/// a request that `p` let pass, and of `docs` one that the floor denied.
async fn recorded() -> Lab {
    let lab = Lab::with(&["docs", "mail"]);
    save(&lab, "company", OPEN);
    save(&lab, "closed", CLOSED);
    lab.make(&Change::SetFloor {
        place: Place::Server("docs".to_owned()),
        policy: Some("company".to_owned()),
        expected: None,
    });
    let store = SqliteStore::open(&lab.record(), "here").unwrap();
    let (recorder, owner) =
        Recorder::start(Box::new(store), RecorderSettings::new("here")).unwrap();
    for (server, host, policy, verdict) in [
        ("docs", "api.example.com", "p", VerdictWord::Allow),
        ("docs", "new.example", "company", VerdictWord::Deny),
        ("mail", "api.example.com", "p", VerdictWord::Allow),
    ] {
        let mut entry = Entry::new(Event::Request);
        (entry.server, entry.profile) = (Some(server.into()), Some("ana".into()));
        (entry.host, entry.port) = (Some(host.into()), Some(443));
        entry.protocol = Some("https".into());
        (entry.method, entry.path) = (Some("GET".into()), Some(format!("/{server}").into()));
        (entry.policy, entry.policy_version) = (Some(policy.into()), Some(1));
        entry.verdict = Some(verdict);
        entry.reason = (verdict == VerdictWord::Deny).then_some(DenyReason::HostNotAllowed);
        recorder.record(entry).await.unwrap();
    }
    drop(recorder);
    owner.close(std::time::Duration::from_secs(5));
    lab
}

fn save(lab: &Lab, name: &str, document: &str) {
    lab.make(&Change::SavePolicy {
        name: name.parse().unwrap(),
        expected: None,
        document: document.to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    });
}

/// How many records, what is newly allowed and newly denied, and how much still passes.
fn told(made: Simulation) -> (u64, Vec<String>, Vec<String>, u64) {
    (
        made.records,
        made.newly_allowed
            .into_iter()
            .map(|one| one.asked)
            .collect(),
        made.newly_denied.into_iter().map(|one| one.asked).collect(),
        made.still_allowed,
    )
}

fn api(server: &str) -> String {
    format!("GET https://api.example.com:443/{server}")
}

#[tokio::test]
async fn a_floor_is_simulated_over_all_whom_it_bounds() {
    let lab = recorded().await;
    let of = async |document: &str, server: Option<&str>| {
        let span = Span {
            days: 7,
            policy: server.is_none().then(|| "company".to_owned()),
            server: server.map(str::to_owned),
            sandbox: None,
        };
        let made = simulate(&lab.app, "company".to_owned(), document.to_owned(), span);
        told(made.await.unwrap())
    };
    // What it lets pass bears the name of the policy beneath it.
    for server in [None, Some("docs")] {
        let denied = vec![api("docs")];
        assert_eq!(of(CLOSED, server).await, (2, Vec::new(), denied, 0));
        // A floor grants nothing: the policy beneath decides.
        assert_eq!(of(WIDE, server).await, (2, Vec::new(), Vec::new(), 1));
    }
    // Tried on a server that it does not bound.
    let denied = vec![api("mail")];
    assert_eq!(of(CLOSED, Some("mail")).await, (1, Vec::new(), denied, 0));
    save(&lab, "p", WIDE);
    let allowed = vec!["GET https://new.example:443/docs".to_owned()];
    assert_eq!(of(WIDE, None).await, (2, allowed, Vec::new(), 1));
    // Where what is beneath denies it by now it is not the floor's doing.
    save(&lab, "p", CLOSED);
    assert_eq!(of(CLOSED, None).await, (2, Vec::new(), Vec::new(), 0));
}

#[tokio::test]
async fn what_is_put_in_force_somewhere_is_simulated_over_what_was_recorded_there() {
    let lab = recorded().await;
    let of = async |place: Place, policy: Option<&str>, is_floor| {
        let supposed = Supposed {
            place,
            policy: policy.map(str::to_owned),
            is_floor,
        };
        told(simulate_place(&lab.app, supposed, 7).await.unwrap())
    };
    let (docs, mail) = (
        Place::Server("docs".to_owned()),
        Place::Server("mail".to_owned()),
    );
    let none = Vec::new;
    let denied = |servers: &[&str]| servers.iter().map(|server| api(server)).collect::<Vec<_>>();
    let closed = Some("closed");
    assert_eq!(
        of(mail.clone(), closed, false).await,
        (1, none(), denied(&["mail"]), 0)
    );
    assert_eq!(
        of(docs.clone(), Some("p"), false).await,
        (2, none(), none(), 1)
    );
    assert_eq!(
        of(Place::All, None, false).await,
        (3, none(), denied(&["docs", "mail"]), 0)
    );
    assert_eq!(of(Place::profile("ana"), closed, false).await.2.len(), 2);
    assert_eq!(of(Place::profile("ben"), closed, false).await.0, 0);
    // As floors.
    assert_eq!(
        of(mail, closed, true).await,
        (1, none(), denied(&["mail"]), 0)
    );
    assert_eq!(
        of(docs.clone(), closed, true).await,
        (2, none(), denied(&["docs"]), 0)
    );
    save(&lab, "p", WIDE);
    let allowed = vec!["GET https://new.example:443/docs".to_owned()];
    assert_eq!(of(docs, None, true).await, (2, allowed, none(), 1));
}

const OPEN: &str = "version: 1\negress:\n  - host: api.example.com\n";
const CLOSED: &str = "version: 1\negress: []\n";
const WIDE: &str = "version: 1\negress:\n  - host: api.example.com\n  - host: new.example\n";

#[tokio::test]
async fn other_members_of_a_team_are_simulated_over_the_traffic_of_who_comes_or_goes() {
    let lab = recorded().await;
    let team = |members: &[&str]| SupposedTeam {
        name: "data".to_owned(),
        members: members.iter().map(|&name| name.to_owned()).collect(),
    };
    let of = async |members: &[&str]| {
        let made = simulate_team(&lab.app, team(members), 7).await;
        told(made.unwrap())
    };
    let none = Vec::new;
    // A team that has nothing changes nothing.
    assert_eq!(of(&["ana"]).await, (0, none(), none(), 0));
    lab.make(&Change::SaveTeam {
        name: "data".parse().unwrap(),
        members: vec!["ben".to_owned()],
        expected: None,
    });
    lab.make(&Change::Assign {
        place: Place::Team("data".to_owned()),
        policy: Some("closed".to_owned()),
        expected: None,
    });
    // Who comes is under the team's policy.
    let denied = vec![api("docs"), api("mail")];
    assert_eq!(of(&["ana", "ben"]).await, (3, none(), denied, 0));
    // Who stays, and who goes and did nothing, is not concerned.
    assert_eq!(of(&["ben"]).await.0, 0);
    assert_eq!(of(&[]).await.0, 0);
    // A team's floor, too.
    lab.make(&Change::Assign {
        place: Place::Team("data".to_owned()),
        policy: None,
        expected: None,
    });
    lab.make(&Change::SetFloor {
        place: Place::Team("data".to_owned()),
        policy: Some("closed".to_owned()),
        expected: None,
    });
    let denied = vec![api("docs"), api("mail")];
    assert_eq!(of(&["ana", "ben"]).await, (3, none(), denied, 0));
    // Who goes has what all have again.
    lab.make(&Change::SaveTeam {
        name: "data".parse().unwrap(),
        members: vec!["ana".to_owned()],
        expected: None,
    });
    save(&lab, "company", WIDE);
    save(&lab, "p", WIDE);
    let allowed = vec!["GET https://new.example:443/docs".to_owned()];
    assert_eq!(of(&[]).await, (3, allowed, none(), 2));
}
