//! Everything that must not go astray, in every form, ready to be looked for.
//!
//! One watch serves all sandboxes of a gig: it holds the sentinels of those that live now and the real
//! values that the vault knows. Whom a find concerns is for the asker to say.

use std::{fmt, sync::Arc};

use gig_policy::{SandboxId, SecretName};
use gig_vault::{Guarded, SecretBytes};
use zeroize::Zeroizing;

use super::{
    bare::add_bare,
    forms::{Form, forms, in_names},
    letters::Letters,
    needles::{Needles, Occurrence, SHORTEST},
    spelling::{Finds, Spellings, Text},
    unescape::{escapes, escapes_behind, unescape, unescape_behind},
    writings::{in_json, other_texts},
};

/// What is looked for.
pub struct Watch {
    needles: Needles,
    subjects: Vec<Found>,
    /// The same in every spelling, for what streams by.
    spellings: Spellings,
    spelled_subjects: Vec<usize>,
    /// One of them has a backslash, behind which an escape may stand that has nothing to do with it.
    backslashed: bool,
    /// Letters and digits alone, for what was cut into pieces.
    pieces: Needles,
    piece_subjects: Vec<Found>,
    /// Base32 of them, for names of hosts: what is written so there needs no letter case.
    names: Needles,
    name_subjects: Vec<Found>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Of which secret.
    pub name: SecretName,
    /// A sentinel, or the value itself.
    pub what: What,
    /// How it was written.
    pub form: Form,
}

/// Which of a secret's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The sentinel that this sandbox holds.
    Sentinel(SandboxId),
    /// A real value.
    Value {
        /// Whether it may still be used.
        current: bool,
        /// Of which version.
        version: u64,
    },
    /// A token of a login that this sandbox made. No other can hold it, and what its login's server calls a
    /// token is that server's word: it may be what everybody writes.
    Captured(SandboxId),
}

/// A sentinel that lives now.
#[derive(Debug, Clone)]
pub struct LiveSentinel {
    /// Who holds it.
    pub sandbox: SandboxId,
    /// For which secret.
    pub name: SecretName,
    /// The text.
    pub text: Arc<str>,
}

/// A token, or a piece of one, that a server gave to a sandbox.
#[derive(Debug, Clone)]
pub struct CapturedToken {
    /// Whose login it was.
    pub sandbox: SandboxId,
    /// Under which name it was captured.
    pub name: SecretName,
    /// The octets.
    pub value: Arc<SecretBytes>,
}

impl Found {
    /// Whether it matters what `sandbox` does with it.
    #[must_use]
    pub fn concerns(&self, sandbox: SandboxId) -> bool {
        !matches!(self.what, What::Captured(owner) if owner != sandbox)
    }
}

