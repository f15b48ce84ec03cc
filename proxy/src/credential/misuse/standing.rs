//! Where in a body a text stands: in a field of a form in parts, or as the whole of a JSON string that is
//! called a credential. There it is on its way to be one; in other text it may be quoted.

use std::sync::Arc;

use memchr::{memchr, memrchr};

use crate::credential::{
    forms::Form,
    letters::word,
    media::Beginning,
    naming::{CREDENTIALS, is_sent},
    parts::Parts,
};

/// What is known of the body so far.
#[derive(Debug, Default)]
pub(in crate::credential) struct Standing(Kept);

#[derive(Debug, Default)]
enum Kept {
    /// Nothing is told apart.
    #[default]
    Nothing,
    /// Parts of `multipart/form-data` (RFC 7578).
    Parts(Box<Parts>),
    /// JSON: what came before the next octets.
    Members(Vec<u8>),
    /// JSON, if it begins like it.
    Untold(Beginning),
    /// A form, or JSON that is called one: what came does not say yet.
    FormOrMembers(Beginning),
    /// A form: every value is one of a field.
    Form,
    /// It begins like JSON, and some origin may take it for a form all the same.
    FormAndMembers(Vec<u8>, Pair),
}

/// The pair of a form that is being read, as far as it came.
#[derive(Debug, Default, Clone, Copy)]
struct Pair {
    /// Behind a `=`.
    valued: bool,
    /// It has a quotation mark, as what stands in a string of JSON has one before.
    quoted: bool,
}

impl Standing {
    /// In parts that `boundary` divides.
    pub(in crate::credential) fn parts(boundary: &Arc<[u8]>) -> Self {
        Self(Kept::Parts(Box::new(Parts::of(boundary))))
    }

    /// In JSON, or what may be.
    pub(in crate::credential) const fn members() -> Self {
        Self(Kept::Members(Vec::new()))
    }

    /// In a form, or in JSON that is called one.
    pub(in crate::credential) const fn form_or_members() -> Self {
        Self(Kept::FormOrMembers(Beginning::Blank))
    }

    /// In JSON, if it begins like it.
    pub(in crate::credential) const fn untold() -> Self {
        Self(Kept::Untold(Beginning::Blank))
    }

    /// Whether pieces that stand apart are on their way to be a credential.
    pub(in crate::credential) const fn is_form(&self) -> bool {
        matches!(self.0, Kept::Form | Kept::FormAndMembers(..))
    }

    /// Takes the next octets, before they are asked about, if they are `asked` about at all.
    pub(in crate::credential) fn read(&mut self, octets: &[u8], asked: bool) {
        let told = match &mut self.0 {
            Kept::Untold(beginning) => beginning.read(octets).map(|json| match json {
                true => Kept::Members(Vec::new()),
                false => Kept::Nothing,
            }),
            Kept::FormOrMembers(beginning) => beginning.read(octets).map(|json| match json {
                true => Kept::FormAndMembers(Vec::new(), Pair::default()),
                false => Kept::Form,
            }),
            _ => None,
        };
        if let Some(kept) = told {
            self.0 = kept;
        }
        if let Kept::Parts(parts) = &mut self.0 {
            match asked {
                true => parts.read(octets),
                false => parts.skip(octets),
            }
        }
    }

    /// Forgets what is before the octets that come next; `gone` is what was looked at and will not be again.
    pub(in crate::credential) fn passed(&mut self, gone: &[u8]) {
        if let Kept::FormAndMembers(_, pair) = &mut self.0 {
            *pair = pair.behind(gone);
        }
        if let Kept::Members(before) | Kept::FormAndMembers(before, _) = &mut self.0 {
            let last = gone.len().saturating_sub(LONGEST_LEAD);
            before.extend_from_slice(gone.get(last..).unwrap_or_default());
            let surplus = before.len().saturating_sub(LONGEST_LEAD);
            drop(before.drain(..surplus));
        }
    }

    /// Whether what stands from `start` to `end` in `piece`, in this form, of which the octets that were read last
    /// begin at `joint`, is on its way to be a credential.
    pub(in crate::credential) fn is_credential(
        &self,
        piece: &[u8],
        joint: usize,
        (start, end): (usize, usize),
        form: Form,
    ) -> bool {
        match &self.0 {
            Kept::Nothing | Kept::Untold(_) => false,
            // Nothing but brackets came before: no text is quoted.
            Kept::Form | Kept::FormOrMembers(_) => true,
            Kept::Parts(parts) => parts.spot(end.saturating_sub(joint + 1)).field,
            Kept::FormAndMembers(before, pair) => {
                let pair = pair.behind(piece.get(..start).unwrap_or_default());
                (pair.valued && !pair.quoted) || is_member(before, piece, (start, end), form)
            }
            Kept::Members(before) => is_member(before, piece, (start, end), form),
        }
    }
}

