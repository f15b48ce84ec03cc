//! The files of registered servers that come from an image or a folder: `servers/NAME@sha256-…` below the
//! data directory.
//!
//! This machine's owner brings them, with `gig server add`; the appliance itself pulls nothing. What is
//! registered names them by the digest of their content, and each start computes it again: other bytes do
//! not run. Of an image that is one static program and nothing else, that program alone is kept.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gig_sandbox::{
    Kept,
    image::{Content, Digest, Limits},
};
use gig_web::store::{Name, ServerSource, SourceKind};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::{
    args::image::SourceArgs,
    data_dir,
    images::{self, Image},
    run::settings::{own_proxy, read_roots},
};

/// What was brought for a server.
struct Brought {
    source: ServerSource,
    command: Vec<String>,
}

/// The command of a server, and where its files come from, which are brought now.
///
/// # Errors
/// When they cannot be had.
pub(crate) fn bring(
    server: &str,
    asked: &SourceArgs,
    typed: Vec<String>,
) -> anyhow::Result<(Vec<String>, Option<ServerSource>)> {
    let name = || {
        let name: Result<Name, _> = server.parse();
        name.with_context(|| format!("{server:?} is no server's name"))
    };
    let brought = match (&asked.image, &asked.folder) {
        (Some(image), _) => {
            let (ca, proxy) = (read_roots(&asked.upstream_ca)?, own_proxy()?);
            let outside = images::outside(ca.as_deref(), proxy.as_ref(), asked.image_clear_text);
            let name = name()?;
            of_image(&name, &images::obtain(image, &outside)?, typed)?
        }
        (None, Some(folder)) => of_folder(&name()?, folder, typed)?,
        (None, None) => return Ok((typed, None)),
    };
    Ok((brought.command, Some(brought.source)))
}

/// Keeps what a server needs of an image.
///
/// # Errors
/// When the image names no program, or it cannot be copied.
fn of_image(server: &Name, image: &Image, typed: Vec<String>) -> anyhow::Result<Brought> {
    let about = &image.about;
    let mut command = match typed.is_empty() {
        true => about
            .entrypoint
            .iter()
            .chain(&about.command)
            .cloned()
            .collect(),
        false => typed,
    };
    let Some(program) = command.first_mut() else {
        bail!("the image names no program of its own: give one after --");
    };
    let pairs = about.env.iter().filter_map(|text| text.split_once('='));
    let env = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let root = image.root();
    let (kind, content, workdir) = match only_program(&root, program)? {
        Some(file) => {
            SERVER_PROGRAM.clone_into(program);
            (
                SourceKind::Program,
                keep(server, SourceKind::Program, &file)?,
                None,
            )
        }
        None => (
            SourceKind::Image,
            keep(server, SourceKind::Image, &root)?,
            about.workdir.clone(),
        ),
    };
    let from = image.asked.clone();
    let source = ServerSource {
        kind,
        from,
        content: content.to_string(),
        env,
        workdir,
    };
    Ok(Brought { source, command })
}

/// Keeps a folder.
///
/// # Errors
/// When it cannot be copied.
fn of_folder(server: &Name, folder: &Path, typed: Vec<String>) -> anyhow::Result<Brought> {
    let shown = folder.display();
    let whole = folder
        .canonicalize()
        .with_context(|| format!("cannot find the folder {shown}"))?;
    if !whole.is_dir() {
        bail!("{shown} is no folder");
    }
    let mut command = typed;
    let Some(program) = command.first_mut() else {
        bail!("name the program of the folder after --");
    };
    // A name of the folder's own; another one is looked up in the sandbox's PATH.
    if !program.starts_with('/') && whole.join(&*program).is_file() {
        *program = format!("{FOLDER}/{program}");
    }
    let content = keep(server, SourceKind::Folder, &whole)?;
    let from = whole.into_os_string().into_string();
    let source = ServerSource {
        kind: SourceKind::Folder,
        from: from.map_err(|_| anyhow::anyhow!("the folder's path is not UTF-8"))?,
        content: content.to_string(),
        env: BTreeMap::new(),
        workdir: Some(FOLDER.to_owned()),
    };
    Ok(Brought { source, command })
}