impl Watch {
    /// Prepares the search for all of these.
    #[must_use]
    pub fn new<'a>(
        sentinels: impl IntoIterator<Item = &'a LiveSentinel>,
        guarded: &Guarded,
    ) -> Self {
        Self::with_tokens(sentinels, guarded, &[])
    }

    /// The same for tokens that were captured, too.
    #[must_use]
    pub fn with_tokens<'a>(
        sentinels: impl IntoIterator<Item = &'a LiveSentinel>,
        guarded: &Guarded,
        tokens: &[CapturedToken],
    ) -> Self {
        let sentinels = sentinels.into_iter().map(|live| {
            let what = What::Sentinel(live.sandbox);
            (live.text.as_bytes(), live.name.clone(), what)
        });
        let values = guarded.values.iter().map(|value| {
            let what = What::Value {
                current: value.current,
                version: value.version,
            };
            (value.value.expose(), value.name.clone(), what)
        });
        let tokens = tokens.iter().map(|token| {
            let what = What::Captured(token.sandbox);
            (token.value.expose(), token.name.clone(), what)
        });
        let mut all = Gathered::default();
        for (text, name, what) in sentinels.chain(values).chain(tokens) {
            if text.len() >= SHORTEST {
                all.add(text, (name, what));
            }
        }
        let Gathered {
            whole: Row(texts, subjects),
            pieces: Row(pieces, piece_subjects),
            names: Row(names, name_subjects),
        } = all;
        let mut spelled = Vec::new();
        let mut spelled_subjects = Vec::new();
        for (subject, octets) in texts.iter().enumerate() {
            let text = Text::new(octets, true, None);
            if text.octets().len() >= SHORTEST {
                spelled.push(text);
                spelled_subjects.push(subject);
            }
        }
        Self {
            backslashed: texts.iter().any(|text| text.contains(&b'\\')),
            needles: Needles::of_values(&texts),
            subjects,
            spellings: Spellings::new(spelled),
            spelled_subjects,
            pieces: Needles::of_values(&pieces),
            piece_subjects,
            names: Needles::of_values(&names),
            name_subjects,
        }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// Tells what stands in `octets`, as they are.
    pub fn find<'a>(&'a self, octets: &[u8], mut tell: impl FnMut(&'a Found, Occurrence)) {
        self.needles.find_each(octets, |occurrence| {
            if let Some(found) = self.subjects.get(occurrence.needle) {
                tell(found, occurrence);
            }
        });
    }

    /// Finds what stands in a piece in any spelling.
    pub(super) fn look(&self, piece: &[u8], finds: &mut Finds) {
        self.spellings.look(piece, false, finds);
    }

    /// What a text stands for that was found in some spelling.
    pub(super) fn spelled(&self, text: usize) -> Option<&Found> {
        self.subjects.get(*self.spelled_subjects.get(text)?)
    }

    /// Octets of the longest text.
    pub(super) const fn longest(&self) -> usize {
        self.needles.longest()
    }

    /// Letters and digits of the longest text that is looked for in pieces.
    pub(super) const fn longest_piece(&self) -> usize {
        self.pieces.longest()
    }

    /// Tells what stands in a whole text, as it is and with its escapes undone.
    pub fn find_escaped<'a>(&'a self, octets: &[u8], mut tell: impl FnMut(&'a Found)) {
        self.find(octets, |found, _| tell(found));
        if escapes(octets) {
            let mut view = Vec::with_capacity(octets.len());
            unescape(octets, &mut view);
            self.find(&view, |found, _| tell(found));
            if self.backslashed || escapes_behind(octets) {
                view.clear();
                unescape_behind(octets, &mut view);
                self.find(&view, |found, _| tell(found));
            }
        }
    }

    /// Tells what a host's name holds whose digits go on from label to label: Base32, Base64, hexadecimal. What
    /// stands there as it is, whole or in pieces, is not told.
    pub fn find_digits<'a>(&'a self, name: &str, mut tell: impl FnMut(&'a Found)) {
        let digits: Vec<u8> = name.bytes().filter(|octet| *octet != b'.').collect();
        self.find(&digits, |found, _| {
            if matches!(found.form, Form::Base64 | Form::Hex) {
                tell(found);
            }
        });
        self.names.find_each(&digits, |occurrence| {
            if let Some(found) = self.name_subjects.get(occurrence.needle) {
                tell(found);
            }
        });
    }

    /// Tells what `octets` hold when all but letters and digits is left out.
    pub fn find_split<'a>(&'a self, octets: &[u8], tell: impl FnMut(&'a Found)) {
        let (mut view, mut bare) = (Vec::new(), Letters::default());
        add_bare(octets, &mut view, &mut bare);
        self.find_bare(bare.as_slice(), tell);
    }

    /// The same of what begins in `before` or behind it, and ends behind it.
    pub(super) fn find_split_behind<'a>(
        &'a self,
        before: &[u8],
        octets: &[u8],
        mut tell: impl FnMut(&'a Found),
    ) {
        let (mut view, mut bare) = (Vec::new(), Letters::default());
        add_bare(before, &mut view, &mut bare);
        let joint = bare.len();
        add_bare(octets, &mut view, &mut bare);
        self.pieces.find_each(bare.as_slice(), |occurrence| {
            if occurrence.end > joint
                && let Some(found) = self.piece_subjects.get(occurrence.needle)
            {
                tell(found);
            }
        });
    }

    /// Of what is left when all but letters and digits is left out, what a text in pieces may begin in.
    pub(super) fn last_bare(&self, octets: &[u8]) -> Vec<u8> {
        let (mut view, mut bare) = (Vec::new(), Letters::default());
        add_bare(octets, &mut view, &mut bare);
        let letters = bare.as_slice();
        let from = letters.len().saturating_sub(self.longest_piece());
        letters.get(from..).unwrap_or_default().to_vec()
    }

    /// Tells what stands in letters and digits that were put together.
    pub(super) fn find_bare<'a>(&'a self, bare: &[u8], mut tell: impl FnMut(&'a Found)) {
        self.pieces.find_each(bare, |occurrence| {
            if let Some(found) = self.piece_subjects.get(occurrence.needle) {
                tell(found);
            }
        });
    }

    /// The same of what begins before `joint` and ends behind it.
    pub(super) fn find_bare_across<'a>(
        &'a self,
        bare: &[u8],
        joint: usize,
        mut tell: impl FnMut(&'a Found),
    ) {
        self.pieces.find_each(bare, |occurrence| {
            if occurrence.start < joint
                && occurrence.end > joint
                && let Some(found) = self.piece_subjects.get(occurrence.needle)
            {
                tell(found);
            }
        });
    }
}

