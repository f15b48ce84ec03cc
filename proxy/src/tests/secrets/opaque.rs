//! Bytes that are not opened: a value that is in plain sight there does not pass.

use gig_audit::Event;
use gig_policy::DenyReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::tests::lab::{Arrangement, Lab, Way, keeper::Keeper, origin::Origin};

const POLICY: &str = "
version: 1
name: test
egress:
  - {host: db.test, ports: [5432], protocol: tcp, allow_private: [127.0.0.0/8]}
";
const VALUE: &str = "v4lue-of-the-token";

pub(super) const ENTRUSTING: &str = "
version: 1
name: test
egress:
  - {host: db.test, ports: [5432], protocol: tcp, allow_private: [127.0.0.0/8], secrets: [{name: TOKEN, entrusted: true}]}
";

/// Entrusted for another host than it goes to.
const ELSEWHERE: &str = "
version: 1
name: test
egress:
  - {host: db.test, ports: [5432], protocol: tcp, allow_private: [127.0.0.0/8]}
  - {host: db.test, ports: [5433], protocol: tcp, secrets: [{name: TOKEN, entrusted: true}]}
  - {host: api.test, secrets: [{name: TOKEN, entrusted: true}]}
";

async fn world(keeper: &std::sync::Arc<Keeper>) -> (Lab, Origin) {
    world_under(POLICY, keeper).await
}

async fn world_under(policy: &str, keeper: &std::sync::Arc<Keeper>) -> (Lab, Origin) {
    let origin = Origin::raw(|mut stream, seen| async move {
        let mut octets = [0; 1024];
        while let Ok(n) = stream.read(&mut octets).await
            && n > 0
        {
            seen.octets.lock().extend(octets.iter().take(n));
            if stream.write_all(b"+").await.is_err() {
                break;
            }
        }
    })
    .await;
    let lab = Arrangement::new(policy)
        .origin("db.test:5432", &origin)
        .keeper(keeper)
        .lab();
    (lab, origin)
}

/// A value that is sent to it is an alarm and does not arrive.
async fn is_cut(lab: &Lab, origin: &Origin) {
    let mut stream = lab.connect(Way::to("db.test", 5432)).await;
    let text = format!("AUTH {VALUE}");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.ok();
    let alarms = lab.until_records(Event::SecretMisuse, 1).await;
    assert_eq!(&*alarms[0].entry.secrets[0], "TOKEN");
    assert!(!origin.seen.text().contains(VALUE));
}

#[tokio::test]
async fn a_value_in_plain_sight_does_not_pass_where_bytes_are_not_opened() {
    let hex: String = VALUE.bytes().map(|b| format!("{b:02x}")).collect();
    let percent: String = VALUE.bytes().map(|b| format!("%{b:02x}")).collect();
    for text in [VALUE.to_owned(), hex, percent, VALUE.to_uppercase()] {
        for cut in [0, 1, text.len() / 2, text.len() - 1] {
            let (lab, origin) = world(&Keeper::with(&[("TOKEN", VALUE)])).await;
            let mut stream = lab.connect(Way::to("db.test", 5432)).await;
            let (head, tail) = text.split_at_checked(cut).unwrap();
            stream
                .write_all(format!("AUTH {head}").as_bytes())
                .await
                .unwrap();
            // What came so far is with the origin when the rest is sent.
            let mut answer = [0; 1];
            stream.read_exact(&mut answer).await.unwrap();
            stream
                .write_all(format!("{tail} now").as_bytes())
                .await
                .unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.ok();
            let alarms = lab.until_records(Event::SecretMisuse, 1).await;
            assert_eq!(&*alarms[0].entry.secrets[0], "TOKEN");
            assert!(alarms[0].entry.findings[0].contains("the stream"));
            let ended = lab.until_records(Event::Response, 1).await;
            assert_eq!(ended[0].entry.reason, Some(DenyReason::SecretMisuse));
            assert_eq!(origin.seen.text(), format!("AUTH {head}"));
        }
    }
}

#[tokio::test]
async fn everything_else_passes_where_bytes_are_not_opened() {
    let keeper = Keeper::with(&[("TOKEN", VALUE)]);
    let (lab, origin) = world(&keeper).await;
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    let text = format!("{sentinel} v4lue-of-the-toke and more of it 100% \\ &amp;");
    let mut stream = lab.connect(Way::to("db.test", 5432)).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    origin.seen.until_text(&text).await;
    let ended = lab.until_records(Event::Response, 1).await;
    assert_eq!(ended[0].entry.reason, None);
    // A program that takes its sentinel for the value is told nowhere else why it is not let in.
    let noted = "sentinel of TOKEN in the stream (plain)";
    let mut findings = ended[0].entry.findings.iter();
    assert!(findings.any(|one| &**one == noted), "{ended:?}");
    assert!(lab.records(Event::SecretMisuse).is_empty());
}

#[tokio::test]
async fn a_value_that_the_program_was_entrusted_with_passes_where_bytes_are_not_opened() {
    let keeper = Keeper::with(&[]);
    keeper.entrust("TOKEN", VALUE);
    let (lab, origin) = world_under(ENTRUSTING, &keeper).await;
    let text = format!("AUTH {VALUE}");
    let mut stream = lab.connect(Way::to("db.test", 5432)).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    origin.seen.until_text(&text).await;
    let ended = lab.until_records(Event::Response, 1).await;
    assert_eq!(&*ended[0].entry.secrets[0], "TOKEN");
    let findings: Vec<&str> = ended[0].entry.findings.iter().map(|one| &**one).collect();
    let expected = [
        "secret TOKEN version 1",
        "value of TOKEN, which the program was handed, in the stream (plain)",
    ];
    assert_eq!(findings, expected);
}

#[tokio::test]
async fn a_value_that_the_program_was_entrusted_with_goes_to_its_own_host_and_port_alone() {
    let keeper = Keeper::with(&[]);
    keeper.entrust("TOKEN", VALUE);
    let (lab, origin) = world_under(ELSEWHERE, &keeper).await;
    is_cut(&lab, &origin).await;
    let ended = lab.until_records(Event::Response, 1).await;
    let why = gig_audit::why_of(&ended[0].entry.findings).expect("a reason");
    let cure = "only if it belongs to db.test:5432, write there: `secrets: [{name: TOKEN, entrusted: true}]`";
    assert!(
        why.contains("value of TOKEN in the stream") && why.contains(cure),
        "{why}"
    );
}

#[tokio::test]
async fn a_value_that_another_sandbox_may_be_entrusted_with_does_not_pass() {
    let keeper = Keeper::with(&[]);
    keeper.entrust("TOKEN", VALUE);
    let (lab, origin) = world(&keeper).await;
    is_cut(&lab, &origin).await;
}

#[tokio::test]
async fn a_value_that_becomes_known_later_is_looked_for_in_an_open_stream() {
    let keeper = Keeper::with(&[]);
    let (lab, origin) = world(&keeper).await;
    let mut stream = lab.connect(Way::to("db.test", 5432)).await;
    stream.write_all(b"before ").await.unwrap();
    origin.seen.until_text("before ").await;
    keeper.set("TOKEN", VALUE);
    stream.write_all(VALUE.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.ok();
    let alarms = lab.until_records(Event::SecretMisuse, 1).await;
    assert_eq!(&*alarms[0].entry.secrets[0], "TOKEN");
    assert_eq!(origin.seen.text(), "before ");
}
