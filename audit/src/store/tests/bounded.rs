//! A search reads what it shows, what is not indexed yet and a part of the index, however long the record is: no clock
//! tells that, so that a busy machine cannot.

use super::{in_chain::counting::Counting, *};
use crate::search::walk::{self, Shelf};

on_both! {
    a_search_reads_no_more_lines_than_it_shows_and_than_are_not_indexed_yet,
}

/// How many records a search found, how many lines it read and how many blocks of the index it looked into.
fn searched(place: &Place, filter: Filter) -> (usize, usize, usize) {
    fn of(shelf: impl Shelf, filter: Filter) -> (usize, usize, usize) {
        let mut shelf = Counting::new(shelf);
        let query = Query {
            filter,
            before: None,
            limit: 20,
        };
        let page = walk::search(&mut shelf, &query, &|| false).unwrap();
        (page.records.len(), shelf.rows, shelf.blocks)
    }
    match place.home() {
        Home::Sqlite(path) => of(SqliteLog::open(&path).unwrap(), filter),
        Home::Postgres(record) => of(record.log().unwrap(), filter),
    }
}

async fn a_search_reads_no_more_lines_than_it_shows_and_than_are_not_indexed_yet(place: Place) {
    let (recorder, owner) = place.start("n");
    // The oldest of all: whoever read line by line would read everything.
    for n in 1..=3 {
        let mut rare = numbered(n);
        rare.host = Some("rare.example.org".into());
        recorder.record(rare).await.unwrap();
    }
    fill(&recorder, 20_000).await;
    place.indexed();
    owner.close(PATIENCE);
    let tail = match place.home() {
        Home::Sqlite(path) => SqliteLog::open(&path).unwrap().unindexed().unwrap(),
        Home::Postgres(record) => record.log().unwrap().unindexed().unwrap(),
    };
    let tail = usize::try_from(tail).unwrap();
    assert!(tail <= 4096, "{tail}");
    let of = |host: &str| Filter {
        host: vec![host.to_owned()],
        ..Filter::default()
    };
    let (found, lines, blocks) = searched(&place, of("rare.example.org"));
    assert_eq!(found, 3);
    // Of two terms that share a place in the index one may propose a line that does not match.
    assert!(
        lines <= tail + 3 + SHARED,
        "{lines} lines, {tail} of them not indexed"
    );
    assert!(blocks <= 5, "{blocks} blocks of 20,003 records");
    let (found, lines, blocks) = searched(&place, of("nobody.example.org"));
    assert_eq!(found, 0);
    assert!(
        lines <= tail + SHARED && blocks <= 5,
        "{lines} lines, {blocks} blocks"
    );
    // What is everywhere is found in the newest lines, and no more are read than a look takes.
    let (found, lines, _) = searched(&place, of("h3.example.com"));
    assert_eq!(found, 20);
    assert!(lines <= 2048, "{lines} lines");
}

/// Lines that are read for nothing, of twenty thousand.
const SHARED: usize = 64;
