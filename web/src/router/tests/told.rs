//! What a form did is said once, and what it refused is there to be mended, beside why.

use super::{
    console::signed_in,
    furnished::{Answer, Furnished},
};
use crate::store::{Change, Place};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

async fn post(appliance: &Furnished, cookie: &str, path: &str, body: &str) -> Answer {
    let fields = [("cookie", cookie), ("origin", "http://127.0.0.1"), FORM];
    appliance.send(&format!("POST {path}"), &fields, body).await
}

fn set_cookies(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("set-cookie").iter();
    all.map(|value| value.to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn what_a_form_did_is_said_once_on_the_next_page() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    let added = post(
        &appliance,
        admin,
        "/people/users",
        "name=eve&role=viewer&password=correct+horse+battery",
    )
    .await;
    assert_eq!(added.status, 303, "{added:?}");
    let kept = set_cookies(&added);
    let [kept] = kept.as_slice() else {
        panic!("{kept:?}");
    };
    assert!(kept.starts_with("gig-done=as-asked; "), "{kept}");
    for part in ["HttpOnly", "SameSite=Lax", "Max-Age=60"] {
        assert!(kept.contains(part), "{kept}");
    }
    let said = "<p class=\"note good\" role=\"status\">Done.</p>";
    let page = appliance
        .page("GET /people", &format!("{admin}; gig-done=as-asked"))
        .await;
    assert!(page.body.contains(said), "{}", page.body);
    let [over] = set_cookies(&page).try_into().unwrap();
    assert!(
        over.starts_with("gig-done=; ") && over.contains("Max-Age=0"),
        "{over}"
    );
    // Not again, and no words but ours.
    for cookie in [admin.clone(), format!("{admin}; gig-done=<b>evil</b>")] {
        let page = appliance.page("GET /people", &cookie).await;
        assert!(
            !page.body.contains("role=\"status\"") && !page.body.contains("evil"),
            "{}",
            page.body
        );
        assert_eq!(set_cookies(&page), [""; 0]);
    }
}

#[tokio::test]
async fn a_form_that_is_refused_is_there_as_it_was_typed_with_why() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    for (path, body, heading, typed) in [
        (
            "/people/users",
            "name=two+words&role=editor&password=correct+horse+battery",
            "Add a user",
            &["value=\"two words\"", "value=\"editor\" selected"][..],
        ),
        (
            "/people/tokens",
            "name=ci&role=auditor&days=7&scopes=nonsense&servers=docs",
            "Make a token",
            &[
                "value=\"ci\"",
                "value=\"auditor\" selected",
                "value=\"7\"",
                "value=\"nonsense\"",
                "value=\"docs\"",
            ],
        ),
        (
            "/people/teams",
            "name=data&members=not+a+%2F+name&tag=&act=save",
            "Make a team",
            &["value=\"data\"", "not a / name</textarea>"],
        ),
        (
            "/people/password",
            "current=correct+horse+battery&password=correct+horse+one&again=correct+horse+two",
            "Change your password",
            &["value=\"yes\""],
        ),
        (
            "/settings/webhooks",
            "name=ops&kind=generic&url=https%3A%2F%2Fx.example%2Fy&answerers=ana+ben&rules=yes",
            "Set up a webhook",
            &[
                "value=\"ops\"",
                "value=\"generic\" selected",
                "value=\"https://x.example/y\"",
                "value=\"ana ben\"",
                "name=\"rules\" value=\"yes\" checked",
                "name=\"replace\" value=\"yes\">",
            ],
        ),
    ] {
        let answer = post(&appliance, admin, path, body).await;
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        let (_, form) = answer
            .body
            .split_once(&format!("<details class=\"card\" open><summary>{heading}"))
            .unwrap();
        let (form, _) = form.split_once("</details>").unwrap();
        assert!(form.contains("role=\"alert\""), "{path}: {form}");
        for part in typed {
            assert!(form.contains(part), "{path}: {part}: {form}");
        }
        assert!(!answer.body.contains("correct horse"), "{path}");
        assert_eq!(answer.body.matches("role=\"alert\"").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn a_secret_that_is_refused_stands_in_its_form_again_without_its_value() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let body = "name=API_KEY&kind=defined&value=hush-hush-value&days=soon&definition=kind%3A+static%0D%0A%23+mine";
    let answer = post(&appliance, &cookies[4], "/secrets", body).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let (_, form) = answer.body.split_once("id=\"keep\"").unwrap();
    for part in [
        "role=\"alert\"",
        "days are a number",
        "value=\"API_KEY\"",
        "value=\"defined\" selected",
        "value=\"soon\"",
        "<details open>",
        "# mine</textarea>",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    assert!(!answer.body.contains("hush-hush"), "{}", answer.body);
    // Another value for one that is there.
    let body = "act=rotate&value=hush-hush-value&days=14&grace=many";
    let path = "/secrets/MAIL_TOKEN";
    let answer = post(&appliance, &cookies[4], path, body).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    for part in ["hours are a number", "value=\"14\"", "value=\"many\""] {
        assert!(answer.body.contains(part), "{part}: {}", answer.body);
    }
    assert!(!answer.body.contains("hush-hush"), "{}", answer.body);
}

#[tokio::test]
async fn who_was_signed_out_in_a_form_is_told_that_nothing_was_done_and_led_back() {
    let appliance = Furnished::new().await;
    let sent = async |path: &str, referer: &str| {
        let fields = [
            ("cookie", "gig=nobodys"),
            ("origin", "http://127.0.0.1"),
            ("host", "127.0.0.1"),
            ("referer", referer),
            FORM,
        ];
        let answer = appliance.send(path, &fields, "act=approve").await;
        assert_eq!(answer.status, 303, "{path}: {answer:?}");
        answer.headers["location"].to_str().unwrap().to_owned()
    };
    let own = "http://127.0.0.1/approvals?before=3";
    let to = sent("POST /approvals/1", own).await;
    assert_eq!(to, "/sign-in?undone=form&next=%2Fapprovals%3Fbefore%3D3");
    let page = appliance.page(&format!("GET {to}"), "").await;
    for words in [
        "what you sent was not done",
        "value=\"/approvals?before=3\"",
    ] {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
    let other = sent("POST /approvals/1", "https://evil.example/x").await;
    assert_eq!(other, "/sign-in?undone=form&next=");
    assert_eq!(sent("POST /sign-out", own).await, "/sign-in");
    // Of who is nobody's an editor keeps nothing either.
    let editor = sent("POST /policies/p/edit", "http://127.0.0.1/policies/p/edit").await;
    assert_eq!(editor, "/sign-in?undone=form&next=%2Fpolicies%2Fp%2Fedit");
    let same = sent("POST /servers", "http://127.0.0.1/servers").await;
    assert_eq!(same, "/sign-in?undone=form&next=%2Fservers");
}

/// A name that is taken is no change of what has it.
#[tokio::test]
async fn a_webhook_or_team_takes_the_place_of_another_only_where_that_is_said() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    let webhook = "name=ops&kind=generic";
    let refused = post(&appliance, admin, "/settings/webhooks", webhook).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused.body.contains("there is a webhook ops already"),
        "{}",
        refused.body
    );
    let meant = post(
        &appliance,
        admin,
        "/settings/webhooks",
        &format!("{webhook}&replace=yes"),
    )
    .await;
    assert_eq!(meant.status, 303, "{}", meant.body);
    let team = "name=fresh&members=ana&tag=&act=save";
    assert_eq!(
        post(&appliance, admin, "/people/teams", team).await.status,
        303
    );
    let again = post(
        &appliance,
        admin,
        "/people/teams",
        "name=fresh&members=ben&tag=&act=save",
    )
    .await;
    assert_eq!(again.status, 400, "{again:?}");
    assert!(
        again.body.contains("there is a team fresh already"),
        "{}",
        again.body
    );
}

#[tokio::test]
async fn what_could_not_be_done_is_told_among_the_sections_with_the_way_back() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let asked = async |what: &str, cookie: &str, referer: &str| {
        let fields = [
            ("cookie", cookie),
            ("origin", "http://127.0.0.1"),
            ("host", "127.0.0.1"),
            ("referer", referer),
            FORM,
        ];
        appliance.send(what, &fields, "policy=x").await
    };
    let sections = "<nav aria-label=\"Sections\"";
    let from = "http://127.0.0.1/policies?x=1";
    for (what, cookie, status, title) in [
        ("GET /policies/none", &cookies[4], 404, "Not found"),
        ("GET /nowhere", &cookies[4], 404, "Not found"),
        ("GET /audit", &cookies[0], 403, "You may not do this"),
        (
            "POST /approvals/rule",
            &cookies[4],
            422,
            "This cannot be done so",
        ),
    ] {
        let page = asked(what, cookie, from).await;
        assert_eq!(page.status, status, "{what}: {page:?}");
        for words in [sections, title, "href=\"/policies?x=1\">Back</a>"] {
            assert!(page.body.contains(words), "{what}: {words}: {}", page.body);
        }
        let page = asked(what, cookie, "https://evil.example/").await;
        assert!(!page.body.contains("evil"), "{}", page.body);
    }
    // Who is nobody sees no sections; a program reads what it read.
    let page = asked("GET /setup/none", "", from).await;
    assert!(!page.body.contains(sections), "{}", page.body);
    let api = asked("GET /api/v1/policies/none", &cookies[4], from).await;
    let kind = api.headers["content-type"].to_str().unwrap();
    assert_eq!(kind, "application/problem+json", "{}", api.body);
}

#[tokio::test]
async fn who_lost_a_race_in_the_editor_is_shown_what_they_would_undo_and_may_save_again() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let document = "version%3A+1%0D%0Aegress%3A%0D%0A++-+host%3A+mine.example%0D%0A";
    let save = async |version: u64| {
        let body = format!("version={version}&act=save&reason=mine&document={document}");
        post(&appliance, &cookies[4], "/policies/spare/edit", &body).await
    };
    let newest = || {
        let kept = appliance.lab.app.store.policy("spare", None).unwrap();
        kept.unwrap().head.version
    };
    appliance.lab.make(&crate::app::tests::saved("spare"));
    assert_eq!(newest(), 2, "somebody else was faster");
    let lost = save(1).await;
    assert_eq!((lost.status, newest()), (412, 2), "{lost:?}");
    for words in [
        "Nothing is saved",
        "against version 2",
        "name=\"version\" value=\"2\"",
        "mine.example",
    ] {
        assert!(lost.body.contains(words), "{words}: {}", lost.body);
    }
    let again = save(2).await;
    assert_eq!((again.status, newest()), (303, 3), "{again:?}");
}

