//! What a new secret is, beside its value: one reading, for the command line, API and console.

use anyhow::{Context as _, bail};
use gig_vault::{Definition, KindDefinition, ShapeDefinition};

/// What is said by a kind's name alone.
///
/// # Errors
/// When the kind has options, or is none; names where those are written.
pub(crate) fn of_kind(kind: &str, where_else: &str) -> anyhow::Result<Definition> {
    let kind = KindDefinition::without_options(kind).with_context(|| {
        format!(
            "kind {kind:?}: only static and basic need no options; describe other kinds in {where_else}"
        )
    })?;
    Ok(Definition {
        kind,
        ..Definition::default()
    })
}

/// The sentinel's shape: as defined, or else as the value suggests.
///
/// # Errors
/// When sentinels of that shape would tell half of the value.
pub(crate) fn shape(definition: &mut Definition, value: &[u8]) -> anyhow::Result<()> {
    if definition.shape.is_none() && matches!(definition.kind, KindDefinition::Static) {
        definition.shape = ShapeDefinition::guessed(value);
    }
    let shape = definition
        .shape
        .as_ref()
        .and_then(|shape| shape.shape().ok());
    if shape.is_some_and(|shape| shape.tells_half_of(value)) {
        bail!(
            "sentinels of this shape would begin with half of the value, which programs are to have nothing of: say \
             less of it (prefix in the definition, or --like), such as what all keys of its kind begin with"
        );
    }
    Ok(())
}
