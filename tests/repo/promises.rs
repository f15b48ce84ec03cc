//! `tests/GUARANTEES.md`: each line is a promise, and each promise names tests that are there.

mod found;

use std::collections::BTreeSet;

use super::{read, sources};

/// The names of all tests, with the checks in a machine of their own.
fn tests() -> BTreeSet<String> {
    let read_all = sources().into_iter().map(|path| {
        let text = read(&path);
        (path, text)
    });
    let sources: Vec<found::Source> = read_all.collect();
    let mut names = found::tests(&sources, &read("tests/run".as_ref()));
    let machine = read("tests/vm/checks".as_ref());
    let checks = machine
        .lines()
        .filter_map(|line| line.trim().strip_prefix("check "));
    names.extend(
        checks
            .filter_map(|rest| rest.split(' ').next())
            .map(str::to_owned),
    );
    names
}

fn promises() -> Vec<(String, Vec<String>, String)> {
    let text = read("tests/GUARANTEES.md".as_ref());
    let rows = text.lines().filter(|line| {
        line.starts_with("| ") && !line.starts_with("| Promise") && !line.starts_with("| ---")
    });
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "promise | tests | requirements: {line}");
        let named = cells[1]
            .split(',')
            .map(|name| name.trim().trim_matches('`').to_owned());
        (cells[0].to_owned(), named.collect(), cells[2].to_owned())
    })
    .collect()
}

#[test]
fn every_promise_names_tests_that_exist() {
    let tests = tests();
    let promises = promises();
    assert!(promises.len() > 40, "{} promises", promises.len());
    let mut missing = Vec::new();
    for (promise, named, _) in &promises {
        for name in named {
            let function = name.rsplit("::").next().unwrap_or_default();
            if !tests.contains(function) {
                missing.push(format!("{promise}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// What is required and not promised yet, with what it waits for.
const NOT_YET: [(&str, &str); 12] = [
    ("001-01", "the engine without user namespaces"),
    ("001-02", "the engine without user namespaces"),
    ("001-14", "the engine without user namespaces"),
    ("002-06", "macOS"),
    ("003-02", "gVisor"),
    ("003-09", "looking into tool calls"),
    ("003-10", "looking into tool calls"),
    ("003-11", "looking into tool calls"),
    ("003-12", "looking into tool calls"),
    ("003-18", "servers from archives"),
    ("003-19", "servers from archives"),
    ("004-11", "the loader of plugins"),
];

/// Every number under which something is asked, of each system that set the floor: the first and the last of a row.
const REQUIRED: [(&str, &[(u32, u32)]); 5] = [
    (
        "000",
        &[(1, 1), (3, 7), (9, 11), (13, 21), (23, 42), (44, 45)],
    ),
    ("001", &[(1, 10), (13, 17)]),
    ("002", &[(1, 6), (9, 9), (11, 12), (14, 15)]),
    ("003", &[(2, 14), (16, 27)]),
    ("004", &[(1, 4), (6, 8), (10, 12)]),
];

/// What a promise is for where nobody asked for it.
const UNASKED: &str = "beyond";

fn required() -> BTreeSet<String> {
    let wanted = REQUIRED.iter().flat_map(|(system, ranges)| {
        let numbers = ranges.iter().flat_map(|(first, last)| *first..=*last);
        numbers.map(move |number| format!("{system}-{number:02}"))
    });
    wanted.collect()
}

fn ids_of(cell: &str) -> Vec<String> {
    cell.split(',').map(|id| id.trim().to_owned()).collect()
}

#[test]
fn every_promise_is_for_what_is_asked_or_goes_beyond() {
    let required = required();
    let mut wrong = Vec::new();
    for (promise, _, ids) in promises() {
        let ids = ids_of(&ids);
        let unknown = ids.iter().filter(|id| !required.contains(*id));
        let unknown: Vec<_> = unknown.filter(|id| *id != UNASKED).collect();
        if ids.is_empty() || !unknown.is_empty() {
            wrong.push(format!("{promise}: {unknown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let known = NOT_YET.iter().filter(|(id, _)| !required.contains(*id));
    assert_eq!(known.count(), 0, "nothing is asked under it");
}

#[test]
fn every_requirement_has_a_promise_or_is_known_to_have_none() {
    let held: BTreeSet<String> = promises()
        .iter()
        .flat_map(|(_, _, ids)| ids_of(ids))
        .collect();
    let missing: Vec<String> = required()
        .into_iter()
        .filter(|id| !held.contains(id))
        .collect();
    let known = missing
        .iter()
        .filter(|id| NOT_YET.iter().any(|(known, _)| known == id));
    let known: BTreeSet<&String> = known.collect();
    let unknown: Vec<_> = missing.iter().filter(|id| !known.contains(id)).collect();
    assert!(unknown.is_empty(), "no promise for {unknown:?}");
    let stale = NOT_YET.iter().filter(|(id, _)| held.contains(*id));
    let stale: Vec<_> = stale.collect();
    assert!(stale.is_empty(), "promised by now: {stale:?}");
}
