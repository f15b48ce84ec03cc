//! Which tests there are, as the sources have them: functions that say so, rows of the tables that macros make
//! functions of, and of lists that a main of its own runs. A name in a comment, or in a list that nobody runs, is none;
//! neither is a function that is ignored, unless `tests/run` runs it alone.

use std::{collections::BTreeSet, path::PathBuf};

/// A file of the repository and what it holds.
pub(super) type Source = (PathBuf, String);

/// Their names; `run` is what runs them all.
pub(super) fn tests(sources: &[Source], run: &str) -> BTreeSet<String> {
    let tables: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| tables(text)).collect();
    let lists: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| lists(text)).collect();
    let mut names = BTreeSet::new();
    for (path, text) in sources {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut look = Look {
            tables: &tables,
            is_run: lists.contains(&*stem),
            alone: run.contains(&format!("--test {stem} -- --ignored")),
            within: Within::Code,
            is_test: false,
            is_ignored: false,
            names: &mut names,
        };
        text.lines().for_each(|line| look.line(line));
    }
    names
}

/// The files whose lists somebody runs: `network` of `network::TESTS`.
fn lists(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("::TESTS").count().saturating_sub(1);
    let before = text.split("::TESTS").take(parts);
    before.filter_map(|part| {
        part.rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
            .next()
    })
}

/// The macros that make tests.
fn tables(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut defined: Option<(&str, usize)> = None;
    for line in text.lines() {
        if let Some(rest) = line.trim().strip_prefix("macro_rules! ") {
            defined = rest.split(' ').next().map(|name| (name, indent(line)));
        } else if let Some((name, depth)) = defined {
            if line.contains("#[test]") || line.contains("#[tokio::test") {
                found.push(name);
            }
            if closes(line, depth) {
                defined = None;
            }
        }
    }
    found
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn closes(line: &str, depth: usize) -> bool {
    indent(line) <= depth && line.trim().starts_with(['}', ')', ']'])
}

/// What a line is part of, and how far what that is in is indented.
enum Within {
    Code,
    Definition(usize),
    Table(usize),
    List(usize),
}

struct Look<'a> {
    tables: &'a BTreeSet<&'a str>,
    /// Somebody runs this file's list.
    is_run: bool,
    /// What is ignored here is run by itself.
    alone: bool,
    within: Within,
    is_test: bool,
    is_ignored: bool,
    names: &'a mut BTreeSet<String>,
}

impl Look<'_> {
    fn line(&mut self, line: &str) {
        let text = line.trim();
        if text.is_empty() || text.starts_with("//") {
            return;
        }
        match self.within {
            Within::Code => return self.code(line),
            Within::Table(_) => {
                let name = text.split([':', ' ', ',', ';']).next();
                self.names.extend(name.map(str::to_owned));
            }
            Within::List(_) => self.literals(text),
            Within::Definition(_) => {}
        }
        if let Within::Definition(depth) | Within::Table(depth) | Within::List(depth) = self.within
            && closes(line, depth)
        {
            self.within = Within::Code;
        }
    }

    fn code(&mut self, line: &str) {
        let text = line.trim();
        if text.starts_with("#[") {
            self.is_test |= text.starts_with("#[test]") || text.starts_with("#[tokio::test");
            self.is_ignored |= text.starts_with("#[ignore");
            return;
        }
        let is_table = |name: &&str| {
            text.split("::").last().is_some_and(|last| {
                last.strip_prefix(*name)
                    .is_some_and(|rest| rest.starts_with('!'))
            })
        };
        if text.starts_with("macro_rules! ") {
            self.within = Within::Definition(indent(line));
        } else if self.tables.iter().any(is_table) {
            self.within = Within::Table(indent(line));
        } else if self.is_run && text.contains("TESTS: &[Test] = &[") {
            self.literals(text);
            if !text.ends_with("];") {
                self.within = Within::List(indent(line));
            }
        } else if let Some((_, rest)) = text.split_once("fn ")
            && self.is_test
            && (!self.is_ignored || self.alone)
        {
            let name = rest.split(['(', '<']).next();
            self.names.extend(name.map(str::to_owned));
        }
        (self.is_test, self.is_ignored) = (false, false);
    }

    fn literals(&mut self, text: &str) {
        let literals = text.split('"').skip(1).step_by(2);
        self.names.extend(literals.map(str::to_owned));
    }
}

#[test]
fn what_only_names_a_test_is_none() {
    let source = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let sources = [
        source(
            "one.rs",
            "//! \"in_a_comment\" and\n// in_another,\n#[test]\nfn a_test() {}\n\
             #[tokio::test(flavor = \"multi_thread\")]\nasync fn an_async_one() {}\n\
             #[test]\n#[ignore = \"a measurement\"]\nfn an_ignored_one() {}\n\
             #[derive(Debug)]\nfn no_test() {\n    let text = \"in_a_text\";\n    a_word, 1\n}\n\
             macro_rules! table {\n    ($($name:ident,)+) => {$(\n        #[test]\n        fn $name() {}\n    )+};\n}\n\
             macro_rules! other {\n    ($name:ident) => {};\n}\n\
             table! {\n    a_row,\n    another_row: 1,\n}\n\
             other! {\n    no_row,\n}\n",
        ),
        source(
            "run.rs",
            "const TESTS: &[Test] = &[\n    (\"listed\", listed),\n    (\n        \"listed_too\",\n        f,\n    ),\n];\nfn f() { \"not_listed\" }\n",
        ),
        source(
            "unused.rs",
            "const TESTS: &[Test] = &[(\"listed_by_nobody\", f)];\n",
        ),
        source("main.rs", "fn main() { all(&[run::TESTS]); }\n"),
        source(
            "alone.rs",
            "#[test]\n#[ignore = \"a measurement\"]\nfn a_measurement() {}\n",
        ),
    ];
    let found = tests(&sources, "cargo test --test alone -- --ignored");
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let wanted = [
        "a_measurement",
        "a_row",
        "a_test",
        "an_async_one",
        "another_row",
        "listed",
        "listed_too",
    ];
    let named = found.iter().filter(|name| !name.starts_with(['}', ')']));
    assert_eq!(named.copied().collect::<Vec<_>>(), wanted);
}
