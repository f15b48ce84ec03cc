//! What happens to a body: by its type, which escape a value takes; by its coding, whether it can be
//! looked into. A coded body into which a value may go is sent on plain; one that is only looked at goes
//! on as it is.

use std::{fmt, sync::Arc};

use gig_policy::{SandboxId, SecretGrant, SecretName};
use gig_vault::{Secret, SecretUnavailable};
use http::{HeaderMap, header::CONTENT_TYPE};

use self::{aside::Aside, boundary::boundary, unreadable::Unreadable};
use super::{
    coding::{Coded, Coding, Undone, coded, is_chunked_within},
    inject::{Stopped, trailers::place_trailers},
    media::{TEXT, is_doubted, is_json, is_xml, media},
    memory::Memory,
    misuse::{Bearer, Guard, Literal, Pieces, Standing},
    place::{Escape, Replacement},
    rewrite::{Rewrite, RewriteError},
    room::{Lengths, is_part_of_more},
    scrub::grpc::{Compressed, compressed, is_enveloped},
    swap::{Swap, Swappable},
    tally::Tally,
    watch::Watch,
};

mod aside;
mod boundary;
mod unreadable;

/// What happens to one body.
#[derive(Clone)]
pub struct BodyPlan {
    watch: Arc<Watch>,
    sandbox: SandboxId,
    granted: Arc<[SecretGrant]>,
    swappable: Vec<Swappable>,
    /// What may stand in its trailers beside these.
    trailing: Trailing,
    kind: Kind,
    /// Of a multipart body: what stands between its parts.
    boundary: Option<Arc<[u8]>>,
    coded: Coded,
    /// It is said to be of several types.
    doubted: bool,
    /// Messages that say their own length, where such may be compressed by this.
    messages: Option<Coding>,
    tally: Arc<Tally>,
    memory: Arc<Memory>,
}

/// Secrets that may stand in trailers and in no body, and any that cannot be had; and what came before.
#[derive(Debug, Clone, Default)]
pub struct Trailing {
    /// Their sentinels with their values.
    pub(super) swappable: Vec<Swappable>,
    /// A trailer section that holds their sentinels is stopped.
    pub(super) lost: Vec<SecretName>,
    /// The values of the header section: a trailer section may go on with a piece of one.
    pub(super) before: Arc<[u8]>,
}

/// A body's type, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    word: &'static str,
    /// `None`: a value in it would break it, or it is not text.
    escape: Option<Escape>,
    /// It does not say what it is, or what clients say of anything: where it begins like JSON, a value is
    /// written as in JSON.
    untold: bool,
    /// Its parts are fields of a form, or files.
    fields: bool,
    /// Another length would break it: it has chunks of its own.
    fixed: bool,
    /// What it says of lengths.
    lengths: Lengths,
}

/// What a body passes through.
pub struct Passes {
    /// Looks at what the program sent.
    pub guard: Option<Guard>,
    /// Changes it.
    pub rewrite: Option<Box<dyn Rewrite>>,
    /// Looks at a coded body that goes on as it is; what comes out of it goes nowhere.
    pub aside: Option<Box<dyn Rewrite>>,
}

/// What is decoded of a body: looked at, then changed.
#[derive(Debug)]
pub struct Guarded {
    guard: Guard,
    swap: Option<Swap>,
}

impl Rewrite for Guarded {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.guard.look(octets)?;
        match &mut self.swap {
            Some(swap) => swap.push(octets, out),
            None => Ok(()),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.swap.as_mut().map_or(Ok(()), |swap| swap.finish(out))
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.swap.as_mut().map_or(Ok(()), |swap| swap.release(out))
    }

    fn held(&self) -> usize {
        self.swap.as_ref().map_or(0, Rewrite::held)
    }
}