/// Texts to look for, and what each stands for.
#[derive(Default)]
struct Row(Vec<Zeroizing<Vec<u8>>>, Vec<Found>);

/// All of them.
#[derive(Default)]
struct Gathered {
    whole: Row,
    pieces: Row,
    names: Row,
}

impl Row {
    fn push(&mut self, octets: Zeroizing<Vec<u8>>, (name, what): &(SecretName, What), form: Form) {
        self.0.push(octets);
        self.1.push(Found {
            name: name.clone(),
            what: *what,
            form,
        });
    }
}

impl Gathered {
    fn add(&mut self, text: &[u8], (name, what): (SecretName, What)) {
        let of = (name, what);
        self.add_forms(text, &of);
        other_texts(text).for_each(|other| self.add_forms(&other, &of));
        for (form, octets) in in_json(text).iter().flat_map(|json| forms(json)) {
            if matches!(form, Form::Base64 | Form::Hex) {
                self.whole.push(octets, &of, form);
            }
        }
        // A sentinel is worth nothing, in whatever digits.
        let digits = !matches!(what, What::Sentinel(_));
        for octets in in_names(text).into_iter().filter(|_| digits) {
            self.names.push(octets, &of, Form::Base32);
        }
        let mut bare = Zeroizing::new(Vec::with_capacity(text.len()));
        squeeze(text, &mut bare);
        if bare.len() < SHORTEST_SPLIT || !is_varied(&bare) {
            return;
        }
        self.pieces.push(bare, &of, Form::Split);
        // Digits with marks between them, as fingerprints and dumps have them.
        let hex = forms(text).into_iter().find(|(form, _)| *form == Form::Hex);
        let whole = |(_, octets): &(Form, Zeroizing<Vec<u8>>)| octets.len() == 2 * text.len();
        if let Some((form, octets)) = hex.filter(whole).filter(|_| digits) {
            self.pieces.push(octets, &of, form);
        }
    }

    /// A text as it travels.
    fn add_forms(&mut self, text: &[u8], of: &(SecretName, What)) {
        // Room for all of it: what grows would leave copies that are not wiped.
        let mut seen = Zeroizing::new(Vec::with_capacity(text.len()));
        unescape(text, &mut seen);
        if *seen != text && seen.len() >= SHORTEST {
            // What looks escaped itself is found in the view that undoes it, too.
            self.whole.push(seen, of, Form::Plain);
        }
        for (form, octets) in forms(text) {
            self.whole.push(octets, of, form);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({} texts)", self.subjects.len())
    }
}

/// Letters and digits of `octets`.
fn squeeze(octets: &[u8], bare: &mut Vec<u8>) {
    bare.extend(octets.iter().filter(|octet| octet.is_ascii_alphanumeric()));
}

/// Whether it has enough different letters: `[0,0,0]` is no nil UUID in pieces.
fn is_varied(bare: &[u8]) -> bool {
    let mut seen = [false; 256];
    for octet in bare {
        if let Some(seen) = seen.get_mut(usize::from(octet.to_ascii_lowercase())) {
            *seen = true;
        }
    }
    seen.into_iter().filter(|seen| *seen).count() >= VARIED
}

/// Different letters and digits of what is looked for in pieces.
const VARIED: usize = 5;
/// Shorter pieces put together are in ordinary text by chance.
const SHORTEST_SPLIT: usize = 16;
