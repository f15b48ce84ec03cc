//! `gig secret ls`.

use gig_vault::vault::{Listed, VersionState};
use serde_json::json;

use crate::{
    args::secret::SecretLsArgs,
    exit_status::ExitStatus,
    output::{self, printable},
    secrets,
};

/// Said of a secret with which programs get what they then hold.
pub(super) const HANDS_OUT: &str =
    "\n  WARNING: hands out: programs may get credentials with it that work, and hold them";

/// Lists what the vault has, without a value.
///
/// # Errors
/// When the vault cannot be opened.
pub(crate) fn list(args: &SecretLsArgs) -> anyhow::Result<ExitStatus> {
    let mut listed = match secrets::exists()? {
        true => secrets::open()?.list()?,
        false => Vec::new(),
    };
    listed.retain(|secret| args.all || secret.removed.is_none());
    let text = if listed.is_empty() {
        "no secrets".to_owned()
    } else {
        table(&listed)
    };
    output::print(args.output.json, &json!({ "secrets": listed }), &text)?;
    Ok(ExitStatus::SUCCESS)
}

fn table(listed: &[Listed]) -> String {
    let mut rows = vec![["NAME", "KIND", "PROVIDER", "VERSION", "SET", "UNTIL"].map(str::to_owned)];
    for secret in listed {
        rows.push(row(secret));
    }
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:<width$}  "))
            .collect();
        text += line.trim_end();
        if let Some(secret) = index.checked_sub(1).and_then(|index| listed.get(index)) {
            text += &remarks(secret);
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn row(secret: &Listed) -> [String; 6] {
    let current = secret
        .versions
        .iter()
        .find(|version| version.state == VersionState::Current);
    let moment = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%MZ").to_string();
    let until = match (secret.removed, current, secret.versions.is_empty()) {
        (Some(at), ..) => format!("removed {}", moment(at)),
        (None, Some(version), _) => version.until.map_or_else(|| "-".to_owned(), moment),
        (None, None, true) => "-".to_owned(),
        (None, None, false) => "ended".to_owned(),
    };
    [
        secret.name.clone(),
        secret.kind.to_owned(),
        secret.provider.to_owned(),
        current.map_or_else(|| "-".to_owned(), |version| version.version.to_string()),
        moment(current.map_or(secret.created, |version| version.created)),
        until,
    ]
}

/// Said of a secret for which gig sends credentials of its own where others can read them.
pub(super) fn in_clear_text(secret: &Listed) -> String {
    let told = gig_web::secrets::in_clear_text(&secret.services).into_iter();
    told.map(|words| format!("\n  WARNING: {}", printable(&words)))
        .collect()
}

fn remarks(secret: &Listed) -> String {
    let mut text = String::new();
    if secret.entrusted {
        text += "\n  WARNING: entrusted: programs may be handed the real value";
    }
    if secret.hands_out {
        text += HANDS_OUT;
    }
    for service in &secret.services {
        text += &format!("\n  gig asks {}", printable(service));
    }
    text += &in_clear_text(secret);
    if secret.custody {
        text += "\n  in its owner's custody: needs the passphrase";
    }
    let grace = secret
        .versions
        .iter()
        .filter(|version| version.state == VersionState::Grace);
    for version in grace {
        let until = version.until.map(|at| at.to_string()).unwrap_or_default();
        text += &format!("\n  version {} is known until {until}", version.version);
    }
    text
}
