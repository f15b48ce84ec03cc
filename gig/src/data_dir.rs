//! Where gig keeps files: `GIG_DATA_DIR`, else `$XDG_DATA_HOME/gig`, else `~/.local/share/gig`.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, MetadataExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

/// The data directory; not yet made.
///
/// # Errors
/// When no variable says where it would be.
pub(crate) fn path() -> anyhow::Result<PathBuf> {
    if let Some(dir) = variable("GIG_DATA_DIR") {
        return Ok(dir);
    }
    if let Some(dir) = variable("XDG_DATA_HOME") {
        return Ok(dir.join("gig"));
    }
    match variable("HOME") {
        Some(home) => Ok(home.join(".local/share/gig")),
        None => bail!("no place for gig's files: set GIG_DATA_DIR or HOME to a directory"),
    }
}

/// Makes `dir` and its parents, readable by nobody else. Not in a data directory of somebody else, as root could: they
/// could not use it themselves from then on.
///
/// # Errors
/// When it cannot be made; says which directory and the cure.
pub(crate) fn make_private(dir: &Path) -> anyhow::Result<()> {
    let there = dir
        .ancestors()
        .find_map(|above| Some((above, above.metadata().ok()?)));
    if let Some((above, facts)) = there
        && path().is_ok_and(|own| above.starts_with(own))
    {
        refuse_others(above, facts.uid())?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| {
        format!(
            "cannot make the directory {} for gig's files: make it writable or set GIG_DATA_DIR",
            dir.display()
        )
    })
}

/// Refuses a directory into which others can put files: they could put an older vault, or another key,
/// in its place.
///
/// # Errors
/// When others own it or can write to it; says the cure.
pub(crate) fn refuse_shared(dir: &Path) -> anyhow::Result<()> {
    let shown = dir.display();
    let facts = fs::metadata(dir).with_context(|| format!("cannot look at {shown}"))?;
    refuse_others(dir, facts.uid())?;
    let mode = facts.mode() & 0o777;
    if mode & 0o022 != 0 {
        bail!("others can put files into {shown} (mode {mode:04o}): chmod 700 {shown}");
    }
    Ok(())
}

/// Refuses what belongs to another user than root and this one.
fn refuse_others(dir: &Path, owner: u32) -> anyhow::Result<()> {
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        bail!(
            "{} belongs to another user (uid {owner}): run this as that user (sudo -u '#{owner}' env GIG_DATA_DIR=… gig …), \
             or set GIG_DATA_DIR to a directory of your own",
            dir.display()
        );
    }
    Ok(())
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
