//! Looks at what is decoded of a body, or at a stream, while it passes.

use std::sync::Arc;

use gig_policy::{SandboxId, SecretGrant, SecretName};
use parking_lot::Mutex;

use super::{Bearer, Literal, Matter, Pieces, Standing, Strand};
use crate::credential::{
    rewrite::{Rewrite, RewriteError},
    spelling::Finds,
    tally::{Misuse, Tally},
    watch::{Found, Watch, What},
};

/// Looks at a body while it passes. Nothing is held back: what was seen before is remembered, and the
/// octets that would complete a find are not passed on.
#[derive(Debug)]
pub struct Guard {
    watch: Arc<Watch>,
    sandbox: SandboxId,
    granted: Arc<[SecretGrant]>,
    /// Its own sentinels stay what they are in this body, and why.
    literal: Option<Literal>,
    /// Escapes are not undone.
    as_is: bool,
    place: &'static str,
    tally: Arc<Tally>,
    /// The last octets that passed, from where a find may have begun.
    tail: Vec<u8>,
    /// Octets at the end of these that were not looked at: with them nothing can have been complete.
    fresh: usize,
    /// So many must have come before anything can be.
    needed: usize,
    finds: Finds,
    pub(super) pieces: Pieces,
    standing: Standing,
    /// The messages before it.
    strand: Option<Arc<Mutex<Strand>>>,
    /// What was found whole: that it is there when pieces are put together is no news.
    whole: Vec<(SecretName, What)>,
}

impl Guard {
    /// A guard for one body or direction.
    #[must_use]
    pub fn new(
        watch: &Arc<Watch>,
        bearer: &Bearer<'_>,
        place: &'static str,
        tally: &Arc<Tally>,
    ) -> Self {
        Self {
            watch: Arc::clone(watch),
            sandbox: bearer.sandbox,
            granted: bearer.granted.into(),
            literal: None,
            as_is: false,
            place,
            tally: Arc::clone(tally),
            tail: Vec::new(),
            fresh: 0,
            needed: 0,
            finds: Finds::empty(),
            pieces: Pieces::never(),
            standing: Standing::default(),
            strand: None,
            whole: Vec::new(),
        }
    }

    /// From here on it may carry these.
    pub fn carry(&mut self, granted: &[SecretGrant]) {
        self.granted = granted.into();
    }

    /// Puts pieces together as they stand in this body.
    #[must_use]
    pub fn in_pieces(mut self, pieces: Pieces) -> Self {
        self.pieces = pieces;
        self
    }

    /// Puts pieces together over messages that follow one another: this one is the next behind `strand`.
    #[must_use]
    pub fn behind(mut self, strand: &Arc<Mutex<Strand>>) -> Self {
        strand.lock().begin();
        self.strand = Some(Arc::clone(strand));
        self
    }

    /// Tells places for credentials from other text.
    #[must_use]
    pub(in crate::credential) fn standing(mut self, standing: Standing) -> Self {
        self.standing = standing;
        self
    }

    /// Notes sentinels that could have been swapped elsewhere: nothing is, in this body.
    #[must_use]
    pub const fn literal(mut self, why: Literal) -> Self {
        self.literal = Some(why);
        self
    }

    /// Looks at octets as they are, and undoes no escapes.
    #[must_use]
    pub const fn as_is(mut self) -> Self {
        self.as_is = true;
        self
    }

    /// Looks for what is known now, in what comes and in what was remembered.
    pub fn renew(&mut self, watch: &Arc<Watch>) {
        if !Arc::ptr_eq(&self.watch, watch) {
            self.watch = Arc::clone(watch);
            self.needed = 0;
            self.pieces.renew();
        }
    }

    /// Looks at the next octets, before they pass.
    ///
    /// # Errors
    /// [`RewriteError::Misuse`]: they must not.
    pub fn look(&mut self, octets: &[u8]) -> Result<(), RewriteError> {
        let watch = Arc::clone(&self.watch);
        let mut verdict = Verdict::default();
        if self.as_is {
            self.look_as_is(octets, &watch, &mut verdict);
            return verdict.result;
        }
        if self.fresh + octets.len() < self.needed {
            self.tail.extend_from_slice(octets);
            self.fresh += octets.len();
        } else {
            self.look_whole(octets, &watch, &mut verdict);
        }
        if verdict.result.is_ok() {
            let mut pieces = std::mem::take(&mut self.pieces);
            let credential = self.standing.is_form();
            pieces.look(octets, &watch, |found| {
                if !self.is_whole(found) {
                    verdict.add(self, found, credential);
                }
            });
            self.pieces = pieces;
        }
        if let Some(strand) = &self.strand {
            strand.lock().look(octets, &watch, |found| {
                if !self.is_whole(found) {
                    verdict.add(self, found, false);
                }
            });
        }
        verdict.result
    }