impl BodyPlan {
    /// For the body that `headers` announce.
    #[must_use]
    pub fn new(
        headers: &HeaderMap,
        (watch, bearer): (&Arc<Watch>, &Bearer<'_>),
        (swappable, trailing): (Vec<Swappable>, Trailing),
        (tally, memory): (&Arc<Tally>, &Arc<Memory>),
    ) -> Self {
        Self {
            watch: Arc::clone(watch),
            sandbox: bearer.sandbox,
            granted: bearer.granted.into(),
            swappable,
            trailing,
            kind: kind(headers),
            boundary: boundary(headers),
            coded: coded(headers),
            doubted: is_doubted(headers),
            messages: messages(headers),
            tally: Arc::clone(tally),
            memory: Arc::clone(memory),
        }
    }

    /// The same for what may be carried now.
    #[must_use]
    pub fn renewed(
        &self,
        watch: &Arc<Watch>,
        granted: &[SecretGrant],
        swappable: Vec<Swappable>,
    ) -> Self {
        Self {
            watch: Arc::clone(watch),
            granted: granted.into(),
            swappable,
            ..self.clone()
        }
    }

    /// The same for a WebSocket's binary messages.
    #[must_use]
    pub fn of_binary(&self) -> Self {
        let mut plan = self.clone();
        plan.kind.lengths = Lengths::TextAlone;
        plan
    }

    /// What is looked for.
    #[must_use]
    pub const fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Whose request it is.
    #[must_use]
    pub fn bearer(&self) -> Bearer<'_> {
        Bearer {
            sandbox: self.sandbox,
            granted: &self.granted,
        }
    }

    /// What its parts are counted in.
    #[must_use]
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// What the request did with secrets.
    #[must_use]
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Whether the body may come out with another length.
    #[must_use]
    pub fn may_change(&self) -> bool {
        let readable = !matches!(self.coded, Coded::Unknown | Coded::TooMany);
        // Without its coding it would have another length.
        let told = self.kind.lengths == Lengths::Told && self.coded != Coded::Plain;
        let free = self.kind.escape.is_some() && !self.kind.fixed && !told;
        !self.swappable.is_empty() && free && readable
    }

    /// Whether a value may go into the body or its trailers.
    #[must_use]
    pub const fn may_place(&self) -> bool {
        !self.swappable.is_empty() || !self.trailing.swappable.is_empty()
    }

    /// The secrets that may go into it and that a keeper has.
    pub(super) fn kept(&self) -> Vec<Arc<Secret>> {
        let kept = self
            .swappable
            .iter()
            .filter_map(|swappable| match swappable {
                Swappable::Ready(one) if one.keeper.is_some() => Some(Arc::clone(&one.secret)),
                Swappable::Ready(_) | Swappable::Unavailable(_) => None,
            });
        kept.collect()
    }

    /// Whether it goes on without its content coding.
    #[must_use]
    pub fn undoes_coding(&self) -> bool {
        self.may_change() && self.coded != Coded::Plain
    }

