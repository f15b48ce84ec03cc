//! `tests/GUARANTEES.md`: each line is a promise, and each promise names tests that are there.

use std::collections::BTreeSet;

use super::{read, sources};

/// The names of all test functions, and of the tests that macros make.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in sources() {
        for line in read(&path).lines() {
            let line = line.trim();
            let after = line.split_once("fn ").map(|(_, rest)| rest);
            // A macro's table: `name: …`, `name = …`.
            let name = after.map_or_else(
                || line.split([':', ' ']).next(),
                |rest| rest.split(['(', '<']).next(),
            );
            names.insert(name.unwrap_or_default().to_owned());
            // A test with a main of its own names its tests in literals.
            names.extend(line.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
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

#[test]
fn the_sandboxs_requirements_all_have_a_promise() {
    let held: BTreeSet<String> = promises()
        .iter()
        .flat_map(|(_, _, ids)| ids.split([',', ' ']).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    // Images (04, 05) and instances of registered servers (03) come with the appliance.
    let later = [2, 3, 4, 5, 8, 12, 22, 43];
    let wanted = (1..=44)
        .filter(|n| !later.contains(n))
        .map(|n| format!("000-{n:02}"));
    let missing: Vec<String> = wanted.filter(|id| !held.contains(id)).collect();
    assert!(missing.is_empty(), "no promise for {missing:?}");
}
