//! `{NAME` that nothing closes: meant for a sentinel, and sent as it is written.

/// What to write instead, if `text` begins one of the `variables` so.
pub(super) fn unclosed(text: &str, variables: &[&str]) -> Option<String> {
    let variable = variables.iter().find(|variable| begins(text, variable))?;
    Some(format!(
        "`{{{variable}` is sent as it is written: write {{{variable}}} where the program would write its variable"
    ))
}

fn begins(text: &str, variable: &str) -> bool {
    let begun = format!("{{{variable}");
    let mut behind = text.split(&begun).skip(1);
    behind.any(|rest| !rest.starts_with('}') && !rest.starts_with(is_of_a_name))
}

/// Whether the name goes on: it is another one.
fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_closes_is_told_and_what_is_another_name_is_not() {
        for (text, told) in [
            ("Bearer {TOKEN", true),
            ("{TOKEN}{TOKEN", true),
            ("{TOKEN }", true),
            ("{TOKEN: 1}", true),
            ("{TOKEN}", false),
            ("{TOKEN_2", false),
            ("{TOKENS}", false),
            ("TOKEN}", false),
            ("", false),
        ] {
            assert_eq!(
                unclosed(text, &["OTHER", "TOKEN"]).is_some(),
                told,
                "{text}"
            );
        }
    }
}