    /// Whether anything is done with the body at all.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.watch.is_empty()
    }

    /// What it passes through.
    #[must_use]
    pub fn passes(&self) -> Passes {
        if self.is_idle() {
            return Passes {
                guard: None,
                rewrite: None,
                aside: None,
            };
        }
        let layers = (self.coded == Coded::TooMany).then_some(RewriteError::Layers);
        if let Some(why) = layers.or_else(|| self.doubted.then_some(RewriteError::Types)) {
            return Passes {
                guard: None,
                rewrite: Some(Box::new(Unreadable::new(why))),
                aside: None,
            };
        }
        if self.coded == Coded::Unknown {
            // Nobody here can say what it holds: it is looked at as it is, and whoever reads the record knows.
            self.tally.found(UNDONE.to_owned());
        }
        let mut guard = self.guard();
        let escape = self.kind.escape.filter(|_| self.may_change());
        let Some(escape) = escape else {
            let why = self.literal();
            guard = guard.literal(why);
            // What cannot be decoded is not looked into: a sentinel in it means nothing where it goes.
            let aside = match &self.coded {
                Coded::Known(codings) => {
                    let guard = self.guard().literal(why);
                    Some(self.undone(codings, Guarded { guard, swap: None }))
                }
                Coded::Plain => self.messages.map(|coding| -> Box<dyn Rewrite> {
                    let guard = self.guard().literal(why);
                    let looks = Guarded { guard, swap: None };
                    let memory = Arc::clone(&self.memory);
                    Box::new(Aside::new(looks, coding, memory))
                }),
                Coded::Unknown | Coded::TooMany => None,
            };
            // A coding has room for other text as well: names, comments, and what follows its end.
            if aside.is_some() {
                guard = guard.in_pieces(Pieces::never());
            }
            return Passes {
                guard: Some(guard),
                rewrite: None,
                aside,
            };
        };
        let swap = match self.kind.untold {
            true => Swap::untold(self.swappable.clone(), escape, &self.tally),
            false => Swap::new(self.swappable.clone(), escape, &self.tally),
        };
        let swap = swap.in_room(self.kind.lengths);
        let swap = match &self.boundary {
            Some(boundary) => swap.in_parts(boundary),
            None => swap,
        };
        match &self.coded {
            Coded::Known(codings) => {
                let swap = Some(swap);
                Passes {
                    guard: None,
                    rewrite: Some(self.undone(codings, Guarded { guard, swap })),
                    aside: None,
                }
            }
            Coded::Plain | Coded::Unknown | Coded::TooMany => Passes {
                guard: Some(guard),
                rewrite: Some(Box::new(swap)),
                aside: None,
            },
        }
    }

    /// Why no value goes into it.
    const fn literal(&self) -> Literal {
        match (self.kind.fixed, self.kind.escape) {
            (true, _) => Literal::AwsChunks,
            (false, None) => Literal::NoText,
            (false, Some(_)) => Literal::Bound,
        }
    }

    /// Looks at it while it passes.
    fn guard(&self) -> Guard {
        let pieces = match (self.kind.escape, &self.boundary) {
            (_, Some(boundary)) => Pieces::multipart(boundary),
            (Some(Escape::Percent), _) => Pieces::form_or_json(),
            _ if self.kind.untold => Pieces::untold(),
            (Some(Escape::Json), _) => Pieces::json(),
            _ => Pieces::never(),
        };
        let standing = match &self.boundary {
            Some(boundary) if self.kind.fields => Standing::parts(boundary),
            None if self.kind.escape == Some(Escape::Percent) => Standing::form_or_members(),
            None if self.kind.untold => Standing::untold(),
            None if self.kind.escape == Some(Escape::Json) => Standing::members(),
            _ => Standing::default(),
        };
        let guard = Guard::new(&self.watch, &self.bearer(), self.kind.word, &self.tally);
        guard.in_pieces(pieces).standing(standing)
    }

    /// What is decoded passes through `guarded`.
    fn undone(&self, codings: &[Coding], guarded: Guarded) -> Box<dyn Rewrite> {
        match Undone::new(codings, &self.memory, guarded) {
            Ok(undone) => Box::new(undone),
            Err(none) => Box::new(Unreadable::new(none.into())),
        }
    }

    /// The values of the header section that the body belongs to.
    pub(super) const fn before(&self) -> &Arc<[u8]> {
        &self.trailing.before
    }

    /// Places the values of one secret in the body's trailers.
    ///
    /// # Errors
    /// [`Stopped`]: they may not go.
    pub fn place_in(&self, name: &SecretName, trailers: &mut HeaderMap) -> Result<(), Stopped> {
        if self.trailing.lost.contains(name) {
            let name = name.clone();
            return Err(Stopped::Unavailable(SecretUnavailable::Ended { name }));
        }
        let ready = |swappable: &Swappable| match swappable {
            Swappable::Ready(replacement) => Some(replacement.clone()),
            Swappable::Unavailable(_) => None,
        };
        let all = self.swappable.iter().chain(&self.trailing.swappable);
        let ready = all.filter_map(ready).filter(|r| r.secret.name == *name);
        let mut newest = Vec::new();
        for replacement in ready {
            let Some(secret) = replacement.newest() else {
                let name = name.clone();
                return Err(Stopped::Unavailable(SecretUnavailable::Ended { name }));
            };
            newest.push(Replacement {
                secret,
                ..replacement
            });
        }
        place_trailers(newest, trailers, &self.tally)
    }
}

