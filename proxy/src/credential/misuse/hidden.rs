//! What stands in records where a program wrote a real value: the name of its secret.
//!
//! Records, what people are shown and the log get these words; what is decided on stays what was asked.
//! Sentinels stay where they are: they are worth nothing.

use std::ops::Range;

use gig_policy::{SandboxId, SecretName};
use http::HeaderName;

use super::nowhere::is_ordinary;
use crate::credential::watch::{Found, Watch, What};

/// `text` with the name of the secret for each part, as `between` divides it, that holds a value; for
/// all of it where a value stands there escaped or in pieces. `None` where it holds none. Tokens that were
/// captured are looked for where `by` made the login: what a server calls a token is its own word, and must
/// hide nothing of anybody else's.
#[must_use]
pub fn without_values(
    watch: &Watch,
    text: &str,
    (between, by): (char, Option<SandboxId>),
) -> Option<String> {
    if watch.is_empty() {
        return None;
    }
    let mut first: Option<(Range<usize>, &SecretName)> = None;
    watch.find(text.as_bytes(), |found, at| {
        if !is_value(found, by) {
            return;
        }
        let at = at.start..at.end;
        // Of a long value both ends are looked for: what stands between two finds may be one.
        let (range, _) = first.get_or_insert_with(|| (at.clone(), &found.name));
        *range = range.start.min(at.start)..range.end.max(at.end);
    });
    let hidden = first.and_then(|(range, name)| {
        let (before, after) = (text.get(..range.start)?, text.get(range.end..)?);
        let (head, _) = before.rsplit_once(between).unzip();
        let (_, tail) = after.split_once(between).unzip();
        let join = |part: Option<&str>| part.map(str::to_owned);
        let head = join(head).map_or_else(String::new, |head| format!("{head}{between}"));
        let tail = join(tail).map_or_else(String::new, |tail| format!("{between}{tail}"));
        Some(format!("{head}{}{tail}", word(name)))
    });
    let seen = hidden.as_deref().unwrap_or(text);
    let mut rest: Option<SecretName> = None;
    let mut note = |found: &'_ Found| {
        if is_value(found, by) {
            rest.get_or_insert_with(|| found.name.clone());
        }
    };
    watch.find_escaped(seen.as_bytes(), &mut note);
    if between == '.' {
        // Digits of it may go on in the next label.
        watch.find_escaped(seen.replace(between, "").as_bytes(), &mut note);
        watch.find_digits(seen, &mut note);
    }
    watch.find_split(seen.as_bytes(), &mut note);
    match rest {
        Some(name) if text.starts_with('/') => Some(format!("/{}", word(&name))),
        Some(name) => Some(word(&name)),
        None => hidden,
    }
}

/// The same for a method: there are no parts to it.
#[must_use]
pub fn method_without_values(watch: &Watch, method: &str) -> Option<String> {
    if is_ordinary(method) {
        return None;
    }
    // No method holds it.
    without_values(watch, method, ('/', None))
}

/// A field or a cookie by its name, where that is ordinary and holds no value: names are the program's words, and what is
/// told of them stands where a person looks for what to do.
#[must_use]
pub fn named(watch: Option<&Watch>, kind: &str, name: &[u8]) -> String {
    // RFC 6265 §4.1.1 has the same names for cookies.
    let fits = name.len() <= LONGEST_NAMED && HeaderName::from_bytes(name).is_ok();
    let name = str::from_utf8(name).unwrap_or_default();
    let is_clean = |watch: &Watch| without_values(watch, name, ('.', None)).is_none();
    match fits && watch.is_some_and(is_clean) {
        true => format!("{kind} {name}"),
        false => format!("a {kind}"),
    }
}

/// No name of a field that anybody registered is longer.
const LONGEST_NAMED: usize = 64;

fn word(name: &SecretName) -> String {
    format!("[value of {name}]")
}

fn is_value(found: &Found, by: Option<SandboxId>) -> bool {
    match found.what {
        What::Value { .. } => true,
        What::Captured(owner) => by == Some(owner),
        What::Sentinel(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gig_vault::{Guarded, GuardedValue, SecretBytes};

    use super::*;

    fn watch(value: &str) -> Watch {
        let value = GuardedValue {
            name: "TOKEN".parse().unwrap(),
            version: 1,
            part: Some(0),
            value: Arc::new(SecretBytes::from(value)),
            current: true,
        };
        let guarded = Guarded {
            generation: 1,
            values: vec![value],
        };
        Watch::new(&[], &guarded)
    }

    #[test]
    fn the_part_that_holds_a_value_is_named_and_the_rest_stays() {
        let value = "v4lue-of-the-token-1";
        let watch = watch(value);
        for (text, between, wanted) in [
            ("/a/b", '/', None),
            ("/a/<", '/', Some("/a/[value of TOKEN]")),
            ("/bot</getMe", '/', Some("/[value of TOKEN]/getMe")),
            ("/x/<y/</z", '/', Some("/x/[value of TOKEN]/z")),
            ("a.<.test", '.', Some("a.[value of TOKEN].test")),
            ("<", '.', Some("[value of TOKEN]")),
            ("/a/v4lue-of/the-token-1/b", '/', Some("/[value of TOKEN]")),
            (
                "/a/v4lue%2Dof-the-token-1/b",
                '/',
                Some("/[value of TOKEN]"),
            ),
            (
                "/a/</v4lue%2Dof-the-token-1",
                '/',
                Some("/[value of TOKEN]"),
            ),
            ("v4lue-of.the-token-1.test", '.', Some("[value of TOKEN]")),
            (
                "oy2gy5lffvxwmllu.nbss25dpnnsw4ljr.test",
                '.',
                Some("[value of TOKEN]"),
            ),
            (
                "76346c75652d6f662d7468.652d746f6b656e2d31.test",
                '.',
                Some("[value of TOKEN]"),
            ),
        ] {
            let text = text.replace('<', value);
            let hidden = without_values(&watch, &text, (between, None));
            assert_eq!(hidden.as_deref(), wanted, "{text}");
            let loud = without_values(&watch, &text.to_uppercase(), (between, None));
            assert_eq!(loud.is_some(), wanted.is_some(), "{text}");
        }
    }

    #[test]
    fn nothing_of_a_long_value_stays_between_its_ends() {
        let long: String = (0_u32..4000)
            .map(|n| char::from(b'a' + u8::try_from(n * 7 % 26).unwrap()))
            .collect();
        let watch = watch(&long);
        let (one, rest) = long.split_at(1500);
        let (two, three) = rest.split_at(1000);
        for text in [
            format!("/x/{long}/y"),
            format!("/x/{}/y", long.chars().rev().collect::<String>()),
            format!("/x/{one}/{two}/{three}/y"),
        ] {
            let hidden = without_values(&watch, &text, ('/', None)).unwrap();
            assert!(hidden.len() < 40, "{hidden}");
        }
    }

    #[test]
    fn only_what_could_hold_one_is_looked_at_in_a_method() {
        let watch = watch("v4lue-of-the-token-1");
        assert_eq!(method_without_values(&watch, "GET"), None);
        assert_eq!(method_without_values(&watch, "PROPFIND"), None);
        let told = method_without_values(&watch, "xv4lue-of-the-token-1");
        assert_eq!(told.as_deref(), Some("[value of TOKEN]"));
    }
}
