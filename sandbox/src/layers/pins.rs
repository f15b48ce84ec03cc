//! Holding what lies above a mask, or above a read-only mount, in its place.
//!
//! Either covers a place, and a directory above it in a writable mount could be
//! moved: the host would have the credentials under another name, which the
//! next sandbox would be shown, or another file where the record was, or hooks
//! that the program wrote where its caller had shown them read-only. So every
//! directory between is mounted onto itself; the kernel moves no mount point.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::layers::mounts::{Mask, VettedBind};
use crate::spec::BindMode;

/// The mounts with their pins, each with the masks that lie in it, parents first.
pub(crate) fn pinned(binds: Vec<VettedBind>) -> Vec<VettedBind> {
    let dests: Vec<_> = binds
        .iter()
        .map(|bind| (bind.dest.clone(), bind.mode))
        .collect();
    let mut all: Vec<VettedBind> = Vec::new();
    for mut bind in binds {
        if bind.mode == BindMode::Rw {
            all.extend(split(&mut bind, &dests));
        }
        all.push(bind);
    }
    // Stable: a pin comes before a mount of the caller's at the same place.
    all.sort_by_key(|bind| bind.dest.components().count());
    all
}

/// Takes the masks that lie deeper out of the mount, into pins.
fn split(bind: &mut VettedBind, dests: &[(PathBuf, BindMode)]) -> Vec<VettedBind> {
    let above = |mask: &Mask| mask.below.parent().map(Path::to_owned).unwrap_or_default();
    let (direct, deep): (Vec<_>, Vec<_>) = std::mem::take(&mut bind.masks)
        .into_iter()
        .partition(|mask| above(mask).as_os_str().is_empty());
    bind.masks = direct;
    let kept = dests.iter().filter(|(_, mode)| *mode == BindMode::Ro);
    let kept = kept.filter_map(|(dest, _)| dest.strip_prefix(&bind.dest).ok());
    // Where a place is not there, its mount says so.
    let is_there = |place: &&Path| bind.source.join(place).is_dir();
    let places: BTreeSet<PathBuf> = deep
        .iter()
        .flat_map(|mask| mask.below.ancestors().skip(1))
        .chain(
            kept.flat_map(|below| below.ancestors().skip(1))
                .filter(is_there),
        )
        .filter(|place| !place.as_os_str().is_empty())
        .map(Path::to_owned)
        .collect();
    let pin = |place: PathBuf| VettedBind {
        source: bind.source.join(&place),
        dest: bind.dest.join(&place),
        mode: bind.mode,
        directory: true,
        public: false,
        // Owned inside by whoever owns the whole outside: a folder of somebody else's stays as closed as it was.
        owned_as: Some(bind.owned_as.as_ref().unwrap_or(&bind.source).clone()),
        frame: None,
        masks: deep
            .iter()
            .filter(|mask| above(mask) == place)
            .map(|mask| Mask {
                below: mask
                    .below
                    .file_name()
                    .map(PathBuf::from)
                    .unwrap_or_default(),
                directory: mask.directory,
            })
            .collect(),
    };
    // What another mount of the caller's covers is not there to be moved.
    let covered = |pin: &VettedBind| {
        dests.iter().any(|(dest, _)| {
            dest != &bind.dest && dest.starts_with(&bind.dest) && pin.dest.starts_with(dest)
        })
    };
    places
        .into_iter()
        .map(pin)
        .filter(|pin| !covered(pin))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(dest: &str, mode: BindMode, masks: &[&str]) -> VettedBind {
        VettedBind {
            source: Path::new("/host").join(dest.trim_start_matches('/')),
            dest: dest.into(),
            mode,
            directory: true,
            public: false,
            owned_as: None,
            frame: None,
            masks: masks
                .iter()
                .map(|below| Mask {
                    below: below.into(),
                    directory: true,
                })
                .collect(),
        }
    }

    fn told(binds: Vec<VettedBind>) -> Vec<String> {
        let words = |bind: VettedBind| {
            let masks: Vec<_> = bind
                .masks
                .iter()
                .map(|m| m.below.display().to_string())
                .collect();
            format!(
                "{} {} [{}]",
                bind.source.display(),
                bind.dest.display(),
                masks.join(" ")
            )
        };
        pinned(binds).into_iter().map(words).collect()
    }

    #[test]
    fn every_directory_above_a_mask_is_held() {
        let masks = [".ssh", ".config/gcloud", ".local/share/keyrings"];
        assert_eq!(
            told(vec![bind("/w", BindMode::Rw, &masks)]),
            [
                "/host/w /w [.ssh]",
                "/host/w/.config /w/.config [gcloud]",
                "/host/w/.local /w/.local []",
                "/host/w/.local/share /w/.local/share [keyrings]",
            ]
        );
    }

    #[test]
    fn every_directory_above_what_is_shown_read_only_is_held() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(".git/info/x")).unwrap();
        let whole = || VettedBind {
            source: folder.path().to_owned(),
            ..bind("/w", BindMode::Rw, &[])
        };
        let told = |mode| {
            let all = pinned(vec![whole(), bind("/w/.git/info/x", mode, &[])]);
            all.into_iter().map(|bind| bind.dest).collect::<Vec<_>>()
        };
        let places = ["/w", "/w/.git", "/w/.git/info", "/w/.git/info/x"];
        assert_eq!(told(BindMode::Ro), places.map(PathBuf::from));
        assert_eq!(
            told(BindMode::Rw),
            ["/w", "/w/.git/info/x"].map(PathBuf::from)
        );
        let absent = pinned(vec![whole(), bind("/w/no/where", BindMode::Ro, &[])]);
        assert_eq!(absent.len(), 2, "{absent:?}");
    }

    #[test]
    fn what_cannot_be_moved_is_left_as_it_is() {
        let masks = [".config/gcloud"];
        assert_eq!(
            told(vec![bind("/w", BindMode::Ro, &masks)]),
            ["/host/w /w [.config/gcloud]"]
        );
        let other = bind("/w/.config", BindMode::Ro, &["gcloud"]);
        assert_eq!(
            told(vec![bind("/w", BindMode::Rw, &masks), other]),
            ["/host/w /w []", "/host/w/.config /w/.config [gcloud]"]
        );
    }
}
