//! `gig restore FILE`: an appliance as it was when a backup was made.
//!
//! The backup is checked whole before anything is touched. What stood there is moved aside, never
//! deleted. Nobody is signed in afterwards, and the record says that it was restored.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gig_audit::{
    Deed, PostgresRecord, PublicKey, SqliteLog, log::Log as _, store::sqlite::check_pages,
};
use gig_web::{
    PostgresStore, SqliteStore,
    store::transfer::{Renumbered, Restorer, given_in},
};
use serde_json::json;

use crate::{
    args::serve::RestoreArgs,
    backup::{
        Part,
        archive::{self, Manifest},
        under_way::{self, UnderWay},
    },
    data_dir,
    exit_status::ExitStatus,
    output::{self, printable},
    secrets::{self, changes, transfer},
    serve::{appliance::Appliance, database, place::Place},
    signing_key,
};

/// Puts a backup in force.
///
/// # Errors
/// When an appliance serves, there is something already that is not to be replaced, or the backup is not
/// whole; nothing was changed then.
pub(super) fn execute(args: &RestoreArgs) -> anyhow::Result<ExitStatus> {
    let shown = printable(&args.file.display().to_string());
    let place = Place::take()?;
    let dir = place.dir();
    refuse_occupied(dir, args.replace)?;
    let unpacked = tempfile::Builder::new()
        .prefix(under_way::UNPACKED)
        .tempdir_in(dir)
        .with_context(|| format!("cannot make a folder in {}", dir.display()))?;
    let source: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(&args.file).with_context(|| format!("cannot open {shown}"))?)
    };
    let manifest = archive::read(source, unpacked.path()).with_context(|| shown.clone())?;
    let Checked { fault, signers } = check(unpacked.path(), &manifest)?;
    let Filled {
        kept,
        renumbered,
        unread,
    } = match database::url()? {
        Some(url) => fill_fleet(dir, unpacked.path(), &manifest, (&url, args.replace))?,
        None => {
            let (renumbered, unread) = go_on(dir, unpacked.path(), &manifest)?;
            Filled {
                kept: false,
                renumbered,
                unread,
            }
        }
    };
    let under_way = UnderWay::begin(dir)?;
    let aside = put_in_place(dir, unpacked.path(), &manifest)?;
    under_way.done()?;
    let renumbered = words(&renumbered).or(unread);
    record(&manifest, fault.as_deref(), renumbered.as_deref())?;
    if let Some(fault) = &fault {
        output::remark([format!(
            "warning: the record in the backup does not hold: {fault}; it is in place as it was"
        )])?;
    }
    let mut text = format!(
        "restored what {} kept at {}\n  everybody has to sign in again; tokens, users and secrets that were \
         removed since then are back: remove them again",
        printable(&manifest.node),
        manifest.made
    );
    if kept {
        text += "\n  the database of GIG_DATABASE_URL has a record, which is written over by nothing: the backup's is \
                 in the data directory, audit/record.db, for gig audit to read";
    }
    let ours = signing_key::ours()?.public();
    for key in signers.iter().filter(|key| **key != ours) {
        text += &format!(
            "\n  {key} signed the record, and this data directory has another key: gig serve --keep believes it \
             by --audit-key {key}"
        );
    }
    if let Some(renumbered) = &renumbered {
        text += &format!("\n  {renumbered}");
    }
    let unopened = unopened_vault();
    if let Some(why) = &unopened {
        text +=
            &format!("\n  warning: the secrets cannot be opened with the key that is here: {why}");
    }
    if let Some(aside) = &aside {
        text += &format!("\n  what stood there is in {}", aside.display());
    }
    let document = json!({
        "file": shown,
        "manifest": manifest,
        "record_is_whole": fault.is_none(),
        "versions": renumbered,
        "secrets_unopened": unopened,
        "moved_aside": aside.as_deref().map(|aside| aside.display().to_string()),
    });
    output::print(args.output.json, &document, &text)?;
    Ok(ExitStatus::SUCCESS)
}