impl Pair {
    /// What it is behind these octets, too, or the one that began in them.
    fn behind(self, octets: &[u8]) -> Self {
        let (known, octets) = match memrchr(b'&', octets) {
            Some(at) => (Self::default(), octets.get(at + 1..).unwrap_or_default()),
            None => (self, octets),
        };
        Self {
            valued: known.valued || memchr(b'=', octets).is_some(),
            quoted: known.quoted || memchr(b'"', octets).is_some(),
        }
    }
}

/// Whether what stands there in `piece`, with `before` before it, is a string of JSON that is called a credential.
fn is_member(before: &[u8], piece: &[u8], (start, end): (usize, usize), form: Form) -> bool {
    let near = piece.get(start.saturating_sub(LONGEST_LEAD)..start);
    let near = near.unwrap_or_default();
    let longer = (start < LONGEST_LEAD).then(|| [before, near].concat());
    let lead = longer.as_deref().unwrap_or(near);
    // As long wherever the body is cut.
    let lead = lead.get(lead.len().saturating_sub(LONGEST_LEAD)..);
    let (mut lead, mut behind) = (
        lead.unwrap_or_default(),
        piece.get(end..).unwrap_or_default(),
    );
    if let Form::Base64 = form {
        // It shares groups with what else was encoded, as the user's name is with a password: the letters on
        // either side are of the same string.
        let letters = lead.iter().rev().take_while(is_letter);
        lead = lead
            .get(..lead.len() - letters.take(LONGEST_SHARED).count())
            .unwrap_or_default();
        let letters = behind.iter().take_while(is_letter);
        behind = behind
            .get(letters.take(LONGEST_SHARED).count()..)
            .unwrap_or_default();
    }
    // What does not end here may end with the next octets.
    behind.first().is_none_or(|next| *next == b'"') && is_called(lead)
}

/// Whether Base64 is written with it (RFC 4648, sections 4 and 5).
const fn is_letter(octet: &&u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(**octet, b'+' | b'/' | b'-' | b'_' | b'=')
}

/// Whether `lead` ends with a credential's name and the beginning of its string.
fn is_called(lead: &[u8]) -> bool {
    let lead = lead.trim_ascii_end();
    let bare = |word: &str| {
        let (before, tail) = lead.split_at_checked(lead.len().checked_sub(word.len())?)?;
        tail.eq_ignore_ascii_case(word.as_bytes())
            .then(|| before.trim_ascii_end())
    };
    let lead = SCHEMES.iter().find_map(|word| bare(word)).unwrap_or(lead);
    let name = || {
        let lead = strip(lead, b'"')?;
        let lead = strip(lead, b':')?;
        let lead = strip(lead, b'"')?;
        let from = lead
            .iter()
            .rposition(|octet| *octet == b'"')
            .map_or(0, |at| at + 1);
        lead.get(from..)
    };
    let Some(name) = name() else {
        return false;
    };
    let bare = if memchr(b'\\', name).is_some() {
        word(unescaped(name).as_bytes())
    } else {
        word(name)
    };
    let ends = |word: &&str| bare.ends_with(word.as_bytes());
    CREDENTIALS.iter().any(ends) || is_sent(&bare)
}

/// A name as whoever parses the JSON reads it; empty where it is none.
fn unescaped(name: &[u8]) -> String {
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice(&quoted).unwrap_or_default()
}

/// What stands before `octet`, blanks aside. JSON in a string of JSON is quoted, not sent: the history of a
/// conversation has what programs printed.
fn strip(lead: &[u8], octet: u8) -> Option<&[u8]> {
    let lead = lead.trim_ascii_end().strip_suffix(&[octet])?;
    (!lead.ends_with(b"\\")).then(|| lead.trim_ascii_end())
}

