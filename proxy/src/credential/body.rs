//! What happens to a body: by its type, which escape a value takes; by its coding, whether it can be
//! looked into.

use std::{fmt, sync::Arc};

use gig_policy::{SandboxId, SecretGrant};
use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

use super::{
    inject::{Stopped, place_trailers},
    misuse::{Bearer, Guard},
    place::{Escape, Replacement},
    rewrite::Rewrite,
    swap::{Swap, Swappable},
    tally::Tally,
    watch::Watch,
};

/// What happens to one body.
#[derive(Clone)]
pub struct BodyPlan {
    watch: Arc<Watch>,
    sandbox: SandboxId,
    granted: Arc<[SecretGrant]>,
    swappable: Vec<Swappable>,
    kind: Kind,
    coded: bool,
    tally: Arc<Tally>,
}

/// A body's type, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    word: &'static str,
    /// `None`: a value in it would break it, or it is not text.
    escape: Option<Escape>,
    /// A place for credentials, where a sentinel that goes astray is refused.
    credential: bool,
}

/// What a body passes through.
pub struct Passes {
    /// Looks at what the program sent.
    pub guard: Option<Guard>,
    /// Changes it.
    pub rewrite: Option<Box<dyn Rewrite>>,
}

impl BodyPlan {
    /// For the body that `headers` announce.
    #[must_use]
    pub fn new(
        headers: &HeaderMap,
        (watch, bearer): (&Arc<Watch>, &Bearer<'_>),
        swappable: Vec<Swappable>,
        tally: &Arc<Tally>,
    ) -> Self {
        let coded = headers
            .get(CONTENT_ENCODING)
            .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        Self {
            watch: Arc::clone(watch),
            sandbox: bearer.sandbox,
            granted: bearer.granted.into(),
            swappable,
            kind: kind(headers),
            coded,
            tally: Arc::clone(tally),
        }
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

    /// What the request did with secrets.
    #[must_use]
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Whether the body may come out with another length.
    #[must_use]
    pub const fn may_change(&self) -> bool {
        !self.swappable.is_empty() && self.kind.escape.is_some() && !self.coded
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
            };
        }
        let place = (self.kind.word, self.kind.credential);
        let mut guard = Guard::new(&self.watch, &self.bearer(), place, &self.tally);
        let rewrite: Option<Box<dyn Rewrite>> = match self.kind.escape {
            Some(escape) if self.may_change() => Some(Box::new(Swap::new(
                self.swappable.clone(),
                escape,
                &self.tally,
            ))),
            _ => {
                guard = guard.literal();
                None
            }
        };
        Passes {
            guard: Some(guard),
            rewrite,
        }
    }

    /// Places values in the body's trailers.
    ///
    /// # Errors
    /// [`Stopped`]: they may not go.
    pub fn place_in(&self, trailers: &mut HeaderMap) -> Result<(), Stopped> {
        let ready = |swappable: &Swappable| match swappable {
            Swappable::Ready(replacement) => Some(replacement.clone()),
            Swappable::Unavailable(_) => None,
        };
        let mut ready: Vec<Replacement> = self.swappable.iter().filter_map(ready).collect();
        while let Some(first) = ready.first() {
            let name = first.secret.name.clone();
            let (of_one, rest) = ready.into_iter().partition(|r| r.secret.name == name);
            place_trailers(of_one, trailers, &self.tally)?;
            ready = rest;
        }
        Ok(())
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

/// By `Content-Type`; a body without one is taken for text.
fn kind(headers: &HeaderMap) -> Kind {
    let of = |word, escape| Kind {
        word,
        escape,
        credential: false,
    };
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return of("body", Some(Escape::Raw));
    };
    let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    let media = text.split(';').next().unwrap_or_default().trim();
    let (main, sub) = media.split_once('/').unwrap_or((media, ""));
    match (main, sub) {
        ("application", "x-www-form-urlencoded") => Kind {
            word: "form body",
            escape: Some(Escape::Percent),
            credential: true,
        },
        (_, sub) if sub == "json" || sub.ends_with("+json") || JSON.contains(&sub) => {
            of("JSON body", Some(Escape::Json))
        }
        ("text", "html") => of("HTML body", Some(Escape::Markup)),
        (_, sub) if sub == "xml" || sub.ends_with("+xml") => of("XML body", Some(Escape::Markup)),
        ("multipart", _) => of("multipart body", Some(Escape::Raw)),
        ("text", _) => of("text body", Some(Escape::Raw)),
        ("application", sub) if TEXT.contains(&sub) => of("text body", Some(Escape::Raw)),
        _ => of("binary body", None),
    }
}

/// JSON under other names.
const JSON: [&str; 5] = ["x-ndjson", "ndjson", "jsonl", "x-json", "json-seq"];
/// Text that does not say so.
const TEXT: [&str; 7] = [
    "graphql",
    "javascript",
    "x-javascript",
    "yaml",
    "x-yaml",
    "toml",
    "sql",
];
