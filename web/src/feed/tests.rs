//! Who watches is told what is written, once each, and what was left out.

use std::{pin::pin, time::Duration};

use futures_util::StreamExt as _;
use gig_audit::{
    Entry, Event, Recorder, RecorderOwner, RecorderSettings, VerdictWord, search::Filter,
};

use super::*;
use crate::{app::tests::Lab, auth::Caller};

/// A record of its own, in the file that the appliance reads.
struct Record {
    recorder: Recorder,
    owner: RecorderOwner,
}

impl Record {
    fn of(lab: &Lab) -> Self {
        let store = gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
        let settings = RecorderSettings::new("here");
        let (recorder, owner) = Recorder::start(Box::new(store), settings).unwrap();
        Self { recorder, owner }
    }

    async fn write(&self, host: &str, verdict: VerdictWord) {
        let mut entry = Entry::new(Event::Connect);
        entry.host = Some(host.into());
        entry.verdict = Some(verdict);
        self.recorder.record(entry).await.unwrap();
    }

    fn end(self) {
        drop(self.recorder);
        self.owner.close(Duration::from_secs(5));
    }
}

/// Where a stream begins, which it says first.
async fn begins(stream: &mut (impl Stream<Item = Told> + Unpin)) -> Marks {
    match stream.next().await {
        Some(Told::Begins(marks)) => marks,
        other => panic!("{other:?}"),
    }
}

/// The hosts of the next `count`, and where to go on.
async fn hosts(
    stream: &mut (impl Stream<Item = Told> + Unpin),
    count: usize,
) -> (Vec<String>, Marks) {
    let (mut hosts, mut marks) = (Vec::new(), Marks::default());
    while hosts.len() < count {
        let told = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
        match told.unwrap().unwrap() {
            Told::Record(found, at) => {
                hosts.push(found.row.host.clone().unwrap_or_default());
                marks = at;
            }
            Told::Begins(_) => {}
            other => panic!("{other:?}"),
        }
    }
    (hosts, marks)
}

fn denied() -> Filter {
    Filter {
        verdict: vec!["deny".to_owned()],
        ..Filter::default()
    }
}

#[tokio::test]
async fn what_is_written_is_told_once_to_each_who_asked_for_it() {
    let lab = Lab::new();
    let record = Record::of(&lab);
    record.write("before.test", VerdictWord::Deny).await;
    let all = watch(&lab.app, &Caller::itself("one"), (Filter::default(), None)).await;
    let some = watch(&lab.app, &Caller::itself("two"), (denied(), None)).await;
    let (mut all, mut some) = (pin!(all.unwrap()), pin!(some.unwrap()));
    record.write("a.test", VerdictWord::Allow).await;
    record.write("b.test", VerdictWord::Deny).await;
    assert_eq!(hosts(&mut all, 2).await.0, ["a.test", "b.test"]);
    let (told, marks) = hosts(&mut some, 1).await;
    assert_eq!(told, ["b.test"]);
    // Who comes back goes on where they were, also behind what they did not ask for.
    record.write("c.test", VerdictWord::Allow).await;
    record.write("d.test", VerdictWord::Deny).await;
    let again = watch(&lab.app, &Caller::itself("two"), (denied(), Some(marks))).await;
    let mut again = pin!(again.unwrap());
    assert_eq!(hosts(&mut again, 1).await.0, ["d.test"]);
    record.write("e.test", VerdictWord::Deny).await;
    assert_eq!(hosts(&mut again, 1).await.0, ["e.test"]);
    assert_eq!(hosts(&mut some, 2).await.0, ["d.test", "e.test"]);
    record.end();
}

#[tokio::test]
async fn too_much_at_once_is_left_out_and_said() {
    let lab = Lab::new();
    let record = Record::of(&lab);
    let watching = watch(&lab.app, &Caller::itself("one"), (Filter::default(), None)).await;
    let mut watching = pin!(watching.unwrap());
    begins(&mut watching).await;
    for _ in 0..=PAGES {
        let some = (0..PAGE).map(|_| record.write("many.test", VerdictWord::Allow));
        futures_util::future::join_all(some).await;
    }
    record.write("last.test", VerdictWord::Deny).await;
    let told = tokio::time::timeout(Duration::from_secs(60), watching.next()).await;
    assert!(matches!(told.unwrap(), Some(Told::Left)));
    record.write("after.test", VerdictWord::Deny).await;
    assert_eq!(hosts(&mut watching, 1).await.0, ["after.test"]);
    // Who was away for as much is told the same.
    let away = (Filter::default(), Some(Marks::default()));
    let back = watch(&lab.app, &Caller::itself("two"), away).await;
    let told: Vec<Told> = back.unwrap().take(PAGE * PAGES + 2).collect().await;
    assert!(matches!(told.last(), Some(Told::Left)));
    record.end();
}

#[tokio::test]
async fn few_watch_at_once_and_all_end_when_gig_does() {
    let lab = Lab::new();
    let record = Record::of(&lab);
    record.write("a.test", VerdictWord::Allow).await;
    let mut watching = Vec::new();
    for _ in 0..MOST_OF_ONE {
        let one = watch(&lab.app, &Caller::itself("one"), (Filter::default(), None)).await;
        watching.push(Box::pin(one.unwrap()));
    }
    let more = watch(&lab.app, &Caller::itself("one"), (Filter::default(), None)).await;
    let refused = more.map(drop).unwrap_err();
    assert_eq!(refused.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    let other = watch(&lab.app, &Caller::itself("two"), (Filter::default(), None)).await;
    drop(other.unwrap());
    lab.app.feed.close();
    for mut one in watching {
        begins(&mut one).await;
        assert!(matches!(one.next().await, Some(Told::End(_))));
        assert!(one.next().await.is_none());
    }
    assert!(lab.app.feed.watching.is_empty());
    record.end();
}

#[tokio::test]
async fn who_is_cut_off_before_anything_came_misses_nothing_and_who_is_beyond_the_end_is_told() {
    let lab = Lab::new();
    let record = Record::of(&lab);
    record.write("before.test", VerdictWord::Deny).await;
    let watch_from = async |after| {
        let watching = watch(&lab.app, &Caller::itself("one"), (Filter::default(), after)).await;
        Box::pin(watching.unwrap())
    };
    let marks = begins(&mut watch_from(None).await).await;
    record.write("between.test", VerdictWord::Deny).await;
    let mut back = watch_from(Some(marks.clone())).await;
    assert_eq!(begins(&mut back).await, marks);
    assert_eq!(hosts(&mut back, 1).await.0, ["between.test"]);
    // As after a backup was put in the record's place.
    let beyond: Marks = "1:99999".parse().unwrap();
    let mut restored = watch_from(Some(beyond)).await;
    begins(&mut restored).await;
    assert!(matches!(restored.next().await, Some(Told::Left)));
    record.write("after.test", VerdictWord::Deny).await;
    assert_eq!(hosts(&mut restored, 1).await.0, ["after.test"]);
    record.end();
}
