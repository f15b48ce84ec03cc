//! `gig backup FILE`: everything that an appliance keeps, while it serves; each database as of one moment.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, IsTerminal as _, Write as _},
    path::Path,
};

use anyhow::{Context, bail};
use gig_audit::{PostgresRecord, store::sqlite::snapshot};
use gig_web::{PostgresStore, SqliteStore};
use serde_json::json;

use crate::{
    args::serve::BackupArgs,
    backup::{
        Part,
        archive::{self, Manifest},
        under_way::Copies,
    },
    data_dir,
    exit_status::ExitStatus,
    node,
    output::{self, printable},
    secrets::transfer,
    serve::{appliance::Appliance, database},
};

/// Makes one; it is whole or not there.
///
/// # Errors
/// When there is nothing to back up, or it cannot be recorded, read or written.
pub(super) fn execute(args: &BackupArgs) -> anyhow::Result<ExitStatus> {
    let shown = printable(&args.file.display().to_string());
    let to_stream = args.file.as_os_str() == "-";
    if to_stream && io::stdout().is_terminal() {
        bail!("a backup is not for a terminal: name a file, or send it on: gig backup - | …");
    }
    if !to_stream && args.file.exists() {
        bail!("{shown} is there already: a backup is written over nothing; name another file");
    }
    let dir = data_dir::path()?;
    let there = |part: Part| part.place(&dir).exists();
    if !there(Part::Store) && !there(Part::Record) && database::url()?.is_none() {
        bail!(
            "there is nothing to back up in {}: GIG_DATA_DIR names the data directory of an appliance",
            dir.display()
        );
    }
    data_dir::refuse_shared(&dir)?;
    let made = jiff::Timestamp::now();
    // Before anything is copied, so that the backup's own record holds it.
    let to = if to_stream { "standard output" } else { &shown };
    Appliance::record_beside(
        gig_audit::Deed::BackupMake,
        &[format!("backup made to {to}")],
    )
    .context("refusing to make a backup that is not recorded")?;
    // Where the backup goes there must be room for it twice for a moment.
    let folder = if to_stream {
        dir.as_path()
    } else {
        parent(&args.file)
    };
    let copies = Copies::make(folder)?;
    copy(&dir, copies.path())?;
    let manifest = Manifest::of(copies.path(), made, &node::name()?)?;
    if to_stream {
        archive::write(io::stdout().lock(), &manifest, copies.path())?;
        return Ok(ExitStatus::SUCCESS);
    }
    write(&args.file, &manifest, copies.path())?;
    let octets: u64 = manifest.parts.values().map(|part| part.octets).sum();
    let document = json!({ "file": shown, "octets": octets, "manifest": manifest });
    let text = format!(
        "{shown}: {octets} octets of {}\n  not in it: the master key, without which its secrets cannot be \
         opened, and the key that signs the record: keep both apart from it",
        manifest
            .parts
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(", ")
    );
    output::print(args.output.json, &document, &text)?;
    Ok(ExitStatus::SUCCESS)
}

/// The store first: what the record has of it is then never less.
fn copy(dir: &Path, to: &Path) -> anyhow::Result<()> {
    for part in Part::ALL {
        let (from, copy) = (part.place(dir), to.join(part.name()));
        // A fleet's record is in its database; a file is from before.
        let shared = part == Part::Record && database::url()?.is_some();
        if shared || !from.exists() {
            continue;
        }
        match part {
            Part::Store | Part::Record => snapshot(&from, &copy)?,
            Part::Changes => lines(&from, &copy)?,
        }
    }
    let store = SqliteStore::open(&to.join(Part::Store.name()))?;
    if let Some(url) = database::url()? {
        let fleet = PostgresStore::open(&url)?;
        // Policies and the secrets that they name, and what is sealed by the vault's key, are of one moment.
        // Whatever takes time is done before anybody waits.
        let vault = transfer::save_to(&to.join(Part::Store.name()))?;
        let copied = fleet.save_to(&store, vault);
        copied.context("cannot back up the database")??;
        let record = PostgresRecord::open(&url)?;
        record.save_to(&to.join(Part::Record.name()))?;
    }
    store.forget_visitors()?;
    Ok(())
}

/// Whole lines only: somebody may be writing the next one.
fn lines(from: &Path, to: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot copy {}", from.display());
    let mut reader = BufReader::new(File::open(from).with_context(failed)?);
    let mut writer = BufWriter::new(File::create_new(to).with_context(failed)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).with_context(failed)?;
        if line.last() != Some(&b'\n') {
            break;
        }
        writer.write_all(&line).with_context(failed)?;
    }
    writer.flush().with_context(failed)
}

/// Under its name only when it is whole and on the disk.
fn write(file: &Path, manifest: &Manifest, copies: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", file.display());
    let mut beside = tempfile::NamedTempFile::new_in(parent(file)).with_context(failed)?;
    archive::write(BufWriter::new(beside.as_file_mut()), manifest, copies)?;
    beside.as_file().sync_all().with_context(failed)?;
    beside.persist_noclobber(file).with_context(failed)?;
    File::open(parent(file))
        .and_then(|folder| folder.sync_all())
        .with_context(failed)
}

fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
