//! Policy documents as the appliance keeps them: compiled before they are stored.

use std::collections::HashSet;

use gig_policy::{Finding, Moment, Policy, PolicyBuilder, Problem, Reach};
use jiff::Timestamp;

use crate::clock::{Clock as _, SystemClock};

mod lines;

pub(crate) use lines::{Line, difference};

/// Compiles a document as version `version` of policy `name`.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn compile(
    name: &str,
    version: u64,
    document: &str,
    reach: Option<Reach>,
) -> Result<Policy, Vec<Problem>> {
    if document.len() > LONGEST {
        return Err(vec![whole(format!(
            "a document has at most {LONGEST} octets"
        ))]);
    }
    let builder = PolicyBuilder::new(name).document(document, name);
    let mut builder = builder
        .map_err(|refused| refused.problems)?
        .version(version);
    if let Some(reach) = reach {
        builder = builder.reach(reach);
    }
    let policy = builder.build().map_err(|refused| refused.problems)?;
    let said = &policy.reference().name;
    if **said != *name {
        let words = format!(
            "the document calls itself {said}, and this policy is {name}: records would name another \
             one; change `name`, or leave it out"
        );
        return Err(vec![at_name(document, words)]);
    }
    Ok(policy)
}

/// Where the document says its name, if it does so on a line that begins with it.
fn at_name(document: &str, message: String) -> Problem {
    let named = (1..).zip(document.lines()).find_map(|(line, text)| {
        let value = text.strip_prefix("name:")?;
        let blanks = value.len() - value.trim_start().len();
        Some((line, "name:".len() + blanks + 1))
    });
    let (line, column) = named.unwrap_or((1, 1));
    Problem {
        line,
        column: column as u64,
        message,
    }
}

fn whole(message: String) -> Problem {
    Problem {
        line: 1,
        column: 1,
        message,
    }
}

/// What a document comes to.
pub(crate) struct Checked {
    pub(crate) problems: Vec<Problem>,
    pub(crate) findings: Vec<Finding>,
}

/// Which secrets there are; `None` where the vault does not say.
pub(crate) type Known<'a> = &'a dyn Fn() -> Option<HashSet<String>>;

/// Checks a document that may be wrong; asks which secrets there are where it names any.
pub(crate) fn check(name: &str, document: &str, secrets: Known<'_>) -> Checked {
    if let Some(problem) = returned(document) {
        return Checked {
            problems: vec![problem],
            findings: Vec::new(),
        };
    }
    match compile(name, 0, document, None) {
        Ok(policy) => {
            let mut findings = policy.findings();
            findings.extend(policy.expired(moment(SystemClock.now())));
            let names_any = !policy.secret_names().is_empty();
            if let Some(known) = names_any.then(secrets).flatten() {
                findings.extend(policy.unset_secrets(|name| known.contains(name.as_str())));
            }
            let problems = Vec::new();
            Checked { problems, findings }
        }
        Err(problems) => Checked {
            problems,
            findings: Vec::new(),
        },
    }
}

/// Checks a document by whatever name it calls itself.
pub(crate) fn check_unnamed(document: &str, secrets: Known<'_>) -> Checked {
    let named = Policy::compile(document, UNNAMED);
    let name = named.map_or_else(
        |_| UNNAMED.to_owned(),
        |policy| policy.reference().name.to_string(),
    );
    check(&name, document, secrets)
}

/// What no document is called that calls itself nothing.
const UNNAMED: &str = "draft";

/// A line that ends in a carriage return alone ends for a parser and for no editor: what people look at is
/// not what is compiled.
fn returned(document: &str) -> Option<Problem> {
    let lines = document.split('\n').enumerate();
    let mut lines = lines.map(|(at, line)| (at, line.strip_suffix('\r').unwrap_or(line)));
    let carriage = |line: &str| line.chars().position(|c| c == '\r');
    let (at, column) = lines.find_map(|(at, line)| Some((at, carriage(line)?)))?;
    let counted = |from_zero: usize| u64::try_from(from_zero).map_or(u64::MAX, |n| n + 1);
    Some(Problem {
        line: counted(at),
        column: counted(column),
        message: "a carriage return without a line feed: end lines with a line feed".to_owned(),
    })
}

/// To the second, as rules end.
pub(crate) fn moment(at: Timestamp) -> Moment {
    Moment::from_unix(at.as_second())
}

/// A hundred thousand rules.
pub(crate) const LONGEST: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use gig_policy::FindingKind;

    use super::*;

    #[test]
    fn another_name_is_refused_where_it_stands() {
        let of = |document: &str| {
            let problems = compile("p", 1, document, None).unwrap_err();
            let [problem] = &problems[..] else {
                panic!("{problems:?}")
            };
            assert!(problem.message.contains("calls itself q"), "{problem:?}");
            (problem.line, problem.column)
        };
        assert_eq!(of("# A.\nversion: 1\nname: q\n"), (3, 7));
        assert_eq!(of("{\"version\": 1, \"name\": \"q\"}"), (1, 1));
        assert!(compile("p", 1, "version: 1\nname: p\n", None).is_ok());
    }

    #[test]
    fn a_document_without_another_name_is_what_it_calls_itself() {
        for document in [
            "version: 1\nname: web\negress: []\n",
            "version: 1\negress: []\n",
        ] {
            let problems = check_unnamed(document, &|| None).problems;
            assert!(problems.is_empty(), "{problems:?}");
        }
        assert!(
            !check_unnamed("version: 2\nname: web\n", &|| None)
                .problems
                .is_empty()
        );
    }

    #[test]
    fn a_secret_that_is_not_there_is_told_where_it_is_named() {
        let document = "version: 1\negress:\n  - {host: a.example, secrets: [HERE]}\n  - {host: b.example, secrets: \
                        [HERE, GONE]}\n  - {host: c.example, secrets: [GONE]}\n";
        let known = || Some(HashSet::from(["HERE".to_owned()]));
        let told = |known: Known<'_>| -> Vec<_> {
            let found = check("p", document, known).findings.into_iter();
            let found = found.filter(|one| one.kind == FindingKind::SecretNotSet);
            found
                .map(|one| (one.line, one.column, one.message))
                .collect()
        };
        let told_of = told(&known);
        let [(4, 5, message)] = &told_of[..] else {
            panic!("{told_of:?}")
        };
        assert!(message.contains("no secret GONE"), "{message}");
        // Where the vault does not answer, nothing is said of what it has.
        assert!(told(&|| None).is_empty());
        let asked = check("p", "version: 1\negress: []\n", &|| unreachable!());
        assert!(asked.problems.is_empty());
    }

    #[test]
    fn a_carriage_return_alone_is_refused_where_it_stands() {
        let of = |document: &str| returned(document).map(|problem| (problem.line, problem.column));
        assert_eq!(of("version: 1\r\negress: []\r\n"), None);
        assert_eq!(of("version: 1\n# all\regress: []\n"), Some((2, 6)));
        assert_eq!(of("a\r\r\n"), Some((1, 2)));
        assert!(
            !check("p", "version: 1\n# all\regress: []\n", &|| None)
                .problems
                .is_empty()
        );
        assert!(
            check("p", "version: 1\r\negress: []\r\n", &|| None)
                .problems
                .is_empty()
        );
    }
}