/// What a sandbox is given of it, if it is what was registered.
///
/// # Errors
/// When it is not here, or its bytes are others.
pub(crate) fn vetted(server: &str, source: &ServerSource) -> anyhow::Result<Kept> {
    let content: Digest = source
        .content
        .parse()
        .context("the server's content has no digest")?;
    let place = place(server, content)?;
    let path = place.join(inner(source.kind));
    let again = "`gig server add` on this machine brings them again";
    if fs::symlink_metadata(&path).is_err() {
        bail!(
            "the files of {server} ({}) are not on this machine: {again}",
            source.content
        );
    }
    let found = Content::of(&path, Limits::DEFAULT);
    let found = found.with_context(|| format!("cannot read the files of {server}"))?;
    if found != content {
        bail!(
            "refused: the files of {server} are not what was registered ({content}), but {found}: {again}"
        );
    }
    Ok(match source.kind {
        SourceKind::Image => Kept::Image(path),
        SourceKind::Program => Kept::Program(path),
        SourceKind::Folder => Kept::Folder(path),
    })
}

/// Removes all that was brought for a server.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn forget(server: &str) -> anyhow::Result<()> {
    let folder = data_dir::path()?.join("servers");
    let Ok(listed) = fs::read_dir(&folder) else {
        return Ok(());
    };
    for entry in listed.flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.rsplit_once('@'));
        if of.is_some_and(|(own, _)| own == server) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Copies it under a name that is none, and names it by what arrived.
fn keep(server: &Name, kind: SourceKind, from: &Path) -> anyhow::Result<Digest> {
    let data = data_dir::path()?;
    data_dir::make_private(&data)?;
    data_dir::refuse_shared(&data)?;
    let folder = data.join("servers");
    data_dir::make_private(&folder)?;
    let making = tempfile::Builder::new()
        .prefix(".making-")
        .tempdir_in(&folder);
    let making = making.context("cannot make a directory for the server's files")?;
    let target = making.path().join(inner(kind));
    let content = Content::copy(from, &target, Limits::DEFAULT)
        .with_context(|| format!("cannot copy {}", from.display()))?;
    if kind == SourceKind::Program {
        set_executable(&target)?;
    }
    let place = place(server.as_str(), content)?;
    if place.exists() {
        // What a former command brought may have been changed since.
        remove(&place)?;
    }
    rustix::fs::syncfs(File::open(making.path())?)
        .context("the disk does not keep the server's files")?;
    fs::rename(making.path(), &place).context("cannot name the server's files")?;
    // It has another name now, and stays.
    let _named = making.keep();
    Ok(content)
}

/// A static program is executable already; by everybody, and by nobody writable.
fn set_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o555))
        .context("cannot make it executable")
}

fn remove(path: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
}

fn place(server: &str, content: Digest) -> anyhow::Result<PathBuf> {
    // Else a name would lead elsewhere.
    let server: Name = server
        .parse()
        .map_err(|_| anyhow::anyhow!("{server:?} is no server's name"))?;
    let name = format!("{}@{}", server.as_str(), content.file_name());
    Ok(data_dir::path()?.join("servers").join(name))
}

const fn inner(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Image => "root",
        SourceKind::Program => "server",
        SourceKind::Folder => "app",
    }
}

/// The file of the program, if it is static and the image holds no other file that a program could need.
fn only_program(root: &Path, program: &str) -> anyhow::Result<Option<PathBuf>> {
    let Some(below) = program.strip_prefix('/') else {
        return Ok(None);
    };
    let top = File::open(root).context("cannot open the image")?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = openat2(&top, below, flags, Mode::empty(), resolve) else {
        return Ok(None);
    };
    let path = root.join(below);
    Ok((is_static(&File::from(file)) && holds_only(root, Path::new(below))?).then_some(path))
}