impl fmt::Debug for BodyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "BodyPlan({}, {} swappable)",
            self.kind.word,
            self.swappable.len()
        )
    }
}

impl fmt::Debug for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passes")
            .field("guarded", &self.guard.is_some())
            .field("rewritten", &self.rewrite.is_some())
            .finish()
    }
}

/// By `Content-Type`; a body without one is taken for text, or for JSON where it begins like it. So are
/// the messages of a WebSocket.
fn kind(headers: &HeaderMap) -> Kind {
    let kind = of_media(headers);
    if kind.escape.is_none() || !is_enveloped(headers) {
        return kind;
    }
    match compressed(headers) {
        // Each message says its length, whatever is in it.
        Compressed::Not => Kind {
            lengths: Lengths::Told,
            ..kind
        },
        // Of a codec that is text: it is looked into, and goes on as it is.
        Compressed::By(_) | Compressed::Strangely => Kind {
            escape: None,
            ..kind
        },
    }
}

fn of_media(headers: &HeaderMap) -> Kind {
    let of = |word, escape| Kind {
        word,
        escape,
        untold: false,
        fields: false,
        // Whoever says so of anything else is looked at as closely.
        fixed: is_chunked_within(headers),
        lengths: match is_part_of_more(headers) {
            true => Lengths::Told,
            false => Lengths::Free,
        },
    };
    if !headers.contains_key(CONTENT_TYPE) {
        return Kind {
            untold: true,
            ..of("body", Some(Escape::Raw))
        };
    }
    let media = media(headers);
    let (main, sub) = media.split_once('/').unwrap_or((&media, ""));
    match (main, sub) {
        ("application", "x-www-form-urlencoded") => Kind {
            // curl says so of whatever it is given.
            untold: true,
            ..of("form body", Some(Escape::Percent))
        },
        (_, sub) if is_json(sub) => of("JSON body", Some(Escape::Json)),
        ("text", "html") => of("HTML body", Some(Escape::Markup)),
        (_, sub) if is_xml(sub) => of("XML body", Some(Escape::Markup)),
        ("multipart", "form-data") => Kind {
            fields: true,
            ..of("multipart body", Some(Escape::Raw))
        },
        ("multipart", _) => of("multipart body", Some(Escape::Raw)),
        // A string in GraphQL has the escapes of one in JSON.
        ("application", "graphql") => of("text body", Some(Escape::Json)),
        // A browser's `fetch` says so of a string.
        ("text", "plain") => Kind {
            untold: true,
            ..of("text body", Some(Escape::Raw))
        },
        ("text", _) => of("text body", Some(Escape::Raw)),
        ("application", sub) if TEXT.contains(&sub) => of("text body", Some(Escape::Raw)),
        _ => of("binary body", None),
    }
}

/// How its messages may be compressed, where it is one of gRPC's kind and that is known here.
fn messages(headers: &HeaderMap) -> Option<Coding> {
    match is_enveloped(headers).then(|| compressed(headers))? {
        Compressed::By(coding) => Some(coding),
        Compressed::Not | Compressed::Strangely => None,
    }
}

/// What the record says of a body that is not looked into.
const UNDONE: &str =
    "the body is in an unknown content coding and was not undone: secrets in it are not seen";
#[cfg(test)]
mod tests;
