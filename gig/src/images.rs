//! Images of this machine: brought by digest, unpacked once, kept below the data directory.
//!
//! `images/sha256-…` is whole or not there: it is made under another name, by whoever holds its lock, and
//! gets its own when nothing is missing. The lock is held for reading while an image is used and for
//! writing while it is made or removed. What a registry sends counts only with the digest and the size by
//! which it was asked for, and is unpacked by a sandboxed process.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gig_proxy::UpstreamProxy;
use gig_sandbox::image::{Digest, Reference};
use rustix::fs::{FlockOperation, flock};

pub(crate) use self::{document::About, pull::resolve, registry::Outside};
use crate::{data_dir, output::printable};

mod arriving;
mod document;
mod http;
mod login;
mod pull;
mod registry;
mod unpack;

/// An image that is here, and stays while this is held.
#[derive(Debug)]
pub(crate) struct Image {
    directory: PathBuf,
    pub(crate) about: About,
    /// The name by which it was asked for this time.
    pub(crate) asked: String,
    /// Whether this call brought it.
    pub(crate) fresh: bool,
    _lock: File,
}

impl Image {
    /// Its files.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.join(ROOT)
    }

    /// The words of the program that it runs by itself.
    ///
    /// # Errors
    /// When it names none.
    pub(crate) fn program(&self) -> anyhow::Result<Vec<OsString>> {
        let about = &self.about;
        let words: Vec<OsString> = about
            .entrypoint
            .iter()
            .chain(&about.command)
            .map(Into::into)
            .collect();
        if words.is_empty() {
            bail!("the image names no program of its own: give one after --");
        }
        Ok(words)
    }

    /// The variables that it asks for.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let pairs = self
            .about
            .env
            .iter()
            .filter_map(|text| text.split_once('='));
        pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// As the record has it: the name that was typed, and who gave the image where that was another.
    pub(crate) fn told(&self) -> String {
        let about = &self.about;
        let source = match (self.fresh, about.name == self.asked) {
            (true, _) => "pulled now".to_owned(),
            (false, true) => "kept".to_owned(),
            (false, false) => format!("kept, first pulled as {}", printable(&about.name)),
        };
        let asked = printable(&self.asked);
        format!("image: {asked} ({} octets, {source})", about.packed)
    }
}

/// Reads the name of an image that is to be run: only a digest says what that is.
///
/// # Errors
/// When it is none, or has no digest.
pub(crate) fn pinned(text: &str) -> anyhow::Result<(Reference, Digest)> {
    let reference: Reference = text.parse()?;
    match reference.digest() {
        Some(digest) => Ok((reference, digest)),
        None => {
            let name = printable(text);
            bail!(
                "{name} says where an image is, not which one: whoever may write there decides what \
                 runs. Name it by its digest; `gig image digest {name}` prints that of today"
            )
        }
    }
}

/// The image, from here or from its registry.
///
/// # Errors
/// When it cannot be had whole; nothing of it is left then.
pub(crate) fn obtain(text: &str, outside: &Outside<'_>) -> anyhow::Result<Image> {
    let (reference, digest) = pinned(text)?;
    let place = Place::of(digest)?;
    let mut fresh = false;
    for _ in 0..ATTEMPTS {
        let lock = place.lock(FlockOperation::LockShared)?;
        if let Some(about) = place.about() {
            return Ok(Image {
                directory: place.directory,
                about,
                asked: reference.to_string(),
                fresh,
                _lock: lock,
            });
        }
        drop(lock);
        let lock = place.lock(FlockOperation::LockExclusive)?;
        if place.about().is_none() {
            place.make(&reference, digest, outside)?;
            fresh = true;
        }
        drop(lock);
    }
    bail!(
        "the image {} is removed as often as it is pulled",
        printable(text)
    )
}

/// All images that are here, by name. What pulls and removals left that were cut off is removed.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn kept() -> anyhow::Result<Vec<About>> {
    tidy_if_possible();
    let folder = folder()?;
    let mut all = Vec::new();
    for name in names(&folder)? {
        let about = name
            .strip_prefix(PREFIX)
            .and_then(|hex| format!("sha256:{hex}").parse().ok());
        if let Some(digest) = about {
            all.extend(Place::of(digest)?.about());
        }
    }
    all.sort_by(|one: &About, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Removes an image; false when it is not here.
///
/// # Errors
/// When it is in use, or cannot be removed.
pub(crate) fn remove(digest: Digest) -> anyhow::Result<bool> {
    tidy_if_possible();
    let place = Place::of(digest)?;
    let parts = [&place.making, &place.directory];
    if !parts.iter().any(|part| part.exists()) {
        return Ok(false);
    }
    let lock = place.open_lock()?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("{digest} is in use: a sandbox runs from it, or it is being pulled");
    }
    // What somebody left who was killed lies where this one is moved to.
    clear(&place.making)?;
    if place.directory.exists() {
        // Under a name that is none before anything of it is gone.
        fs::rename(&place.directory, &place.making).context("cannot move the image away")?;
        clear(&place.making)?;
    }
    Ok(true)
}

