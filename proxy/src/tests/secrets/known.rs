//! What becomes of a value that the program itself holds, on its way to its own host.

use super::*;

/// Where did the program get it?
#[tokio::test]
async fn a_value_that_the_program_holds_goes_to_its_own_host_and_is_told_in_the_record() {
    let value = "v4lue-of-the-token-1";
    let named = "the program holds the value of TOKEN: it wrote it into ";
    for (request, place) in [
        (with("x-key", value), "header x-key (plain)"),
        (
            with("x-key", &STANDARD.encode(value)),
            "header x-key (base64)",
        ),
        (
            post("application/json", format!("{{\"a\": \"{value}\"}}")),
            "JSON body (plain)",
        ),
    ] {
        let world = World::new("api.test", value).await;
        let answer = world.send("api.test", request).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        world.lab.until_records(Event::Response, 1).await;
        let records = world.lab.log.records();
        let mut findings = records.iter().flat_map(|record| &record.entry.findings);
        let wanted = format!("{named}{place}");
        assert!(
            findings.any(|text| **text == *wanted),
            "{wanted}: {records:?}"
        );
        world.assert_unrecorded(place);
    }
    // What its sentinel stands for is gig's to write.
    let world = World::new("api.test", value).await;
    world.send("api.test", with("x-key", &world.sentinel)).await;
    world.lab.until_records(Event::Response, 1).await;
    let records = format!("{:?}", world.lab.log.records());
    assert!(!records.contains(named), "{records}");
}

#[tokio::test]
async fn a_sentinel_of_another_run_goes_as_it_is_and_is_told() {
    let world = World::new("api.test", "v4lue-of-the-token").await;
    let kept = "gigph-daec2f0b1c9e4d7a8b6f5e3c2d1a0b9c";
    let basic = format!("Basic {}", STANDARD.encode(format!("user:{kept}")));
    for (value, told) in [
        (format!("Bearer {kept}"), true),
        (basic, true),
        (format!("Bearer {}", world.sentinel), false),
        ("Bearer gigph-of-ours".to_owned(), false),
    ] {
        let request = Request::get("/x").header("host", "api.test");
        let request = request.header("authorization", &value).body(empty());
        world.send("api.test", request.unwrap()).await;
        let record = world.lab.records(Event::Response).pop().unwrap();
        let strange =
            "sentinel of another run in header authorization, which stands for nothing in this one";
        let has = record
            .entry
            .findings
            .iter()
            .any(|found| &**found == strange);
        assert_eq!(has, told, "{value}: {record:?}");
        if told {
            assert_eq!(world.seen().header("authorization"), value);
        }
    }
}
