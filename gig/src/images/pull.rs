//! Bringing an image: from the digest that was asked for to files on this machine.

use std::{
    fs::{self, File},
    io::IsTerminal as _,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use gig_sandbox::{
    image::{Config, Descriptor, Digest, Document, Limits, Manifest, Reference},
    is_an_images,
};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::{
    About, Outside, ROOT,
    arriving::{Arriving, To},
    registry::Registry,
    unpack,
};
use crate::stderr::tell;

const LIMITS: Limits = Limits::DEFAULT;

/// Fills `into` with the image's `root`, and says what it is.
///
/// # Errors
/// When anything is not what its digest says, or more than it may be.
pub(super) fn pull(
    reference: &Reference,
    digest: Digest,
    outside: &Outside<'_>,
    into: &Path,
) -> anyhow::Result<About> {
    let runtime = runtime()?;
    let until = unpack::now() + WITHIN;
    let sent = into.join("sent");
    fs::create_dir(&sent).context("cannot make a directory for layers")?;
    let bringing = async {
        match tokio::time::timeout(WITHIN, bring(reference, digest, outside, &sent)).await {
            Ok(brought) => brought,
            Err(_) => bail!("the image is not here within {} s", WITHIN.as_secs()),
        }
    };
    let brought = runtime.block_on(bringing);
    let Brought {
        manifest_digest,
        manifest,
        config,
        layers,
    } = brought.with_context(|| format!("cannot pull {reference}"))?;
    let root = into.join(ROOT);
    fs::create_dir(&root).context("cannot make the image's root")?;
    let stock = unpack::unpack(&runtime, &layers, &root, until)
        .with_context(|| format!("cannot unpack {reference}"))?;
    fs::remove_dir_all(&sent).context("cannot remove the image's layers")?;
    Ok(About {
        name: reference.to_string(),
        digest: digest.to_string(),
        manifest: manifest_digest.to_string(),
        packed: packed(&manifest),
        unpacked: stock.octets,
        entries: stock.entries,
        left_out: stock.left_out,
        entrypoint: config.entrypoint,
        command: config.command,
        env: config.env,
        workdir: config
            .workdir
            .filter(|workdir| has_directory(&root, workdir)),
        user: config.user,
        pulled: jiff::Timestamp::now(),
    })
}

/// The digest that a tag, or a digest, leads to today.
///
/// # Errors
/// When the registry has it not.
pub(crate) fn resolve(reference: &Reference, outside: &Outside<'_>) -> anyhow::Result<Digest> {
    let asked = async {
        let mut registry = Registry::find(reference, outside).await?;
        let named = reference.digest();
        let name = match named {
            Some(digest) => digest.to_string(),
            None => reference.tag().unwrap_or("latest").to_owned(),
        };
        let (arriving, kind) = registry.document(&name, LIMITS.document).await?;
        let (to, digest) = match named {
            Some(digest) => (arriving.if_it_is(digest)?.0, digest),
            None => {
                let (to, found) = arriving.whole();
                (to, found.digest)
            }
        };
        let To::Memory(bytes) = to else {
            bail!("a document is no file");
        };
        // What is no image has a digest too, and is of no use.
        Document::parse(&bytes, &kind, &LIMITS)?;
        Ok(digest)
    };
    let asked = async {
        tokio::time::timeout(WITHIN, asked)
            .await
            .context("the registry is too slow")?
    };
    runtime()?
        .block_on(asked)
        .with_context(|| format!("cannot ask for {reference}"))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.context("cannot start gig's own runtime")
}

/// Octets that are sent, but for the documents.
fn packed(manifest: &Manifest) -> u64 {
    let sizes = manifest.layers.iter().map(|layer| layer.size);
    sizes.fold(manifest.config.size, u64::saturating_add)
}

struct Brought {
    manifest_digest: Digest,
    manifest: Manifest,
    config: Config,
    layers: Vec<PathBuf>,
}

async fn bring(
    reference: &Reference,
    digest: Digest,
    outside: &Outside<'_>,
    into: &Path,
) -> anyhow::Result<Brought> {
    let mut registry = Registry::find(reference, outside).await?;
    let (manifest_digest, manifest) = manifest(&mut registry, digest).await?;
    // Standard error of a run is the program's: only a person who waits is told.
    if std::io::stderr().is_terminal() {
        let octets = packed(&manifest);
        tell(&format!("gig: pulling {reference}: {octets} octets\n"));
    }
    let mut arriving = Arriving::new(To::Memory(Vec::new()), manifest.config.size);
    registry
        .blob(&manifest.config.digest.to_string(), &mut arriving)
        .await?;
    let To::Memory(config) = exactly(arriving, &manifest.config)? else {
        bail!("a configuration is no file");
    };
    let config = Config::parse(&config)?;
    let mut layers = Vec::new();
    for (number, layer) in manifest.layers.iter().enumerate() {
        let path = into.join(number.to_string());
        let file = File::create_new(&path).context("cannot keep a layer")?;
        let mut arriving = Arriving::new(To::File(file), layer.size);
        registry
            .blob(&layer.digest.to_string(), &mut arriving)
            .await?;
        exactly(arriving, layer)?;
        layers.push(path);
    }
    Ok(Brought {
        manifest_digest,
        manifest,
        config,
        layers,
    })
}

/// From a list to this machine's manifest, if it is a list; a list in a list is none.
async fn manifest(registry: &mut Registry, digest: Digest) -> anyhow::Result<(Digest, Manifest)> {
    match document(registry, digest, None).await? {
        Document::Manifest(manifest) => Ok((digest, manifest)),
        Document::Index(ours) => match document(registry, ours.digest, Some(&ours)).await? {
            Document::Manifest(manifest) => Ok((ours.digest, manifest)),
            Document::Index(_) => bail!("the image's list names another list"),
        },
    }
}

async fn document(
    registry: &mut Registry,
    digest: Digest,
    described: Option<&Descriptor>,
) -> anyhow::Result<Document> {
    let most = described.map_or(LIMITS.document, |described| {
        described.size.min(LIMITS.document)
    });
    let (arriving, kind) = registry.document(&digest.to_string(), most).await?;
    let to = match described {
        Some(described) => exactly(arriving, described)?,
        None => arriving.if_it_is(digest)?.0,
    };
    let To::Memory(bytes) = to else {
        bail!("a document is no file");
    };
    Ok(Document::parse(&bytes, &kind, &LIMITS)?)
}

/// What arrived, if digest and size are as described.
fn exactly(arriving: Arriving, described: &Descriptor) -> anyhow::Result<To> {
    let (to, size) = arriving.if_it_is(described.digest)?;
    if size != described.size {
        bail!(
            "refused: {} has {size} octets, not {}",
            described.digest,
            described.size
        );
    }
    Ok(to)
}

/// Whether a program of the image can start there: the image has the directory, by whatever links of its
/// own, and the sandbox shows it.
fn has_directory(root: &Path, below: &str) -> bool {
    below.starts_with('/') && is_an_images(Path::new(below)) && leads_to_what_is_shown(root, below)
}

fn leads_to_what_is_shown(root: &Path, below: &str) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let Ok(opened_root) = File::open(root) else {
        return false;
    };
    let Ok(opened) = openat2(&opened_root, below, flags, Mode::empty(), resolve) else {
        return false;
    };
    let place = |fd: &dyn AsRawFd| fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok();
    let (Some(whole), Some(above)) = (place(&opened), place(&opened_root)) else {
        return false;
    };
    let Ok(real) = whole.strip_prefix(above) else {
        return false;
    };
    // Among the sandbox's own directories nothing is shown through a link.
    let among = ["/var", "/home"]
        .iter()
        .any(|own| Path::new(below).starts_with(own));
    let real = Path::new("/").join(real);
    is_an_images(&real) && (!among || Path::new(below).components().eq(real.components()))
}

/// The largest image over a slow line, with unpacking it.
const WITHIN: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests;
