//! Values that a provider gives: gig's own environment, a file that something else keeps current, what a
//! command prints. The program holds a sentinel of each, and the origin gets the value as it is then.

use std::{
    fs,
    time::{Duration, Instant},
};

use gig_tests::lab::{Lab, http_origin::greet, network::text};

use super::vault::{Asking, HOST, secret, sent, subject};

/// Defines TOKEN to come from there.
fn define(lab: &Lab, provider: &str) {
    let definition = lab.file("definition.yaml", &format!("provider: {provider}\n"));
    secret(
        lab,
        &["set", "TOKEN", "--definition", &text(&definition)],
        "",
    );
}

#[test]
fn a_value_of_gigs_own_environment_goes_by_another_name() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    define(&lab, "{environment: {variable: OTHER_NAME}}");
    let value = "value-of-the-environment";
    let mut asking = Asking::start(subject(&lab).host_env("OTHER_NAME", value), "h1");
    assert_eq!((asking.ask(), sent(&origin, 1).as_str()), (200, value));
    let run = asking.finish();
    assert!(!run.text().contains(value), "{run}");
}

#[test]
fn a_value_that_changes_in_its_file_is_sent_after_its_time() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let file = lab.file("token", "first-value-of-it\n");
    define(
        &lab,
        &format!("{{file: {{path: '{}', ttl: 1}}}}", text(&file)),
    );
    let mut asking = Asking::start(subject(&lab), "h1");
    assert_eq!(
        (asking.ask(), sent(&origin, 1).as_str()),
        (200, "first-value-of-it")
    );
    fs::write(&file, "second-value-of-it\n").expect("change the value");
    // Nobody says when a second is over on this machine; what is sent is the one or the other.
    let begun = Instant::now();
    for number in 2.. {
        assert_eq!(asking.ask(), 200);
        match sent(&origin, number).as_str() {
            "second-value-of-it" => break,
            "first-value-of-it" => {}
            other => panic!("{other} was sent"),
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "never renewed");
    }
    let run = asking.finish();
    assert!(!run.text().contains("value-of-it"), "{run}");
}

#[test]
fn a_value_that_a_command_prints_is_sent_and_none_where_it_fails() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let file = lab.file("token", "value-of-the-command\n");
    define(
        &lab,
        &format!(
            "{{command: {{program: /bin/cat, args: ['{}'], ttl: 1}}}}",
            text(&file)
        ),
    );
    let mut asking = Asking::start(subject(&lab), "h1");
    assert_eq!(
        (asking.ask(), sent(&origin, 1).as_str()),
        (200, "value-of-the-command")
    );
    // It cannot be had any more: it is used on for a while, and then no request goes.
    fs::remove_file(&file).expect("take the value away");
    let begun = Instant::now();
    while asking.ask() == 200 {
        assert!(begun.elapsed() < Duration::from_secs(120), "used for ever");
    }
    let requests = origin.requests();
    let mut tokens = requests.iter().map(|request| request.field("x-token"));
    assert!(tokens.all(|token| token == Some("value-of-the-command")));
    asking.finish();
}
