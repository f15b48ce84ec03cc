//! `aws`: the SDK inside signs with sentinels, the service gets the key's own signatures.

use gig_policy::DenyReason;
use gig_tests::lab::{Subject, fixture};
use serde_json::Value;

use super::{Scene, serve, told};

const ID: &str = "AKIAQ3EGUIDTRPW7BZ5L";
const SECRET: &str = "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";
/// Version 4A.
const EVERYWHERE: &str = "AWS4-ECDSA-P256-SHA256";
const HOSTS: [&str; 5] = [
    "s3.eu-central-1.amazonaws.com",
    "lab-data.s3.eu-central-1.amazonaws.com",
    "lab-data.s3.amazonaws.com",
    "sts.eu-central-1.amazonaws.com",
    "dynamodb.eu-central-1.amazonaws.com",
];

impl Scene {
    fn with_key(definition: &str, token: Option<&str>) -> Self {
        let mut scene = Self::new();
        let token_text = token.map(|token| format!(":{token}")).unwrap_or_default();
        let stored = format!("{ID}:{SECRET}{token_text}");
        scene.keep("AWS_ACCESS_KEY_ID", definition, &stored, &[SECRET]);
        scene.guard(token.as_slice());
        scene
    }
}

/// A run that may use the key with all of AWS.
fn bound(scene: &Scene) -> Subject<'_> {
    let mut run = scene.gig();
    for host in HOSTS {
        run = run.allow(host);
    }
    let bound = format!("AWS_ACCESS_KEY_ID@{}", HOSTS.join(","));
    run.option(["--secret", &bound])
}

/// What the signatures of accepted requests said, one word a request.
fn column<'a>(lines: &'a [Value], name: &str) -> Vec<&'a str> {
    let accepted = lines.iter().filter(|line| line.get("refused").is_none());
    accepted.filter_map(|line| line[name].as_str()).collect()
}

