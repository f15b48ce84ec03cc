//! What stands around a sentinel in a body: strings within strings, tags, quotation marks.
//!
//! A value with marks, backslashes or line ends is written so that it ends none of what it stands in. Where that cannot
//! be told, or no way of writing it keeps it what it is, it is not placed. Nothing is followed where no value needs it.

use super::{
    comments::{self, Comments},
    markup::{self, Markup},
    nested::{self, Nested},
    parts::{Holds, Parts, Spot},
    place::Escape,
    quoted::{self, Quoted},
};

/// Follows one body.
#[derive(Debug)]
pub(super) struct Around {
    care: Care,
    place: Place,
}

/// What of it is followed.
#[derive(Debug)]
enum Place {
    Json(Nested),
    Markup(Markup),
    Comments(Comments),
    Text(Quoted),
    /// No value needs it.
    Any,
}

/// For what some value has to be written with care.
#[derive(Debug, Clone, Copy, Default)]
struct Care {
    json: bool,
    markup: InMarkup,
    text: bool,
}

/// Where in a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum InMarkup {
    #[default]
    Nowhere,
    Comments,
    Anywhere,
}

impl InMarkup {
    fn of(value: &[u8]) -> Self {
        match () {
            () if markup::has_marks(value) => Self::Anywhere,
            () if comments::needs_care(value) => Self::Comments,
            () => Self::Nowhere,
        }
    }
}

/// Why a value is not placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unplaced {
    #[error("what may be JSON in a text")]
    Unclear,
    #[error("where it could end what it stands in")]
    Ends,
}

impl Care {
    fn and(self, value: &[u8]) -> Self {
        Self {
            json: self.json || nested::needs_care(value),
            markup: self.markup.max(InMarkup::of(value)),
            text: self.text || quoted::needs_care(value),
        }
    }

    /// What is followed in what `escape` is for.
    fn place(self, escape: Escape) -> Place {
        match escape {
            Escape::Json if self.json => Place::Json(Nested::of_json()),
            Escape::Percent if self.json => Place::Json(Nested::of_form()),
            Escape::Markup if self.markup == InMarkup::Anywhere => Place::Markup(Markup::new()),
            Escape::Markup if self.markup == InMarkup::Comments => Place::Comments(Comments::new()),
            Escape::Raw if self.text => Place::Text(Quoted::CLOSED),
            _ => Place::Any,
        }
    }
}

impl Around {
    /// For a body where these values are written as `escape` says; `None` where none of them needs it.
    pub(super) fn of<'a>(escape: Escape, values: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let around = Self::in_parts(escape, values)?;
        (!matches!(around.place, Place::Any)).then_some(around)
    }

    /// The same for a body whose parts may be of any kind.
    pub(super) fn in_parts<'a>(
        escape: Escape,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let care = values.fold(Care::default(), Care::and);
        let any = care.json || care.text || care.markup > InMarkup::Nowhere;
        any.then(|| Self {
            care,
            place: care.place(escape),
        })
    }

    /// Whether `followed`, which may be nothing, is what this value needs, too, where it is written as `escape` says,
    /// or in parts of any kind.
    pub(super) fn is_enough(followed: Option<&Self>, escape: Option<Escape>, value: &[u8]) -> bool {
        let has = followed.map(|around| around.care).unwrap_or_default();
        let needs = Care::default().and(value);
        let json = !needs.json || has.json;
        let markup = needs.markup <= has.markup;
        let text = !needs.text || has.text;
        match escape {
            Some(Escape::Json | Escape::Percent) => json,
            Some(Escape::Markup) => markup,
            Some(Escape::Raw) => text,
            None => json && markup && text,
        }
    }

    /// Takes the next octets.
    pub(super) fn read(&mut self, octets: &[u8]) {
        match &mut self.place {
            Place::Json(nested) => nested.read(octets),
            Place::Markup(markup) => markup.read(octets),
            Place::Comments(comments) => comments.read(octets),
            Place::Text(quoted) => quoted.read(octets),
            Place::Any => {}
        }
    }

    /// The same in parts that were read as far as that; `octets` end at `end` of what was read last.
    pub(super) fn read_part(&mut self, parts: &Parts, octets: &[u8], end: usize) {
        let begin = end.saturating_sub(octets.len());
        let Some((turn, spot)) = parts.last_turn(begin, end) else {
            return self.read(octets);
        };
        // What is over does not matter any more.
        self.place = self.care.place(in_part(spot, Escape::Raw));
        let from = octets.len().saturating_sub(end.saturating_sub(turn));
        self.read(octets.get(from..).unwrap_or_default());
    }

    /// Appends `value` as it is written here in what `escape` is for.
    ///
    /// # Errors
    /// [`Unplaced`]: nothing was appended.
    pub(super) fn write(
        &self,
        escape: Escape,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Unplaced> {
        match &self.place {
            Place::Json(nested) if nested::needs_care(value) => {
                let depth = nested.depth().ok_or(Unplaced::Unclear)?;
                nested::write(escape, depth, value, out);
            }
            Place::Markup(markup) => markup.write(value, out).map_err(|_| Unplaced::Ends)?,
            Place::Comments(comments) if comments.is_open() && comments::needs_care(value) => {
                return Err(Unplaced::Ends);
            }
            Place::Text(quoted) if quoted.is_open() && quoted::needs_care(value) => {
                return Err(Unplaced::Ends);
            }
            Place::Json(_) | Place::Comments(_) | Place::Text(_) | Place::Any => {
                escape.write(value, out);
            }
        }
        Ok(())
    }
}

/// How a value is written in a part; where that says nothing, as `otherwise` has it.
pub(super) const fn in_part(spot: Spot, otherwise: Escape) -> Escape {
    match spot.holds {
        Holds::Json => Escape::Json,
        Holds::Markup => Escape::Markup,
        Holds::Form => Escape::Percent,
        Holds::Text | Holds::Binary => otherwise,
    }
}
