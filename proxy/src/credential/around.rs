//! What stands around a sentinel in a body: strings within strings, tags, quotation marks.
//!
//! A value with marks, backslashes or line ends is written so that it ends none of what it stands in. Where that cannot
//! be told, or no way of writing it keeps it what it is, it is not placed. Nothing is followed where no value needs it.

use super::{
    markup::{self, Markup},
    nested::{self, Nested},
    parts::{Holds, Parts, Spot},
    place::Escape,
    quoted::{self, Quoted},
};

/// Follows one body.
#[derive(Debug)]
pub(super) enum Around {
    Json(Nested),
    Markup(Markup),
    Text(Quoted),
}

/// Why a value is not placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unplaced {
    #[error("what may be JSON in a text")]
    Unclear,
    #[error("where it could end what it stands in")]
    Ends,
}

impl Around {
    /// For a body whose values are written as `escape` says.
    pub(super) fn of(escape: Escape) -> Self {
        match escape {
            Escape::Json => Self::Json(Nested::of_json()),
            Escape::Percent => Self::Json(Nested::of_form()),
            Escape::Markup => Self::Markup(Markup::new()),
            Escape::Raw => Self::Text(Quoted::CLOSED),
        }
    }

    /// Takes the next octets.
    pub(super) fn read(&mut self, octets: &[u8]) {
        match self {
            Self::Json(nested) => nested.read(octets),
            Self::Markup(markup) => markup.read(octets),
            Self::Text(quoted) => quoted.read(octets),
        }
    }

    /// The same in parts that were read as far as that; `octets` end at `end` of what was read last.
    pub(super) fn read_part(&mut self, parts: &Parts, octets: &[u8], end: usize) {
        let begin = end.saturating_sub(octets.len());
        let Some((turn, spot)) = parts.last_turn(begin, end) else {
            return self.read(octets);
        };
        // What is over does not matter any more.
        *self = Self::of(in_part(spot, Escape::Raw));
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
        match self {
            Self::Json(nested) if nested::needs_care(value) => {
                let depth = nested.depth().ok_or(Unplaced::Unclear)?;
                nested::write(escape, depth, value, out);
            }
            Self::Markup(markup) => markup.write(value, out).map_err(|_| Unplaced::Ends)?,
            Self::Text(quoted) if quoted.is_open() && quoted::needs_care(value) => {
                return Err(Unplaced::Ends);
            }
            Self::Json(_) | Self::Text(_) => escape.write(value, out),
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

/// Whether it matters for a value what stands around it in a body of this kind.
pub(super) fn needs_care(escape: Escape, value: &[u8]) -> bool {
    match escape {
        Escape::Json | Escape::Percent => nested::needs_care(value),
        Escape::Markup => markup::needs_care(value),
        Escape::Raw => quoted::needs_care(value),
    }
}

/// The same for a body whose parts may be of any kind.
pub(super) fn needs_care_in_parts(value: &[u8]) -> bool {
    // It includes all others.
    markup::needs_care(value)
}
