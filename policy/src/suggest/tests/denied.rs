//! What a suggestion says of what was denied.

use super::*;

#[test]
fn what_was_denied_when_it_was_made_is_said_of_each_entry_and_of_all() {
    let denied = request("GET", "denied.example", 443, "/x");
    let mut passed = request("GET", "passed.example", 443, "/x");
    passed.outcome = Outcome::Allowed;
    let mut both = request("GET", "both.example", 443, "/x");
    both.count = 3;
    let mut also = both.clone();
    (also.outcome, also.count) = (Outcome::Observed(DenyReason::HostNotAllowed), 2);
    let all = [denied, passed.clone(), both, also];
    let suggestion = suggest("s", &all, None, None, Width::Path);
    assert_eq!(suggestion.denied, 4);
    let text = suggestion.draft.to_string();
    for line in [
        "# 1 request, 2026-01-02T03:04:05.000000Z; denied then",
        "# 5 requests, 2026-01-02T03:04:05.000000Z; 3 denied then",
        "Denied when they were made: 4.",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let open = suggest("s", &[passed], None, None, Width::Path);
    assert_eq!(open.denied, 0);
    assert!(!open.draft.to_string().contains("enied"), "{}", open.draft);
}
