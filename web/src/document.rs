//! Policy documents as the appliance keeps them: compiled before they are stored.

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
        return Err(vec![whole(words)]);
    }
    Ok(policy)
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

/// Checks a document that may be wrong.
pub(crate) fn check(name: &str, document: &str) -> Checked {
    match compile(name, 0, document, None) {
        Ok(policy) => {
            let mut findings = policy.findings();
            findings.extend(policy.expired(moment(SystemClock.now())));
            let problems = Vec::new();
            Checked { problems, findings }
        }
        Err(problems) => Checked {
            problems,
            findings: Vec::new(),
        },
    }
}

/// To the second, as rules end.
pub(crate) fn moment(at: Timestamp) -> Moment {
    Moment::from_unix(at.as_second())
}

/// A hundred thousand rules.
pub(crate) const LONGEST: usize = 8 * 1024 * 1024;
