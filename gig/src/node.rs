//! What the record calls this machine: `GIG_NODE`, else its name as uname(2) has it.

use anyhow::bail;

/// The name.
///
/// # Errors
/// When what was given is no name.
pub(crate) fn name() -> anyhow::Result<String> {
    let Some(given) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
        let name = rustix::system::uname();
        return Ok(name.nodename().to_string_lossy().into_owned());
    };
    match given.into_string() {
        Ok(name) if is_name(&name) => Ok(name),
        _ => bail!(
            "{VARIABLE} names this machine: up to {LONGEST} letters, digits, dots, dashes and underscores"
        ),
    }
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.len() <= LONGEST && text.chars().all(fits)
}

const VARIABLE: &str = "GIG_NODE";
/// As long as a host's name may be (POSIX, `HOST_NAME_MAX`).
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["n", "node-1.eu_west", &"n".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["a b", "a\u{202e}b", "a/b", "\u{e9}", &"n".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