    /// Looks at octets as they are.
    fn look_as_is(&mut self, octets: &[u8], watch: &Watch, verdict: &mut Verdict) {
        let mut piece = std::mem::take(&mut self.tail);
        let joint = piece.len();
        piece.extend_from_slice(octets);
        watch.find(&piece, |found, at| {
            // What ends before was told before.
            if at.end > joint {
                verdict.add(self, found, false);
            }
        });
        drop(piece.drain(..piece.len().saturating_sub(watch.longest())));
        self.tail = piece;
    }

    /// Looks for what is whole with these octets, and those before that were not looked at.
    fn look_whole(&mut self, octets: &[u8], watch: &Watch, verdict: &mut Verdict) {
        let mut piece = std::mem::take(&mut self.tail);
        let joint = piece.len().saturating_sub(std::mem::take(&mut self.fresh));
        let alone = piece.is_empty();
        let mut finds = std::mem::take(&mut self.finds);
        let whole = if alone {
            octets
        } else {
            piece.extend_from_slice(octets);
            piece.as_slice()
        };
        watch.look(whole, &mut finds);
        self.needed = finds.needed();
        let asked = finds.hits.iter().any(|hit| hit.end > joint);
        self.standing
            .read(whole.get(joint..).unwrap_or_default(), asked);
        for hit in finds.hits.iter().filter(|hit| hit.end > joint) {
            if let Some(found) = watch.spelled(hit.text) {
                let place = (hit.start, hit.end);
                let credential = self.standing.is_credential(whole, joint, place, found.form);
                verdict.add(self, found, credential);
                if self.whole.len() < REMEMBERED && !self.is_whole(found) {
                    self.whole.push((found.name.clone(), found.what));
                }
            }
        }
        let open = finds.open_from(0).unwrap_or(whole.len());
        self.standing.passed(whole.get(..open).unwrap_or_default());
        if alone {
            piece.extend_from_slice(octets.get(open..).unwrap_or_default());
        } else {
            drop(piece.drain(..open));
        }
        (self.tail, self.finds) = (piece, finds);
    }

    fn is_whole(&self, found: &Found) -> bool {
        let known = |(name, what): &(SecretName, What)| *name == found.name && *what == found.what;
        self.whole.iter().any(known)
    }
}

impl Rewrite for Guard {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.look(octets)?;
        out.extend_from_slice(octets);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }
}

/// What the finds of one look come to.
struct Verdict {
    result: Result<(), RewriteError>,
}

impl Default for Verdict {
    fn default() -> Self {
        Self { result: Ok(()) }
    }
}

impl Verdict {
    fn add(&mut self, guard: &Guard, found: &Found, credential: bool) {
        let bearer = Bearer {
            sandbox: guard.sandbox,
            granted: &guard.granted,
        };
        let own = matches!(found.what, What::Sentinel(_));
        match bearer.judge(found, credential) {
            Matter::Fine if own && !bearer.may_stand_in_body(found) => {
                let text = bearer.told(found, guard.place);
                let text = format!("{text}, where the policy does not take it");
                if credential {
                    guard.tally.misused(Misuse::of_own(&found.name, text));
                    self.result = Err(RewriteError::Misuse);
                } else {
                    guard.tally.found(text);
                }
            }
            Matter::Fine => match guard.literal.filter(|_| own) {
                Some(why) => {
                    let text = bearer.told(found, guard.place);
                    guard.tally.found(format!("{text}, {}", why.told()));
                }
                None => bearer.tell_held(&guard.tally, found, guard.place),
            },
            Matter::Noted => guard.tally.found(bearer.told(found, guard.place)),
            Matter::Refused => {
                guard.tally.misused(bearer.misuse(found, guard.place));
                self.result = Err(RewriteError::Misuse);
            }
        }
    }
}

/// More than a record tells.
const REMEMBERED: usize = 32;
