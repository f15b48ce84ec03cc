//! Searches of the record that are kept under a title.

use serde_json::{Value, json};

use super::{Appliance, Ask, Reply};

fn save(appliance: &Appliance, token: &str, title: &str, query: &str) -> Reply {
    let ask = Ask::new("POST", "/api/v1/searches").token(token);
    ask.json(&json!({"title": title, "query": query}))
        .send(appliance)
}

fn kept(appliance: &Appliance, token: &str) -> Vec<Value> {
    let reply = Ask::new("GET", "/api/v1/searches")
        .token(token)
        .send(appliance);
    reply.json()["items"].as_array().expect("items").clone()
}

#[test]
fn a_search_is_kept_for_all_who_read_the_record_and_removed_by_who_saved_it() {
    let appliance = Appliance::start();
    let (auditor, admin) = (appliance.token("auditor"), appliance.token("admin"));
    let asked = "text=one%20two&verdict=deny&cursor=1:5&host=*.example.com";
    let made = save(&appliance, &auditor, " Denied <b> ", asked);
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    assert_eq!(made["title"], "Denied <b>");
    // As the console writes it: what was there, once, without a place in the record.
    let plain = "verdict=deny&host=%2A.example.com&text=one%20two";
    assert_eq!(made["query"], plain);
    let again = save(&appliance, &admin, "Denied <b>", "verdict=allow");
    assert_eq!(again.status, 409, "one of that title is kept: {again:?}");
    assert_eq!(kept(&appliance, &admin), std::slice::from_ref(&made));
    let cookie = appliance.first_admin();
    let page = Ask::new("GET", "/audit").cookie(&cookie).send(&appliance);
    assert!(page.body.contains("Denied &#60;b&#62;"), "{page:?}");
    let link = format!("/audit?{plain}");
    assert!(page.body.contains(&link.replace('&', "&#38;")), "{page:?}");
    let shown = Ask::new("GET", &link).cookie(&cookie).send(&appliance);
    assert_eq!(shown.status, 200, "{shown:?}");
    let recorded = appliance.records(&admin, "event=admin&text=saved");
    assert!(recorded[0].to_string().contains(plain), "{recorded:?}");

    let path = format!("/api/v1/searches/{}", made["id"].as_str().expect("an id"));
    let editor = appliance.token("editor");
    let remove = |token: &str| Ask::new("DELETE", &path).token(token).send(&appliance);
    let theirs = remove(&editor);
    assert_eq!(theirs.status, 403, "{theirs:?}");
    assert_eq!(remove(&auditor).status, 204);
    assert_eq!(remove(&admin).status, 404);
    assert_eq!(kept(&appliance, &admin), Vec::<Value>::new());
}

#[test]
fn what_is_no_search_is_not_kept_and_there_are_only_so_many() {
    let appliance = Appliance::start();
    let (admin, viewer) = (appliance.token("admin"), appliance.token("viewer"));
    assert_eq!(save(&appliance, &viewer, "x", "verdict=deny").status, 403);
    let list = Ask::new("GET", "/api/v1/searches").token(&viewer);
    assert_eq!(list.send(&appliance).status, 403);
    let long = format!("text={}", "x".repeat(2_000));
    for (title, query) in [
        ("", "verdict=deny"),
        ("a\u{7}b", "verdict=deny"),
        (&"x".repeat(81), "verdict=deny"),
        ("x", "hots=a"),
        ("x", "since=yesterday"),
        ("x", "verdict=deny#a b"),
        ("x", &long),
    ] {
        let refused = save(&appliance, &admin, title, query);
        assert_eq!(refused.status, 400, "{title:?} {query:?}: {refused:?}");
    }
    // One person leaves some to others.
    for person in 0..5 {
        let name = format!("reader-{person}");
        let made = appliance.gig(&["token", "add", &name, "--role", "auditor"], "");
        let theirs = made.output.trim().to_owned();
        for n in 0..20 {
            let made = save(
                &appliance,
                &theirs,
                &format!("search {person} {n}"),
                "verdict=deny",
            );
            assert_eq!(made.status, 201, "{made:?}");
        }
        let full = save(&appliance, &theirs, "one more", "verdict=deny");
        assert_eq!(full.status, 409, "{full:?}");
    }
    let full = save(&appliance, &admin, "one more", "verdict=deny");
    assert_eq!(full.status, 409, "{full:?}");
    assert!(full.body.contains("remove one first"), "{full:?}");
}

#[test]
fn another_filter_keeps_those_that_a_link_set() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let asked = "/audit?request=r-1&conn=3&sandbox=s-1&method=GET&status=4xx&src=10.200.0.2";
    let page = Ask::new("GET", asked).cookie(&cookie).send(&appliance);
    assert_eq!(page.status, 200, "{page:?}");
    for (name, value) in [
        ("request", "r-1"),
        ("conn", "3"),
        ("sandbox", "s-1"),
        ("method", "GET"),
        ("status", "4xx"),
        ("src", "10.200.0.2"),
    ] {
        let field = format!("name=\"{name}\" value=\"{value}\"");
        assert!(page.body.contains(&field), "{field}: {}", page.body);
    }
    // Nobody types a request or a connection by hand.
    let plain = Ask::new("GET", "/audit").cookie(&cookie).send(&appliance);
    assert!(!plain.body.contains("name=\"conn\"") && plain.body.contains("name=\"status\""));
}
