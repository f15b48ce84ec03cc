//! `gig policy import`: another tool's allowlist as a document of ours, with what could not be kept.

use gig_policy::{Imported, import as import_document};
use serde_json::json;

use super::read;
use crate::{args::policy::PolicyImportArgs, exit_status::ExitStatus, output};

/// `gig policy import FORMAT FILE`: 0 when nothing was widened or narrowed, 1 when something was.
///
/// # Errors
/// When the file cannot be read or is not of that format.
pub(crate) fn import(args: &PolicyImportArgs) -> anyhow::Result<ExitStatus> {
    let (origin, text) = read(&args.file)?;
    let Imported {
        draft,
        widened,
        narrowed,
    } = import_document(args.format, &text, &origin, &args.name)?;
    let document = json!({
        "file": origin,
        "document": draft.to_string(),
        "entries": draft.entries.len(),
        "widened": widened,
        "narrowed": narrowed,
    });
    output::print(args.output.json, &document, draft.to_string().trim_end())?;
    if !args.output.json {
        let wide = widened.iter().map(|remark| format!("wider: {remark}"));
        let narrow = narrowed.iter().map(|remark| format!("narrower: {remark}"));
        let told = wide.chain(narrow);
        output::remark(told.map(|text| format!("{origin}: {text}")))?;
    }
    Ok(if widened.is_empty() && narrowed.is_empty() {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}
