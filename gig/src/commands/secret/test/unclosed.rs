//! `{NAME` that nothing closes, or `{NMAE}`: meant for a sentinel, and sent as it is written.

/// What to write instead, if `text` begins one of the `variables` so.
pub(super) fn unclosed(text: &str, variables: &[&str]) -> Option<String> {
    let variable = variables.iter().find(|variable| begins(text, variable))?;
    Some(format!(
        "`{{{variable}` is sent as it is written: write {{{variable}}} where the program would write its variable"
    ))
}

/// What is wrong with a URL, filled in by now, in which braces stand still: whether the secret has a place in it would be
/// said of another request.
pub(super) fn misspelt<'a>(url: &str, variables: impl Iterator<Item = &'a str>) -> Option<String> {
    let (word, _) = url.split_once('{')?.1.split_once('}')?;
    let names: Vec<_> = variables.map(|name| format!("{{{name}}}")).collect();
    Some(format!(
        "{{{word}}} is no variable of the secret: write {} where its sentinel stands, and %7B for a brace",
        names.join(" or ")
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
