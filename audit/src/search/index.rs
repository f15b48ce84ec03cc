//! The terms of one full block, ready to be kept.

use crate::{
    row::{ReadRowError, Row},
    search::{
        posting,
        term::{sourced, terms_of, told},
    },
};

/// What a database keeps of a block.
#[derive(Debug)]
pub(crate) struct BlockTerms {
    pub(crate) first_time: String,
    pub(crate) last_time: String,
    /// Each term once, in ascending order, with the places that have it.
    pub(crate) postings: Vec<(i64, Vec<u8>)>,
}

/// Reads a block's lines, each with its place in the block; `None` when there are none.
///
/// # Errors
/// When a line is no record.
pub(crate) fn index(lines: &[(u16, String)]) -> Result<Option<BlockTerms>, ReadRowError> {
    let mut pairs: Vec<(i64, u16)> = Vec::with_capacity(lines.len() * USUAL_TERMS);
    let mut times: Option<(String, String)> = None;
    let mut terms = Vec::new();
    for (place, line) in lines {
        let row = Row::read(line)?;
        terms.clear();
        terms_of(&row, &mut terms);
        pairs.extend(terms.iter().map(|term| (*term, *place)));
        times = Some(match times {
            None => (row.time.clone(), row.time),
            // A clock may have been set back meanwhile.
            Some((first, last)) => (first.min(row.time.clone()), last.max(row.time)),
        });
    }
    // Where nothing is to be told, that is known, too.
    let told = told();
    if let Some((first, _)) = lines.first() {
        pairs.push((sourced(), *first));
    }
    if let Some((first, _)) = lines.first()
        && !pairs.iter().any(|(term, _)| *term == told)
    {
        pairs.push((told, *first));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let same = pairs.chunk_by(|(one, _), (other, _)| one == other);
    let postings = same.filter_map(|pairs| {
        let (term, _) = pairs.first()?;
        let places: Vec<u16> = pairs.iter().map(|(_, place)| *place).collect();
        Some((*term, posting::encode(&places)))
    });
    let postings = postings.collect();
    Ok(times.map(|(first_time, last_time)| BlockTerms {
        first_time,
        last_time,
        postings,
    }))
}

/// Room that rarely has to grow.
const USUAL_TERMS: usize = 32;
