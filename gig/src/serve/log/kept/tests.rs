//! Lines written, found again, bounded and removed.

use gig_web::control::{LogFrom, Seen};
use uuid::Uuid;

use super::*;

fn asked(server: &str) -> LogAsked {
    LogAsked {
        server: server.to_owned(),
        sandbox: None,
        seen: Seen::all(),
        since: None,
        until: None,
        grep: None,
        from: LogFrom::Oldest,
        limit: 1000,
    }
}

fn sandbox() -> SandboxId {
    SandboxId::new(Uuid::now_v7())
}

fn texts(page: &LogPage) -> Vec<&str> {
    page.lines.iter().map(|line| line.text.as_str()).collect()
}

/// What is written is there when the thread has ended.
fn reopened(kept: Kept, folder: &Path) -> Kept {
    drop(kept);
    Kept::start(folder.to_owned(), Some(30)).unwrap()
}

#[tokio::test]
async fn lines_are_found_by_sandbox_time_and_words_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::start(folder.path().to_owned(), Some(30)).unwrap();
    let (one, two) = (sandbox(), sandbox());
    let before = Timestamp::now();
    let mut lines = kept.of("web".into(), one, LogStream::Output);
    lines.take(b"first\r\nSecond \x1b[31m\xff\nno e").await;
    lines.take(b"nd").await;
    lines.end().await;
    let mut lines = kept.of("web".into(), two, LogStream::Stderr);
    lines.take(b"third\n").await;
    let kept = reopened(kept, folder.path());

    let page = kept.read(&asked("web")).unwrap();
    let all = ["first", "Second \u{1b}[31m\u{fffd}", "no end", "third"];
    assert_eq!(texts(&page), all);
    assert!(!page.more);
    let mut of_two = asked("web");
    of_two.sandbox = Some(two);
    assert_eq!(texts(&kept.read(&of_two).unwrap()), ["third"]);
    let mut word = asked("web");
    word.grep = Some("sECOND".to_owned());
    assert_eq!(kept.read(&word).unwrap().lines.len(), 1);
    // Others' lines are as if they had not been printed, however they are asked for.
    for from in [LogFrom::Oldest, LogFrom::Newest] {
        for (grep, seen) in [
            (None, vec!["third"]),
            (Some("i"), vec!["third"]),
            (Some("first"), vec![]),
        ] {
            let own = LogAsked {
                seen: Seen::only(move |id| id == two),
                grep: grep.map(str::to_owned),
                from,
                ..asked("web")
            };
            let page = kept.read(&own).unwrap();
            assert_eq!(
                (texts(&page), page.more),
                (seen, false),
                "{from:?} {grep:?}"
            );
        }
    }
    let mut early = asked("web");
    early.until = Some(before);
    assert!(kept.read(&early).unwrap().lines.is_empty());
    assert!(kept.read(&asked("other")).unwrap().lines.is_empty());

    // A page at a time, and what comes later.
    let mut paged = asked("web");
    paged.limit = 3;
    let page = kept.read(&paged).unwrap();
    assert_eq!((texts(&page).len(), page.more), (3, true));
    paged.from = LogFrom::After(page.next);
    let page = kept.read(&paged).unwrap();
    assert_eq!((texts(&page), page.more), (vec!["third"], false));
    let mut lines = kept.of("web".into(), two, LogStream::Stderr);
    lines.take(b"fourth\n").await;
    let kept = reopened(kept, folder.path());
    paged.from = LogFrom::After(page.next);
    assert_eq!(texts(&kept.read(&paged).unwrap()), ["fourth"]);
    let mut newest = asked("web");
    (newest.from, newest.limit) = (LogFrom::Newest, 2);
    let page = kept.read(&newest).unwrap();
    assert_eq!((texts(&page), page.more), (vec!["third", "fourth"], true));
}

#[tokio::test]
async fn a_program_that_talks_without_end_fills_neither_disk_nor_line() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::start(folder.path().to_owned(), Some(30)).unwrap();
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..24 {
        let mut lines = kept.of("loud".into(), sandbox(), LogStream::Output);
        for _ in 0..60 {
            lines.take(&piece).await;
        }
        lines.end().await;
    }
    drop(kept);
    let files = std::fs::read_dir(folder.path().join("loud")).unwrap();
    let sizes: Vec<u64> = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .collect();
    let (sum, largest) = (sizes.iter().sum::<u64>(), sizes.iter().max().unwrap());
    assert!(sum <= 68 * 1024 * 1024 && sum > 32 * 1024 * 1024, "{sum}");
    assert!(*largest <= 5 * 1024 * 1024, "{largest}");
}

#[tokio::test]
async fn what_is_older_than_its_days_goes_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::start(folder.path().to_owned(), Some(7)).unwrap();
    for server in ["old", "new"] {
        let mut lines = kept.of(server.into(), sandbox(), LogStream::Output);
        lines.take(b"here\n").await;
    }
    drop(kept);
    let old = folder.path().join("old/0000000001.jsonl");
    let file = std::fs::File::options().append(true).open(&old).unwrap();
    let eight_days = Duration::from_secs(8 * 86_400);
    let then = std::time::SystemTime::from(Timestamp::now()) - eight_days;
    file.set_modified(then).unwrap();
    let kept = Kept::start(folder.path().to_owned(), Some(9)).unwrap();
    drop(kept);
    assert!(old.exists());
    let kept = Kept::start(folder.path().to_owned(), Some(7)).unwrap();
    drop(kept);
    assert!(!old.exists() && !folder.path().join("old").exists());
    assert!(folder.path().join("new/0000000001.jsonl").exists());
}

#[tokio::test]
async fn one_that_talks_without_end_does_not_erase_what_the_others_said() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::start(folder.path().to_owned(), Some(30)).unwrap();
    let mut lines = kept.of("web".into(), sandbox(), LogStream::Output);
    lines.take(b"said before\n").await;
    let loud = sandbox();
    let mut lines = kept.of("web".into(), loud, LogStream::Output);
    let mut piece = vec![b'x'; 16 * 1024 - 1];
    piece.push(b'\n');
    for _ in 0..5000 {
        lines.take(&piece).await;
    }
    lines.end().await;
    let kept = reopened(kept, folder.path());
    assert_eq!(texts(&kept.read(&asked("web")).unwrap())[0], "said before");
    let mut newest = asked("web");
    (newest.from, newest.limit, newest.sandbox) = (LogFrom::Newest, 1, Some(loud));
    let page = kept.read(&newest).unwrap();
    let last = texts(&page)[0];
    assert!(last.starts_with("gig: ") && last.ends_with(" lines were not kept: too many at once"));
}

#[tokio::test]
async fn what_is_no_folder_does_not_keep_the_others_from_being_swept() {
    let folder = tempfile::tempdir().unwrap();
    let then = std::time::SystemTime::from(Timestamp::now()) - Duration::from_secs(8 * 86_400);
    for server in ["a", "z"] {
        let own = folder.path().join(server);
        std::fs::create_dir(&own).unwrap();
        let file = std::fs::File::create(own.join("0000000001.jsonl")).unwrap();
        file.set_modified(then).unwrap();
    }
    std::fs::write(folder.path().join("m"), "somebody's").unwrap();
    let (gone, outcome) = segment::sweep(folder.path(), 7, Timestamp::now());
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert!(folder.path().join("m").exists());
}