/// Why what was sealed cannot be opened, where that is so: its key is in no backup.
fn unopened_vault() -> Option<String> {
    match secrets::begun() {
        Ok(false) => None,
        Ok(true) => secrets::open().err().map(|error| format!("{error:#}")),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn refuse_occupied(dir: &Path, replace: bool) -> anyhow::Result<()> {
    let there = Part::ALL.map(|part| part.place(dir));
    match there.iter().find(|path| path.exists()) {
        Some(path) if !replace => bail!(
            "{} is there already: nothing is written over; --replace moves what is there aside, or \
             set GIG_DATA_DIR to an empty directory",
            path.display()
        ),
        _ => Ok(()),
    }
}

/// What the record in a backup is.
#[derive(Default)]
struct Checked {
    /// What is wrong with it. That is an answer: it is evidence even so.
    fault: Option<String>,
    /// Who signed it.
    signers: BTreeSet<PublicKey>,
}

/// That both databases are whole and of no later gig.
fn check(unpacked: &Path, manifest: &Manifest) -> anyhow::Result<Checked> {
    if manifest.has(Part::Store) {
        let store = unpacked.join(Part::Store.name());
        check_pages(&store)?;
        SqliteStore::open(&store)?.forget_visitors()?;
    }
    if !manifest.has(Part::Record) {
        return Ok(Checked::default());
    }
    let record = unpacked.join(Part::Record.name());
    check_pages(&record)?;
    let verdict = SqliteLog::open(&record)?
        .verify(gig_audit::verify::Expected::default())
        .context("cannot verify the record in the backup")?;
    let broken = verdict.chains.iter().find_map(|chain| {
        let fault = chain.outcome.as_ref().err()?;
        Some(printable(&fault.to_string()))
    });
    let strays = (!verdict.is_whole()).then(|| "records stand in no chain".to_owned());
    let signed = verdict.chains.iter().filter_map(|chain| {
        let verified = chain.outcome.as_ref().ok()?;
        Some(&verified.signed.as_ref()?.keys)
    });
    Ok(Checked {
        signers: signed.flatten().copied().collect(),
        fault: broken.or(strays),
    })
}

/// What became of what was there.
#[derive(Default)]
struct Filled {
    /// The fleet keeps a record of its own, and the backup's stays a file.
    kept: bool,
    /// Policies whose numbers had gone on.
    renumbered: Vec<Renumbered>,
    /// Why nobody knows which numbers there were.
    unread: Option<String>,
}

/// Who puts the backup in place.
fn restorer() -> Restorer {
    Restorer {
        name: changes::who().to_string(),
        at: jiff::Timestamp::now(),
    }
}

/// Gives policies of the backup numbers behind those of what stands there, which is only looked at. What cannot be
/// read does not keep a backup from being put in its place: then it is said.
fn go_on(
    dir: &Path,
    unpacked: &Path,
    manifest: &Manifest,
) -> anyhow::Result<(Vec<Renumbered>, Option<String>)> {
    let old = former(dir);
    if !manifest.has(Part::Store) || !old.exists() {
        return Ok(Default::default());
    }
    match given_in(&old) {
        Ok(given) => {
            let new = SqliteStore::open(&unpacked.join(Part::Store.name()))?;
            Ok((new.go_on_behind(&given, &restorer())?, None))
        }
        Err(why) => Ok((
            Vec::new(),
            Some(format!(
                "what stood there cannot be read ({why}): numbers of policies' versions may be given again"
            )),
        )),
    }
}

/// The store that stands there; where a restore had moved it aside and came no further, that one.
fn former(dir: &Path) -> PathBuf {
    let place = Part::Store.place(dir);
    if place.exists() || !under_way::is_half(dir) {
        return place;
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let moved = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(ASIDE))
        .map(|entry| entry.path().join(Part::Store.name()));
    // Their names are of when they were made.
    moved.filter(|path| path.exists()).max().unwrap_or(place)
}

/// Which policies have another number now.
fn words(renumbered: &[Renumbered]) -> Option<String> {
    let each = renumbered.iter();
    let each: Vec<_> = each
        .map(|one| format!("{} version {} as {}", one.name, one.was, one.now))
        .collect();
    (!each.is_empty()).then(|| {
        format!(
            "saved again under a number that no version had: {}",
            each.join(", ")
        )
    })
}

/// Where a fleet keeps people, policies, secrets and its record, that is where they go, and the file keeps
/// nothing.
fn fill_fleet(
    dir: &Path,
    unpacked: &Path,
    manifest: &Manifest,
    (url, replace): (&str, bool),
) -> anyhow::Result<Filled> {
    let mut filled = Filled::default();
    if manifest.has(Part::Store) {
        filled.renumbered = fill_store(dir, unpacked, (url, replace))?;
    }
    if manifest.has(Part::Record) {
        let record = PostgresRecord::open(url)?;
        filled.kept = !record.load_from(&unpacked.join(Part::Record.name()))?;
    }
    Ok(filled)
}

fn fill_store(
    dir: &Path,
    unpacked: &Path,
    (url, replace): (&str, bool),
) -> anyhow::Result<Vec<Renumbered>> {
    let place = unpacked.join(Part::Store.name());
    let file = SqliteStore::open(&place)?;
    let fleet = PostgresStore::open(url)?;
    if !replace && transfer::would_replace(&place)? {
        bail!(
            "the database of GIG_DATABASE_URL has secrets already: nothing was changed; --replace puts the \
             backup's in their place"
        );
    }
    let Some(renumbered) = fleet.load_from(&file, replace, &restorer())? else {
        bail!(
            "the database of GIG_DATABASE_URL has people or policies already: nothing was changed; \
             --replace puts the backup in their place"
        );
    };
    if !transfer::load_from(&place, replace, || new_aside(dir))? {
        bail!(
            "people and policies are restored, secrets are not: somebody set one in the database of \
             GIG_DATABASE_URL meanwhile; --replace puts the backup's in its place"
        );
    }
    file.forget_everything()?;
    Ok(renumbered)
}

/// Where what stood there is now, if anything did.
fn put_in_place(
    dir: &Path,
    unpacked: &Path,
    manifest: &Manifest,
) -> anyhow::Result<Option<PathBuf>> {
    let aside = move_aside(dir)?;
    for part in Part::ALL.into_iter().filter(|part| manifest.has(*part)) {
        let place = part.place(dir);
        if let Some(folder) = place.parent() {
            data_dir::make_private(folder)?;
        }
        let moved = fs::rename(unpacked.join(part.name()), &place);
        moved.with_context(|| format!("cannot put {} in place", place.display()))?;
        let folder = place.parent().unwrap_or(dir);
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    Ok(aside)
}

fn move_aside(dir: &Path) -> anyhow::Result<Option<PathBuf>> {
    let there: Vec<_> = Part::ALL
        .into_iter()
        .flat_map(|part| std::iter::once(part.place(dir)).chain(part.beside(dir)))
        .filter(|path| path.exists())
        .collect();
    if there.is_empty() {
        return Ok(None);
    }
    let aside = new_aside(dir)?;
    for path in there {
        let name = path.file_name().unwrap_or_default();
        fs::rename(&path, aside.join(name))
            .with_context(|| format!("cannot move {} aside", path.display()))?;
    }
    Ok(Some(aside))
}

/// For what is replaced.
fn new_aside(dir: &Path) -> anyhow::Result<PathBuf> {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let made = tempfile::Builder::new()
        .prefix(&format!("{ASIDE}{now}-"))
        .tempdir_in(dir)
        .with_context(|| format!("cannot make a folder in {}", dir.display()))?;
    Ok(made.keep())
}

/// Folders of what was replaced begin with it.
const ASIDE: &str = "replaced-";

fn record(
    manifest: &Manifest,
    fault: Option<&str>,
    renumbered: Option<&str>,
) -> anyhow::Result<()> {
    let (node, made) = (&manifest.node, manifest.made);
    let restored =
        format!("restored from the backup that {node} made at {made}; all sessions ended");
    let broken = fault.map(|fault| format!("the record in the backup does not hold: {fault}"));
    let renumbered = renumbered.map(str::to_owned);
    let findings = std::iter::once(restored).chain(broken).chain(renumbered);
    let findings: Vec<_> = findings.collect();
    Appliance::record_beside(Deed::BackupRestore, &findings)
        .context("everything is restored, but that could not be recorded")
}
