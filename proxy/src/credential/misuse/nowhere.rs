//! Where nothing belongs: names of hosts, and methods.

use gig_policy::SandboxId;
use http::Method;

use super::Bearer;
use crate::credential::{
    needles::SHORTEST,
    tally::Misuse,
    watch::{Found, Watch},
};

/// What a host's name holds: as it is, in pieces, or in digits of any kind, cut into labels wherever it likes.
#[must_use]
pub fn in_name(watch: &Watch, sandbox: SandboxId, host: &str) -> Option<Misuse> {
    let mut first = First::new(watch, sandbox, HOST_NAME);
    first.look(host)?;
    watch.find_digits(host, |found| first.note(found));
    first.misuse
}

/// How the place is told.
pub const HOST_NAME: &str = "the host's name";

/// What a method holds.
#[must_use]
pub fn in_method(watch: &Watch, sandbox: SandboxId, method: &Method) -> Option<Misuse> {
    if is_ordinary(method.as_str()) {
        return None;
    }
    let mut first = First::new(watch, sandbox, "the method");
    first.look(method.as_str())?;
    first.misuse
}

/// Most methods are, and then there is nothing to look for.
pub(super) fn is_ordinary(method: &str) -> bool {
    method.len() < SHORTEST
}

/// The first that `bearer` must not write.
struct First<'a> {
    watch: &'a Watch,
    bearer: Bearer<'static>,
    place: &'static str,
    misuse: Option<Misuse>,
}

impl<'a> First<'a> {
    const fn new(watch: &'a Watch, sandbox: SandboxId, place: &'static str) -> Self {
        Self {
            watch,
            bearer: Bearer {
                sandbox,
                granted: &[],
            },
            place,
            misuse: None,
        }
    }

    fn note(&mut self, found: &Found) {
        if found.concerns(self.bearer.sandbox) && self.misuse.is_none() {
            self.misuse = Some(self.bearer.misuse(found, self.place));
        }
    }

    /// Whole, escaped or in pieces; `None` where there is nothing to look for.
    fn look(&mut self, text: &str) -> Option<()> {
        let watch = self.watch;
        (!watch.is_empty()).then_some(())?;
        watch.find_escaped(text.as_bytes(), |found| self.note(found));
        watch.find_split(text.as_bytes(), |found| self.note(found));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::tests::{VALUE, watch},
        *,
    };
    use crate::credential::forms::{Form, forms, in_names};

    /// In labels of these lengths, below a name.
    fn in_labels(text: &[u8], lengths: &[usize]) -> String {
        let (mut rest, mut name) = (text, String::from("a."));
        for length in lengths.iter().cycle() {
            let (label, behind) = rest.split_at(rest.len().min(*length));
            name.push_str(&String::from_utf8_lossy(label));
            name.push('.');
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        name + "evil.test"
    }

    fn is_found(name: &str) -> bool {
        in_name(&watch(), SandboxId::new(uuid::Uuid::nil()), name).is_some()
    }

    proptest! {
        #[test]
        fn a_value_in_digits_is_found_in_labels_wherever_they_are_cut(
            lengths in prop::collection::vec(1..40_usize, 1..6),
            before in "[a-z2-7]{0,9}",
            upper: bool,
        ) {
            let digits = forms(VALUE.as_bytes()).into_iter();
            let digits = digits.filter(|(form, _)| matches!(form, Form::Base64 | Form::Hex));
            let digits = digits.map(|(_, octets)| octets).chain(in_names(VALUE.as_bytes()));
            for octets in digits {
                // No name holds these.
                if octets.iter().any(|octet| b"+/".contains(octet)) {
                    continue;
                }
                let text = [before.as_bytes(), &octets].concat();
                let name = in_labels(&text, &lengths);
                let name = if upper { name.to_uppercase() } else { name.to_lowercase() };
                prop_assert!(is_found(&name), "{}", name);
            }
        }
    }

    #[test]
    fn ordinary_names_hold_nothing() {
        for name in ["api.test", "oy2gy5lffvxwmllu.test", "r3.al.test", "."] {
            assert!(!is_found(name), "{name}");
        }
    }
}
