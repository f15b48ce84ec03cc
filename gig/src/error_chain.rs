//! Prints an error with its causes: one line that says what failed, then why, innermost last.

use crate::stderr::tell;

/// Prints to standard error; nothing can be done when that fails.
pub(crate) fn print(error: &anyhow::Error) {
    tell(&format!("gig: {error}\n"));
    for cause in error.chain().skip(1) {
        tell(&format!("  because: {cause}\n"));
    }
}
