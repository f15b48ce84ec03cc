//! Where in a body a text stands: in a field of a form in parts, or as the whole of a JSON string that is
//! called a credential. There it is on its way to be one; in other text it may be quoted.

use std::sync::Arc;

use crate::credential::{letters::word, media::Beginning, parts::Parts};

/// What is known of the body so far.
#[derive(Debug, Default)]
pub(in crate::credential) struct Standing(Kept);

#[derive(Debug, Default)]
enum Kept {
    /// Nothing is told apart.
    #[default]
    Nothing,
    /// Parts of `multipart/form-data` (RFC 7578).
    Parts(Parts),
    /// JSON: what came before the next octets.
    Members(Vec<u8>),
    /// JSON, if it begins like it.
    Untold(Beginning),
    /// A form, or JSON that is called one: what came does not say yet.
    FormOrMembers(Beginning),
    /// A form: every value is one of a field.
    Form,
    /// It begins like JSON, and some origin may take it for a form all the same.
    FormAndMembers(Vec<u8>),
}

impl Standing {
    /// In parts that `boundary` divides.
    pub(in crate::credential) fn parts(boundary: &Arc<[u8]>) -> Self {
        Self(Kept::Parts(Parts::of(boundary)))
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
        matches!(self.0, Kept::Form | Kept::FormAndMembers(_))
    }

    /// Takes the next octets, before they are asked about.
    pub(in crate::credential) fn read(&mut self, octets: &[u8]) {
        let told = match &mut self.0 {
            Kept::Untold(beginning) => beginning.read(octets).map(|json| match json {
                true => Kept::Members(Vec::new()),
                false => Kept::Nothing,
            }),
            Kept::FormOrMembers(beginning) => beginning.read(octets).map(|json| match json {
                true => Kept::FormAndMembers(Vec::new()),
                false => Kept::Form,
            }),
            _ => None,
        };
        if let Some(kept) = told {
            self.0 = kept;
        }
        if let Kept::Parts(parts) = &mut self.0 {
            parts.read(octets);
        }
    }

    /// Forgets what is before the octets that come next; `gone` is what was looked at and will not be again.
    pub(in crate::credential) fn passed(&mut self, gone: &[u8]) {
        if let Kept::Members(before) | Kept::FormAndMembers(before) = &mut self.0 {
            let last = gone.len().saturating_sub(LONGEST_LEAD);
            before.extend_from_slice(gone.get(last..).unwrap_or_default());
            let surplus = before.len().saturating_sub(LONGEST_LEAD);
            drop(before.drain(..surplus));
        }
    }

    /// Whether what stands from `start` to `end` in `piece`, of which the octets that were read last begin
    /// at `joint`, is on its way to be a credential.
    pub(in crate::credential) fn is_credential(
        &self,
        piece: &[u8],
        joint: usize,
        (start, end): (usize, usize),
    ) -> bool {
        match &self.0 {
            Kept::Nothing | Kept::Untold(_) => false,
            // Nothing but brackets came before: no text is quoted.
            Kept::Form | Kept::FormOrMembers(_) => true,
            Kept::Parts(parts) => parts.spot(end.saturating_sub(joint + 1)).field,
            Kept::Members(before) | Kept::FormAndMembers(before) => {
                let near = piece.get(start.saturating_sub(LONGEST_LEAD)..start);
                let near = near.unwrap_or_default();
                let longer = (start < LONGEST_LEAD).then(|| [&**before, near].concat());
                let lead = longer.as_deref().unwrap_or(near);
                // What does not end here may end with the next octets.
                let ends = piece.get(end).is_none_or(|next| *next == b'"');
                let pair = matches!(self.0, Kept::FormAndMembers(_)) && is_in_pair(lead);
                pair || (ends && is_called(lead))
            }
        }
    }
}

/// Whether `lead` ends in the value of a form's pair: in a string of JSON there is a quotation mark before.
fn is_in_pair(lead: &[u8]) -> bool {
    let pair = lead.rsplit(|octet| *octet == b'&').next();
    pair.is_some_and(|pair| pair.contains(&b'=') && !pair.contains(&b'"'))
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
    let bare = word(name);
    NAMES.iter().any(|word| bare.ends_with(word.as_bytes()))
}

/// What stands before `octet`, blanks aside. JSON in a string of JSON is quoted, not sent: the history of a
/// conversation has what programs printed.
fn strip(lead: &[u8], octet: u8) -> Option<&[u8]> {
    let lead = lead.trim_ascii_end().strip_suffix(&[octet])?;
    (!lead.ends_with(b"\\")).then(|| lead.trim_ascii_end())
}

/// How names of members end that hold credentials, in lower case and without what divides words.
const NAMES: [&str; 5] = ["token", "key", "secret", "password", "authorization"];
const SCHEMES: [&str; 2] = ["bearer", "token"];
/// A name, and what stands between it and its string.
const LONGEST_LEAD: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `<` is a credential where it stands, read in pieces of `size`.
    fn credential(mut standing: Standing, text: &str, size: usize) -> bool {
        let octets = text.as_bytes();
        let wanted = octets.iter().position(|octet| *octet == b'<').unwrap();
        for (number, piece) in octets.chunks(size).enumerate() {
            standing.read(piece);
            let from = number * size;
            if (from..from + piece.len()).contains(&wanted) {
                let at = wanted - from;
                return standing.is_credential(piece, 0, (at, at + 1));
            }
            standing.passed(piece);
        }
        unreachable!();
    }

    #[test]
    fn a_member_that_is_called_a_credential_is_told_from_text() {
        for (text, expected) in [
            (r#"{"api_key":"<"}"#, true),
            (r#"{"a":[{"accessToken" : "<", "b":1}]}"#, true),
            (r#"{"headers":{"Authorization":"Bearer <"}}"#, true),
            (r#"{"Password":"<"}"#, true),
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
}