/// Whether no file is there beside this one, but what every base image has and gig builds itself. One that
/// has other names is run by them: it is many programs.
fn holds_only(root: &Path, program: &Path) -> anyhow::Result<bool> {
    let mut directories = vec![PathBuf::new()];
    while let Some(below) = directories.pop() {
        for entry in fs::read_dir(root.join(&below)).context("cannot read the image")? {
            let entry = entry.context("cannot read the image")?;
            let path = below.join(entry.file_name());
            let kind = entry.file_type().context("cannot read the image")?;
            let base = OF_A_BASE.iter().any(|base| path.starts_with(base));
            if kind.is_dir() {
                directories.push(path);
            } else if path == program || base {
                continue;
            } else if kind.is_file() || leads_to(&root.join(&path), program) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether a link ends in the program's name.
fn leads_to(link: &Path, program: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.file_name() == program.file_name())
}

/// Whether it is an ELF program for which the kernel starts no loader (elf(5)).
fn is_static(mut file: &File) -> bool {
    const INTERPRETER: u32 = 3;
    const MOST_HEADERS: u16 = 64;
    let mut head = [0_u8; 64];
    if file.read_exact(&mut head).is_err() {
        return false;
    }
    let [0x7f, b'E', b'L', b'F', 2, 1, ..] = head else {
        return false;
    };
    let [.., o0, o1, o2, o3, o4, o5, o6, o7] = *head.first_chunk::<40>().unwrap_or(&[0; 40]);
    let offset = u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]);
    let [.., s0, s1, c0, c1] = *head.first_chunk::<58>().unwrap_or(&[0; 58]);
    let (size, count) = (u16::from_le_bytes([s0, s1]), u16::from_le_bytes([c0, c1]));
    if size < 4 || count == 0 || count > MOST_HEADERS {
        return false;
    }
    (0..count).all(|number| {
        let mut kind = [0_u8; 4];
        let at = offset.checked_add(u64::from(number) * u64::from(size));
        let read = at.is_some_and(|at| file.read_exact_at(&mut kind, at).is_ok());
        read && u32::from_le_bytes(kind) != INTERPRETER
    })
}

/// Where a registered server's own file is in its sandbox (interface), and its folder.
const SERVER_PROGRAM: &str = "/app/server";
const FOLDER: &str = "/app";
/// Names, roots, time zones and lists of packages: gig builds the first two, and programs have their own of
/// the third or do without.
const OF_A_BASE: [&str; 8] = [
    "etc",
    "var/lib/dpkg",
    "usr/share/zoneinfo",
    "usr/share/ca-certificates",
    "usr/share/doc",
    "usr/share/common-licenses",
    "usr/share/base-files",
    "usr/lib/os-release",
];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_static_program_alone_is_told_from_one_that_needs_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let make = |name: &str, from: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::copy(from, root.join(name)).unwrap();
        };
        make("srv/run", "/bin/busybox");
        let alone = |program: &str| only_program(root, program).unwrap().is_some();
        assert!(alone("/srv/run"));
        assert!(!alone("srv/run"), "looked up inside");
        assert!(!alone("/srv") && !alone("/nothing") && !alone("/../srv/run"));
        symlink("srv/run", root.join("linked")).unwrap();
        assert!(!alone("/linked"), "a link leads where the image says");
        make("etc/ssl/certs/roots.pem", "/etc/hostname");
        fs::remove_file(root.join("linked")).unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        assert!(alone("/srv/run"), "a merged directory");
        symlink("../srv/run", root.join("etc/applet")).unwrap();
        assert!(alone("/srv/run"), "nobody's command");
        symlink("run", root.join("srv/applet")).unwrap();
        assert!(!alone("/srv/run"), "it has other names");
        fs::remove_file(root.join("srv/applet")).unwrap();
        make("srv/dynamic", "/bin/ls");
        assert!(!alone("/srv/run"), "another file");
        assert!(!alone("/srv/dynamic"));
        fs::remove_file(root.join("srv/run")).unwrap();
        assert!(!alone("/srv/dynamic"), "it needs its loader");
        fs::write(root.join("srv/dynamic"), "#!/bin/sh\n").unwrap();
        assert!(!alone("/srv/dynamic"), "it needs its interpreter");
    }

    #[test]
    fn no_servers_name_leads_elsewhere() {
        let content = Digest::of(b"");
        for name in ["", "..", "../x", "a/b", "/x", ".x"] {
            assert!(place(name, content).is_err(), "{name}");
        }
    }
}
