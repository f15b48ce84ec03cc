//! That something was done, told once on the page that a browser is led to. Words of ours alone: the browser keeps which
//! of them meanwhile, and no text.

use axum::response::Response;

use super::to;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// What the button said.
    AsAsked,
    /// A policy has a new version.
    NewVersion,
    /// A change waits for somebody else.
    Proposed,
    /// The same, and what its author proposed before waits no more.
    ProposedAnew,
    /// A policy is in force somewhere else, or no more.
    Assigned,
    /// Something is gone.
    Removed,
    /// A server runs; or did already.
    Runs,
    /// A sandbox is ended.
    Ends,
    /// Who waited was answered.
    Answered,
    /// A proposal is what was proposed now.
    Approved,
    /// It is not.
    Rejected,
    /// Its author has taken it back.
    Withdrawn,
    /// A search is kept.
    SearchKept,
    /// A secret has a value that it had not.
    SecretKept,
}

impl Done {
    /// Each with the word by which a browser keeps it, and what is said of it.
    const ALL: [(Self, &'static str, &'static str); 14] = [
        (Self::AsAsked, "as-asked", "Done."),
        (
            Self::NewVersion,
            "new-version",
            "Saved as a new version: it is in force wherever the policy is.",
        ),
        (
            Self::Proposed,
            "proposed",
            "Proposed: it takes effect when somebody else approves it.",
        ),
        (
            Self::ProposedAnew,
            "proposed-anew",
            "Proposed, in place of what you had proposed for it before, which waits no more: it takes effect when somebody else \
             approves it.",
        ),
        (
            Self::Assigned,
            "assigned",
            "Done: what is in force is listed here.",
        ),
        (Self::Removed, "removed", "Removed."),
        (
            Self::Runs,
            "runs",
            "Started, or running already: this is its sandbox.",
        ),
        (
            Self::Ends,
            "ends",
            "Asked for: its sandbox ends, or its namespace is registered no more.",
        ),
        (
            Self::Answered,
            "answered",
            "Answered: whoever waited has heard it.",
        ),
        (
            Self::Approved,
            "approved",
            "Approved: what was proposed is so from now on.",
        ),
        (
            Self::Rejected,
            "rejected",
            "Rejected: nothing is changed by it, and its author finds why.",
        ),
        (
            Self::Withdrawn,
            "withdrawn",
            "Taken back: nothing is changed by it.",
        ),
        (
            Self::SearchKept,
            "search-kept",
            "Kept: whoever reads the record finds it here.",
        ),
        (
            Self::SecretKept,
            "secret-kept",
            "Kept: requests have the new value from now on.",
        ),
    ];

    /// What a browser keeps.
    pub(crate) fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(done, ..)| *done == self);
        found.map_or("", |(_, word, _)| word)
    }

    /// Of what a browser kept.
    pub(crate) fn of_word(text: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, word, _)| *word == text);
        found.map(|(done, ..)| *done)
    }

    /// What is said of it.
    pub(super) fn words(self) -> &'static str {
        let found = Self::ALL.iter().find(|(done, ..)| *done == self);
        found.map_or("", |(.., words)| words)
    }
}

/// A change waits for somebody else, perhaps in place of what its author had proposed.
pub(super) fn proposed(id: u64, before: Option<u64>) -> Response {
    let done = match before {
        None => Done::Proposed,
        Some(_) => Done::ProposedAnew,
    };
    told(done, &format!("/approvals/{id}"))
}

/// After a form that did something: to where that is seen, and said.
pub(super) fn told(done: Done, path: &str) -> Response {
    let mut response = to(path);
    response.extensions_mut().insert(done);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_known_again_by_its_word_and_nothing_else_is() {
        for (done, word, words) in Done::ALL {
            assert_eq!(Done::of_word(word), Some(done));
            assert_eq!((done.word(), done.words()), (word, words));
        }
        for text in ["", "Removed", "removed.", "<b>"] {
            assert_eq!(Done::of_word(text), None, "{text}");
        }
    }
}
