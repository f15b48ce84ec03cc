//! Values in trailer sections: looked at like header sections, placed in the fields that the policy takes them in.

use http::{HeaderMap, header};

use super::{Placer, Stopped, fields, judged};
use crate::credential::{body::BodyPlan, misuse::HeadText, place::Replacement, tally::Tally};

/// Readies a trailer section.
///
/// # Errors
/// [`Stopped`]: it may not go.
pub fn carry_trailers(plan: &BodyPlan, trailers: &mut HeaderMap) -> Result<(), Stopped> {
    let watch = plan.watch();
    if watch.is_empty() {
        return Ok(());
    }
    let text = HeadText::of_trailers(plan.before(), trailers);
    let wanted = judged(&text, (watch, &plan.bearer(), plan.tally()), Vec::new())?;
    let mut wanted = wanted.iter();
    wanted.try_for_each(|name| plan.place_in(name, trailers))
}

/// Looks at a trailer section, and places nothing.
///
/// # Errors
/// [`Stopped`]: it may not go.
pub fn look_at_trailers(plan: &BodyPlan, trailers: &HeaderMap) -> Result<(), Stopped> {
    let watch = plan.watch();
    if watch.is_empty() {
        return Ok(());
    }
    judged(
        &HeadText::of_trailers(plan.before(), trailers),
        (watch, &plan.bearer(), plan.tally()),
        Vec::new(),
    )
    .map(drop)
}

/// Places ready replacements in a trailer section.
pub(in crate::credential) fn place_trailers(
    replacements: Vec<Replacement>,
    trailers: &mut HeaderMap,
    tally: &Tally,
) -> Result<(), Stopped> {
    let Some(first) = replacements.first() else {
        return Ok(());
    };
    let (name, version) = (first.secret.name.clone(), first.secret.version);
    let mut placer = Placer {
        replacements,
        misplaced: Vec::new(),
        at: None,
        watch: None,
    };
    let mut any = false;
    let fields: Vec<_> = trailers.keys().cloned().collect();
    for field in fields {
        placer.at = Some(field.clone());
        if let header::Entry::Occupied(mut entry) = trailers.entry(&field) {
            for value in entry.iter_mut() {
                any |= fields::place(&mut placer, &field, value)
                    .map_err(|why| placer.unplaced(&name, why))?;
            }
        }
    }
    if any {
        tally.swapped(&name, version);
    }
    if placer.misplaced.is_empty() {
        Ok(())
    } else {
        Err(Stopped::Misuse(placer.misuses(&name)))
    }
}
