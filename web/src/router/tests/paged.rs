//! Every list of the API, walked one by one: all of it, in its order, nothing twice.

use serde_json::Value;

use super::{
    furnished::{Ask, Furnished},
    judged::lists,
};
use crate::{
    app::tests::saved,
    credential::Digest,
    role::Role,
    secrets::{Described, SecretChange, SecretDoing, Secrets as _},
    store::{Change, Place, Store as _, WebhookKind},
};

/// One more of what there is one of.
async fn furnished() -> Furnished {
    let appliance = Furnished::ruled().await;
    let lab = &appliance.lab;
    let policy = || Some("p".to_owned());
    let (place, expected) = (Place::Server("docs".to_owned()), None);
    let expires = lab.app.now() + jiff::SignedDuration::from_hours(1);
    let changes = [
        saved("p"),
        Change::SaveTeam {
            name: "people".parse().unwrap(),
            members: vec!["ben".to_owned()],
            expected: None,
        },
        Change::SaveSearch {
            id: "s0".to_owned(),
            title: "Denials".to_owned(),
            query: "verdict=deny".to_owned(),
        },
        Change::SaveWebhook {
            name: "chat".parse().unwrap(),
            kind: WebhookKind::Slack,
            url: String::new(),
            answerers: Vec::new(),
            rules: false,
            new: false,
        },
        Change::Assign {
            place: place.clone(),
            policy: policy(),
            expected: expected.clone(),
        },
        Change::SetFloor {
            place,
            policy: policy(),
            expected,
        },
        Change::StartSession {
            id: "sess0".to_owned(),
            digest: Digest::of("another cookie"),
            user: "dan".to_owned(),
            password: "own".to_owned(),
            code: None,
            expires,
            agent: String::new(),
        },
    ];
    for change in changes {
        lab.make(&change);
    }
    lab.control.run("docs", "p");
    let secret = SecretChange {
        name: "CHAT_TOKEN".to_owned(),
        doing: SecretDoing::Add {
            value: "a value".to_owned().into(),
            described: Described::Kind("static".to_owned()),
            expires: None,
        },
    };
    lab.secrets
        .change(&secret, std::sync::Arc::new(|_| Ok(())))
        .unwrap();
    appliance
}

async fn page(appliance: &Furnished, token: &str, what: &str) -> (Vec<Value>, Option<String>) {
    let answer = appliance.ask(Ask {
        token,
        ..Ask::of(what)
    });
    let answer = answer.await;
    assert_eq!(answer.status, 200, "{what}: {answer:?}");
    let page = answer.json();
    let next = page
        .get("next")
        .unwrap_or_else(|| panic!("{what} has no next"));
    let next = next
        .as_str()
        .map(str::to_owned)
        .or_else(|| Some(next.as_u64()?.to_string()));
    (page["items"].as_array().unwrap().clone(), next)
}

/// What the document says of `limit` is what is held to; a page that is cut short looks like the last one.
async fn refuses_limits_out_of_range(appliance: &Furnished, token: &str, what: &str) {
    let get = |place: String| async move {
        let answer = appliance.ask(Ask {
            token,
            ..Ask::of(&place)
        });
        answer.await
    };
    let document = get("GET /api/v1/openapi.json".to_owned()).await.json();
    // Of what is of something that has a name.
    let paths = document["paths"].as_object().unwrap();
    let asked = what.trim_start_matches("GET ");
    let is_of = |path: &str| {
        let parts = path.split('/').zip(asked.split('/'));
        path.split('/').count() == asked.split('/').count() && { parts }
            .all(|(said, asked)| said == asked || said.starts_with('{'))
    };
    let mut said = paths.iter().filter(|(path, _)| is_of(path));
    let said = said
        .find_map(|(_, said)| said["get"]["parameters"].as_array())
        .unwrap();
    let said = said.iter().find(|one| one["name"] == "limit").unwrap();
    let (least, most) = (&said["schema"]["minimum"], &said["schema"]["maximum"]);
    assert_eq!(least.as_f64(), Some(1.0), "{what}: {said}");
    let most = most
        .as_f64()
        .unwrap_or_else(|| panic!("{what} says no maximum: {said}"));
    assert_eq!(
        get(format!("{what}?limit={most}")).await.status,
        200,
        "{what}"
    );
    for wrong in [0.0, most + 1.0] {
        let answer = get(format!("{what}?limit={wrong}")).await;
        assert_eq!(answer.status, 400, "{what} {wrong}: {answer:?}");
        let range = format!("1 to {most}");
        let told = answer.json()["detail"].to_string();
        assert!(told.contains(&range), "{what} {wrong}: {told}");
    }
}

#[tokio::test]
async fn every_list_is_walked_one_by_one() {
    let appliance = furnished().await;
    let token = appliance.token("dan", Role::Admin, ("", ""));
    let lists: Vec<&str> = lists().collect();
    assert!(lists.len() >= 14, "{lists:?}");
    for what in lists {
        let (whole, end) = page(&appliance, &token, what).await;
        assert!(whole.len() >= 2 && end.is_none(), "{what}: {whole:?}");
        let (mut walked, mut place) = (Vec::new(), format!("{what}?limit=1"));
        while walked.len() <= whole.len() {
            let (items, next) = page(&appliance, &token, &place).await;
            assert!(items.len() <= 1, "{place}: {items:?}");
            walked.extend(items);
            let Some(next) = next else { break };
            place = format!("{what}?limit=1&cursor={next}");
        }
        assert_eq!(walked, whole, "{what}");
        for wrong in ["cursor=%25", "limit=many", "made_up=1"] {
            let place = format!("{what}?{wrong}");
            let answer = appliance.ask(Ask {
                token: &token,
                ..Ask::of(&place)
            });
            assert_eq!(answer.await.status, 400, "{place}");
        }
        refuses_limits_out_of_range(&appliance, &token, what).await;
    }
    refuses_limits_out_of_range(&appliance, &token, "GET /api/v1/servers/docs/log").await;
    assert!(
        !appliance
            .lab
            .store
            .sessions(appliance.lab.app.now())
            .unwrap()
            .is_empty()
    );
}