#[test]
fn text_that_boto3_sends_with_another_sentinel_arrives_whole() {
    let mut scene = Scene::with_key("kind: {aws: {}}", None);
    let note = "another-value-of-another-length-8sKq";
    scene.keep("NOTE_TOKEN", "kind: static", note, &[note]);
    let key = format!("{ID}:{SECRET}");
    let origin = serve(&scene.lab, "sdk/aws_origin.py", &HOSTS, &[&key]);
    let noted = format!("NOTE_TOKEN@{}", HOSTS[..3].join(","));
    let subject = bound(&scene).option(["--secret", &noted]);
    let run = scene.python(subject, &fixture::text("sdk/aws_note.py"));
    let run = run.says("the notes are there");
    let lines = told(&origin);
    let payloads = column(&lines, "payload");
    assert!(
        payloads.contains(&"STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        "{run}"
    );
    assert_eq!(
        payloads.len(),
        lines.len(),
        "something was refused: {lines:?}"
    );
    // In chunks the sentinel stays, and what would have the value go is told; in one piece it went.
    let held = |line: &&Value| line["holds"] == true && line["method"] == "PUT";
    assert_eq!(lines.iter().filter(held).count(), 1, "{lines:?}");
    let named = |line: &Value| {
        line["path"]
            .as_str()
            .is_some_and(|path| path.ends_with(note))
    };
    assert!(lines.iter().any(named), "{lines:?}");
    let _run = run
        .complains("where no value goes: it is sent in chunks of AWS's own")
        .complains("AWS_REQUEST_CHECKSUM_CALCULATION=when_required");
}

#[test]
fn a_value_in_a_body_that_boto3_signs_unsaid_is_signed_over_what_leaves() {
    let mut scene = Scene::with_key("kind: {aws: {}}", None);
    let note = "another-value-of-another-length-8sKq";
    scene.keep("NOTE_TOKEN", "kind: static", note, &[note]);
    let key = format!("{ID}:{SECRET}");
    let hosts = ["sqs", "sns", "dynamodb"].map(|name| format!("{name}.eu-central-1.amazonaws.com"));
    let hosts = hosts.each_ref().map(String::as_str);
    let origin = serve(&scene.lab, "sdk/aws_origin.py", &hosts, &[&key]);
    let mut subject = scene.gig();
    for host in hosts {
        subject = subject.allow(host);
    }
    for name in ["AWS_ACCESS_KEY_ID", "NOTE_TOKEN"] {
        let bound = format!("{name}@{}", hosts.join(","));
        subject = subject.option(["--secret", &bound]);
    }
    let run = scene.python(subject, &fixture::text("sdk/aws_messages.py"));
    let run = run.says("the messages are there");
    let lines = told(&origin);
    assert!(
        lines.iter().all(|line| line.get("refused").is_none()),
        "{lines:?}"
    );
    let held = |line: &&Value| line["holds"] == true;
    for service in ["sqs", "sns", "dynamodb"] {
        let mut of = lines.iter().filter(|line| line["service"] == service);
        assert!(of.any(|line| held(&line)), "{service}: {lines:?}\n{run}");
    }
}

#[test]
fn boto3_signs_with_sentinels_and_aws_takes_what_leaves() {
    let scene = Scene::with_key("kind: {aws: {}}", None);
    let key = format!("{ID}:{SECRET}");
    let origin = serve(&scene.lab, "sdk/aws_origin.py", &HOSTS, &[&key]);
    let run = scene.python(bound(&scene), &fixture::text("sdk/aws_boto3.py"));
    let run = run
        .says("all of boto3 passed")
        .says("other id ('InvalidAccessKeyId', 403)")
        .says("other secret ('403', 403)");
    let lines = told(&origin);
    assert!(column(&lines, "key").iter().all(|key| *key == ID), "{run}");
    let (forms, payloads) = (column(&lines, "form"), column(&lines, "payload"));
    assert!(forms.contains(&"header") && forms.contains(&"query"));
    assert!(payloads.contains(&"STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
    let services = column(&lines, "service");
    assert!(
        ["s3", "sts", "dynamodb"]
            .iter()
            .all(|s| services.contains(s))
    );
    // Nothing that is answered with keys went out: of STS who asks was told who it is.
    let asked = services.iter().filter(|service| **service == "sts");
    assert_eq!(asked.count(), 1, "{run}");
    let unsigned = run.audit.denials(DenyReason::SecretUnplaceable).count();
    assert_eq!(unsigned, 6, "{run}");
    assert!(
        run.audit.denials(DenyReason::SecretMisuse).count() >= 1,
        "{run}"
    );
}

#[test]
fn keys_are_handed_out_where_the_definition_says_so_and_with_a_warning() {
    let scene = Scene::with_key("kind: {aws: {hands_out: true}}", None);
    let key = format!("{ID}:{SECRET}");
    let _origin = serve(&scene.lab, "sdk/aws_origin.py", &HOSTS, &[&key]);
    let script = "import boto3\n\
        sts = boto3.client('sts', region_name='eu-central-1')\n\
        keys = sts.get_session_token()['Credentials']\n\
        assert len(keys['SecretAccessKey']) > 20\n\
        print('handed out')\n";
    let run = scene.python(bound(&scene), script);
    let _run = run
        .says("handed out")
        .complains("warning: secret AWS_ACCESS_KEY_ID hands out");
}

#[test]
fn temporary_keys_sign_chunks_for_all_regions_and_by_the_command_line_tool() {
    let token = "IQoJb3JpZ2luX2VjEGkaDGV1LWNlbnRyYWwtMSJHMEUCIQC7vR0pLw==";
    let scene = Scene::with_key("kind: {aws: {services: [s3, sts]}}", Some(token));
    let key = format!("{ID}:{SECRET}:{token}");
    let origin = serve(&scene.lab, "sdk/aws_origin.py", &HOSTS, &[&key]);
    let run = scene.python(bound(&scene), &fixture::text("sdk/aws_temporary.py"));
    let run = run
        .says("every form passed")
        .says("dots 502 secret_unplaceable");
    let lines = told(&origin);
    let payloads = column(&lines, "payload");
    for algorithm in ["AWS4-HMAC-SHA256", EVERYWHERE] {
        for mode in ["PAYLOAD", "PAYLOAD-TRAILER"] {
            let word = format!("STREAMING-{algorithm}-{mode}");
            assert!(payloads.contains(&word.as_str()), "{run}");
        }
    }
    for form in ["header", "query"] {
        let of = |line: &&Value| line["form"] == form && line["algorithm"] == EVERYWHERE;
        assert!(lines.iter().any(|line| of(&line)), "{form}: {run}");
    }
    assert_eq!(
        run.audit.denials(DenyReason::SecretMisuse).count(),
        0,
        "{run}"
    );
}

#[test]
fn nodes_sdk_signs_with_sentinels_and_aws_takes_what_leaves() {
    let scene = Scene::with_key("kind: {aws: {regions: [eu-central-1]}}", None);
    let key = format!("{ID}:{SECRET}");
    let origin = serve(&scene.lab, "sdk/aws_origin.py", &HOSTS, &[&key]);
    let _run = scene.node(bound(&scene), "sdk/node_s3.cjs");
    let lines = told(&origin);
    assert!(column(&lines, "form").contains(&"query"), "{lines:?}");
}
