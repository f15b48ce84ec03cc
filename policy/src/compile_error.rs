//! What is wrong with a policy: every mistake with its place and its cure.

use std::fmt;

use serde::Serialize;

use crate::rule::Position;

/// A policy that was refused, with all that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilePolicyError {
    /// The file's name, or what the text was read from.
    pub origin: String,
    /// In the order of the document; never empty.
    pub problems: Vec<Problem>,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line, from 1; 0 for an option of the command line.
    pub line: u64,
    /// The column in characters, from 1; 0 for an option of the command line.
    pub column: u64,
    /// What was attempted, what is wrong and what to do.
    pub message: String,
}

impl Problem {
    pub(crate) const fn at(at: Position, message: String) -> Self {
        Self {
            line: at.line,
            column: at.column,
            message,
        }
    }

    pub(crate) const fn nowhere(message: String) -> Self {
        Self {
            line: 0,
            column: 0,
            message,
        }
    }
}

impl CompilePolicyError {
    pub(crate) fn new(origin: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|p| (p.line, p.column));
        Self {
            origin: origin.to_owned(),
            problems,
        }
    }
}

/// One line for each problem, as compilers and editors write it: `file:line:column: message`.
impl fmt::Display for CompilePolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().take(SHOWN).enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            if problem.line == 0 {
                write!(f, "{}: {}", self.origin, problem.message)?;
            } else {
                let Problem {
                    line,
                    column,
                    message,
                } = problem;
                write!(f, "{}:{line}:{column}: {message}", self.origin)?;
            }
        }
        match self.problems.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more", self.origin),
        }
    }
}

impl std::error::Error for CompilePolicyError {}

/// More would push the first one off the screen.
const SHOWN: usize = 50;
