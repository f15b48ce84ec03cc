//! What a home that is shown to be read holds, but for its credentials, for [`crate::layers::frames`].
//!
//! Every directory between what is shown and where a home may keep credentials becomes one of the sandbox's
//! own, so that neither a credential nor its name is ever in it. What is deeper is shown as it is.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::hidden::Hidden;
use super::places::{CREDENTIALS, HOLDERS};
use crate::facts;
use crate::layers::mounts::{Frame, Mask, VettedBind};
use crate::spec::BindMode;

/// Each entry is a mount, and each mount costs a look at all others.
const MOST_ENTRIES: usize = 1024;

/// The frame of a vetted mount: none if it is no home and holds none, or if it cannot be listed or holds too
/// much; then its covers are watched ([`crate::watch`]).
pub(super) fn frame(bind: &VettedBind, hidden: &Hidden) -> Option<Frame> {
    if bind.mode == BindMode::Rw || !bind.directory {
        return None;
    }
    let source = &bind.source;
    let homes = hidden.homes();
    // The system's accounts have homes that everybody sees.
    let homes: Vec<&PathBuf> = homes.iter().filter(|home| !facts::is_shown(home)).collect();
    let directory = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let framed: BTreeSet<PathBuf> = homes
        .iter()
        .flat_map(|home| HOLDERS.map(|holder| home.join(holder)))
        .filter(|holder| holder.starts_with(source) && directory(holder))
        .flat_map(|holder| {
            let between = holder.ancestors().map(Path::to_owned);
            between
                .take_while(|above| above.starts_with(source))
                .collect::<Vec<_>>()
        })
        .collect();
    if framed.is_empty() {
        return None;
    }
    let listed = homes
        .iter()
        .flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
    let masked = bind.masks.iter().map(|mask| source.join(&mask.below));
    let mut making = Making {
        bind,
        framed,
        left_out: listed.chain(masked).collect(),
        entries: 0,
    };
    making.frame(source, &bind.dest).ok()
}

struct Making<'a> {
    bind: &'a VettedBind,
    framed: BTreeSet<PathBuf>,
    left_out: BTreeSet<PathBuf>,
    entries: usize,
}

impl Making<'_> {
    fn frame(&mut self, source: &Path, dest: &Path) -> io::Result<Frame> {
        let mut frame = Frame::default();
        let mut entries = fs::read_dir(source)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            if self.left_out.contains(&path) {
                continue;
            }
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_symlink() {
                if let Ok(target) = fs::read_link(&path) {
                    frame.links.push((name, target));
                }
            } else if kind.is_dir() || kind.is_file() {
                let dest = dest.join(&name);
                frame.places.push((name, kind.is_dir()));
                let piece = self.piece(path, dest, kind.is_dir())?;
                frame.pieces.push(piece);
            }
        }
        Ok(frame)
    }

    fn piece(&mut self, source: PathBuf, dest: PathBuf, directory: bool) -> io::Result<VettedBind> {
        let framed = directory && self.framed.contains(&source);
        let frame = framed.then(|| self.frame(&source, &dest)).transpose()?;
        let masks = self.bind.masks.iter().filter_map(|mask| {
            let path = self.bind.source.join(&mask.below);
            Some(Mask {
                below: path.strip_prefix(&source).ok()?.to_owned(),
                directory: mask.directory,
            })
        });
        Ok(VettedBind {
            // In a frame they are left out.
            masks: if framed { Vec::new() } else { masks.collect() },
            source,
            dest,
            mode: BindMode::Ro,
            directory,
            public: false,
            owned_as: Some(self.bind.source.clone()),
            frame,
        })
    }
}
