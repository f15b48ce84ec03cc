//! Whose record it is: what is done by hand to an appliance's or a fleet's is recorded there before it is done.

use std::path::Path;

use anyhow::{Context, bail};
use gig_audit::{Deed, Home, search::Filter, store::sqlite::without_links};

use crate::{
    backup::Part, data_dir, output::printable, record_place::RecordPlace,
    serve::appliance::Appliance,
};

/// Whether the record is an appliance's or a fleet's, which is told what is done to it.
///
/// # Errors
/// When it is the appliance's of another data directory: nobody would tell it.
pub(super) fn is_told(record: &Home) -> anyhow::Result<bool> {
    match record {
        Home::Sqlite(path) => is_ours(path),
        Home::Postgres(_) => Ok(true),
    }
}

fn is_ours(path: &Path) -> anyhow::Result<bool> {
    let path = without_links(path).unwrap_or_else(|_| path.to_owned());
    let ours = data_dir::path()?;
    let ours = ours.canonicalize().unwrap_or(ours);
    let is_of = |dir: &Path| Part::Record.place(dir) == path;
    if is_of(&ours) {
        return Ok(true);
    }
    match path.parent().and_then(Path::parent) {
        Some(dir) if is_of(dir) && Part::Store.place(dir).exists() => {
            let dir = dir.display();
            bail!(
                "{} is the record of the appliance of {dir}, which is to be told: set GIG_DATA_DIR={dir}",
                path.display()
            )
        }
        _ => Ok(false),
    }
}

/// Records that somebody takes records away, as the console does.
///
/// # Errors
/// When it cannot be recorded, or nobody would tell the appliance whose it is.
pub(super) fn tell_export(file: &Path, how: &str, filter: &Filter) -> anyhow::Result<()> {
    let told = match RecordPlace::of(file)? {
        RecordPlace::Sqlite(path) => is_ours(&path)?,
        RecordPlace::Shared => true,
        RecordPlace::Stream | RecordPlace::Lines(_) => false,
    };
    if !told {
        return Ok(());
    }
    let what = match asked(filter) {
        all if all.is_empty() => "all of it".to_owned(),
        some => printable(&some),
    };
    Appliance::record_beside(Deed::RecordExport, &[format!("record {how}: {what}")])
        .context("refusing to export records when that is not recorded")
}

/// As the console writes a search; empty where all of the record is asked for.
pub(super) fn asked(filter: &Filter) -> String {
    let Filter {
        since,
        until,
        event,
        verdict,
        reason,
        rule,
        sandbox,
        server,
        profile,
        node,
        policy,
        host,
        method,
        status,
        secret,
        conn,
        request,
        src,
        text,
        alarm,
    } = filter;
    let moments = [("since", since), ("until", until)];
    let moments = moments
        .into_iter()
        .flat_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
    let lists = [
        ("event", event),
        ("verdict", verdict),
        ("reason", reason),
        ("rule", rule),
        ("sandbox", sandbox),
        ("server", server),
        ("profile", profile),
        ("node", node),
        ("policy", policy),
        ("host", host),
        ("method", method),
        ("status", status),
        ("secret", secret),
        ("conn", conn),
        ("request", request),
        ("src", src),
        ("text", text),
    ];
    let lists = lists.into_iter();
    let lists =
        lists.flat_map(|(name, values)| values.iter().map(move |one| format!("{name}={one}")));
    let alarm = alarm.then(|| "alarm=true".to_owned());
    moments
        .chain(lists)
        .chain(alarm)
        .collect::<Vec<_>>()
        .join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_told_as_a_search_is_written() {
        assert_eq!(asked(&Filter::default()), "");
        let filter = Filter {
            since: Some("2026-11-21T00:00:00.000000Z".to_owned()),
            verdict: vec!["deny".to_owned(), "allow".to_owned()],
            text: vec!["x y".to_owned()],
            ..Filter::default()
        };
        assert_eq!(
            asked(&filter),
            "since=2026-11-21T00:00:00.000000Z&verdict=deny&verdict=allow&text=x y"
        );
    }
}