/// Where one image is, or would be.
struct Place {
    directory: PathBuf,
    making: PathBuf,
    lock: PathBuf,
}

impl Place {
    fn of(digest: Digest) -> anyhow::Result<Self> {
        let folder = folder()?;
        let name = digest.file_name();
        Ok(Self {
            making: folder.join(format!("{MAKING}{name}")),
            lock: folder.join(format!("{LOCK}{name}")),
            directory: folder.join(name),
        })
    }

    fn open_lock(&self) -> anyhow::Result<File> {
        let file = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.lock);
        file.with_context(|| format!("cannot open {}", self.lock.display()))
    }

    /// Waits for whoever pulls it, or removes it.
    fn lock(&self, operation: FlockOperation) -> anyhow::Result<File> {
        let file = self.open_lock()?;
        flock(&file, operation).context("cannot lock the image")?;
        Ok(file)
    }

    /// What is known of it, if it is here.
    fn about(&self) -> Option<About> {
        let text = fs::read(self.directory.join(ABOUT)).ok()?;
        match serde_json::from_slice(&text) {
            Ok(about) => Some(about),
            Err(error) => {
                let place = self.directory.display();
                tracing::warn!(%place, %error, "what is there is no image of this gig's");
                None
            }
        }
    }

    /// Pulls it; its lock is held.
    fn make(
        &self,
        reference: &Reference,
        digest: Digest,
        outside: &Outside<'_>,
    ) -> anyhow::Result<()> {
        tidy()?;
        for old in [&self.making, &self.directory] {
            clear(old)?;
        }
        data_dir::make_private(&self.making)?;
        let made = self.fill(reference, digest, outside);
        if made.is_err()
            && let Err(error) = fs::remove_dir_all(&self.making)
        {
            tracing::warn!(%error, "some of an image that was refused is left");
        }
        made
    }

    fn fill(
        &self,
        reference: &Reference,
        digest: Digest,
        outside: &Outside<'_>,
    ) -> anyhow::Result<()> {
        let about = pull::pull(reference, digest, outside, &self.making)?;
        let mut file =
            File::create(self.making.join(ABOUT)).context("cannot write about the image")?;
        file.write_all(&serde_json::to_vec_pretty(&about)?)?;
        file.sync_all()?;
        fs::rename(&self.making, &self.directory).context("cannot name the image")?;
        File::open(folder()?)?
            .sync_all()
            .context("cannot keep the image's name")
    }
}

/// Removes a directory; that it is not there is fine.
fn clear(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// The same as [`tidy`] for whom it does not concern that something is left.
fn tidy_if_possible() {
    if let Err(error) = tidy() {
        tracing::warn!(error = format!("{error:#}"), "something is left of a pull");
    }
}

/// Removes what pulls and removals left behind that were cut off: nobody holds their locks.
fn tidy() -> anyhow::Result<()> {
    let folder = folder()?;
    for name in names(&folder)? {
        let Some(image) = name.strip_prefix(MAKING) else {
            continue;
        };
        let Ok(lock) = File::options()
            .append(true)
            .open(folder.join(format!("{LOCK}{image}")))
        else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            clear(&folder.join(&name))?;
        }
    }
    Ok(())
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let listed =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(listed
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect())
}

fn folder() -> anyhow::Result<PathBuf> {
    let data = data_dir::path()?;
    data_dir::make_private(&data)?;
    data_dir::refuse_shared(&data)?;
    let folder = data.join(gig_sandbox::IMAGES);
    data_dir::make_private(&folder)?;
    Ok(folder)
}

/// How gig goes out to registries.
pub(crate) fn outside<'a>(
    upstream_ca: Option<&'a [u8]>,
    proxy: Option<&'a UpstreamProxy>,
    clear_text: bool,
) -> Outside<'a> {
    Outside {
        upstream_ca,
        proxy,
        clear_text,
    }
}

/// Somebody would have to remove it between two locks each time.
const ATTEMPTS: u32 = 5;
const PREFIX: &str = "sha256-";
const MAKING: &str = ".making-";
const LOCK: &str = ".lock-";
const ROOT: &str = "root";
const ABOUT: &str = "image.json";