const SCHEMES: [&str; 3] = ["basic", "bearer", "token"];
/// A name, and what stands between it and its string.
const LONGEST_LEAD: usize = 128;
/// What is encoded in Base64 on either side of what was found.
const LONGEST_SHARED: usize = LONGEST_LEAD / 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `<` is a credential where it stands, read in pieces of `size`.
    fn credential(standing: Standing, text: &str, size: usize) -> bool {
        formed(standing, text, size, Form::Plain)
    }

    fn formed(mut standing: Standing, text: &str, size: usize, form: Form) -> bool {
        let octets = text.as_bytes();
        let wanted = octets.iter().position(|octet| *octet == b'<').unwrap();
        for (number, piece) in octets.chunks(size).enumerate() {
            standing.read(piece, true);
            let from = number * size;
            if (from..from + piece.len()).contains(&wanted) {
                let at = wanted - from;
                return standing.is_credential(piece, 0, (at, at + 1), form);
            }
            standing.passed(piece);
        }
        unreachable!();
    }

    #[test]
    fn in_base64_the_letters_around_it_are_of_the_same_string() {
        for (text, expected) in [
            (r#"{"token":"<w=="}"#, true),
            (r#"{"password":"dTo<+/x"}"#, true),
            (r#"{"headers":{"Authorization":"Basic dXNlcjo<=="}}"#, true),
            (r#"{"token":"is it dTo<=?"}"#, false),
            (r#"{"prompt":"dTo<=="}"#, false),
        ] {
            for size in [2, 5, 7, 1000] {
                // What ends a piece may end the string.
                if text.contains("<=?") && size != 1000 {
                    continue;
                }
                let told = formed(Standing::members(), text, size, Form::Base64);
                assert_eq!(told, expected, "{text} by {size}");
            }
        }
    }

    #[test]
    fn a_member_that_is_called_a_credential_is_told_from_text() {
        for (text, expected) in [
            (r#"{"api_key":"<"}"#, true),
            (r#"{"a":[{"accessToken" : "<", "b":1}]}"#, true),
            (r#"{"headers":{"Authorization":"Bearer <"}}"#, true),
            (r#"{"Password":"<"}"#, true),
            (r#"{"id_jwt":"<"}"#, true),
            (r#"{"db-passwd":"<"}"#, true),
            (r#"{"pwd":"<"}"#, true),
            (r#"{"keyPassphrase":"<"}"#, true),
            (r#"{"client_assertion":"<"}"#, true),
            (r#"{"credentials":"<"}"#, true),
            (r#"{"auth":"Bearer <"}"#, true),
            (r#"{"Cookie":"<"}"#, true),
            (r#"{"to\u006ben":"<"}"#, true),
            (r#"{"\u0061pi\u005Fkey" : "Bearer <"}"#, true),
            (r#"{"to\u006bes":"<"}"#, false),
            (r#"{"pass":"<"}"#, true),
            (r#"{"author":"<"}"#, false),
            (r#"{"bypass":"<"}"#, false),
            (r#"{"body":"{\"client_secret\":\"<\"}"}"#, false),
            (r#"{"prompt":"<"}"#, false),
            (r#"{"api_key":"what is <?"}"#, false),
            (r#"{"key":"<?"}"#, false),
            (r#"{"key":["<"]}"#, false),
            (r#"["key","<"]"#, false),
            ("key=<", false),
            ("<", false),
        ] {
            for size in [1, 2, 7, 1000] {
                // What ends a piece may end the string.
                if size == 1 && text.contains("<?") {
                    continue;
                }
                assert_eq!(
                    credential(Standing::members(), text, size),
                    expected,
                    "{text} by {size}"
                );
            }
        }
    }

    #[test]
    fn a_pair_of_a_form_that_begins_like_json_is_told_wherever_it_is_cut() {
        let far = "x".repeat(2 * LONGEST_LEAD);
        for (text, expected) in [
            ("{\"a\":1}&token=<".to_owned(), true),
            (format!("{{\"a\":1}}&token={far}<"), true),
            (format!("{{\"a\":1}}&{far}=<"), true),
            // In a string of JSON, however far its beginning is.
            ("{\"a\":\"b=<".to_owned(), false),
            (format!("{{\"a\":\"b={far}<"), false),
            (format!("{{\"a\":\"{far}b=<"), false),
            (
                format!("{{\"token\":{}\"<\"", " ".repeat(LONGEST_LEAD)),
                false,
            ),
        ] {
            for size in [1, 2, 7, 64, 100, 1000] {
                let found = credential(Standing::form_or_members(), &text, size);
                assert_eq!(found, expected, "{text} by {size}");
            }
        }
    }
}
