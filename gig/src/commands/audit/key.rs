//! `gig audit key`: the public key of this machine's checkpoints.

use serde_json::json;

use crate::{args::OutputArgs, exit_status::ExitStatus, output, signing_key};

/// Prints it; makes the key if there is none yet.
///
/// # Errors
/// When it cannot be read or made.
pub(super) fn execute(args: &OutputArgs) -> anyhow::Result<ExitStatus> {
    let public = signing_key::ours()?.public();
    let document = json!({
        "algorithm": "Ed25519",
        "public_key": public,
        "file": signing_key::path()?.display().to_string(),
    });
    output::print(args.json, &document, &public.to_string())?;
    Ok(ExitStatus::SUCCESS)
}