#[tokio::test]
async fn a_form_without_a_place_puts_a_policy_in_force_nowhere() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let assigned = || appliance.lab.app.store.assignments().unwrap();
    let before = assigned();
    for path in ["/policies/spare/assign", "/policies/spare/unassign"] {
        for body in ["", "server=-", "profile="] {
            let refused = post(&appliance, &cookies[4], path, body).await;
            assert_eq!(refused.status, 400, "{path} {body}: {refused:?}");
            assert!(refused.body.contains("say for whom"), "{}", refused.body);
        }
    }
    assert_eq!(assigned(), before);
}

#[tokio::test]
async fn an_approver_who_was_shown_for_whom_approves_that_and_no_other() {
    let appliance = Furnished::ruled().await;
    let approver = &signed_in(&appliance)[3];
    let shown = async || {
        let page = appliance.page("GET /approvals/1", approver).await;
        let (_, mark) = page.body.split_once("name=\"shown\" value=\"").unwrap();
        format!("act=approve&shown={}", mark.split('"').next().unwrap())
    };
    let before = shown().await;
    appliance.lab.make(&Change::Assign {
        place: Place::Server("idle".to_owned()),
        policy: Some("p".to_owned()),
        expected: None,
    });
    let refused = post(&appliance, approver, "/approvals/1", &before).await;
    assert_eq!(refused.status, 412, "{}", refused.body);
    for words in ["is another by now, and nothing is approved", "server idle"] {
        assert!(refused.body.contains(words), "{words}: {}", refused.body);
    }
    let now = shown().await;
    assert_ne!(before, now);
    let approved = post(&appliance, approver, "/approvals/1", &now).await;
    assert_eq!(approved.status, 303, "{}", approved.body);
}
