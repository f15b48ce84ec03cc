//! A home that is shown to be read, laid out: a directory of the sandbox's own, and in it what the home holds.
//!
//! A cover over a credential does not last where the host is free to work: the kernel takes a mount away when
//! another mount namespace removes its place or renames another file over it (as everybody does who writes a
//! file anew), and it goes along when its place is moved. In a directory of the sandbox's own nothing moves,
//! and what the host makes later is not there.

use std::path::PathBuf;

use crate::layers::mounts::VettedBind;

/// Every mount with the pieces of its frame behind it, but for what another mount of the caller's covers.
pub(crate) fn laid_out(binds: Vec<VettedBind>) -> Vec<VettedBind> {
    let dests: Vec<PathBuf> = binds.iter().map(|bind| bind.dest.clone()).collect();
    let mut all = Vec::new();
    for (at, bind) in binds.into_iter().enumerate() {
        // Nobody sees it, and its pieces would be mounted into what covers it.
        if bind.frame.is_some() && dests.iter().skip(at + 1).any(|dest| *dest == bind.dest) {
            continue;
        }
        let inside: Vec<&PathBuf> = dests
            .iter()
            .filter(|dest| **dest != bind.dest && dest.starts_with(&bind.dest))
            .collect();
        lay_out(bind, &inside, &mut all);
    }
    all
}

fn lay_out(mut bind: VettedBind, covers: &[&PathBuf], all: &mut Vec<VettedBind>) {
    if covers.iter().any(|cover| bind.dest.starts_with(cover)) {
        return;
    }
    let frame = bind.frame.as_mut();
    let pieces = frame.map(|frame| std::mem::take(&mut frame.pieces));
    all.push(bind);
    for piece in pieces.unwrap_or_default() {
        lay_out(piece, covers, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::mounts::Frame;
    use crate::spec::BindMode;

    fn bind(dest: &str, pieces: Option<Vec<VettedBind>>) -> VettedBind {
        VettedBind {
            source: "/host".into(),
            dest: dest.into(),
            mode: BindMode::Ro,
            directory: true,
            masks: Vec::new(),
            public: false,
            owned_as: None,
            frame: pieces.map(|pieces| Frame {
                pieces,
                ..Frame::default()
            }),
        }
    }

    fn home() -> VettedBind {
        let config = bind("/h/.config", Some(vec![bind("/h/.config/gh", None)]));
        bind("/h", Some(vec![config, bind("/h/src", None)]))
    }

    fn places(binds: Vec<VettedBind>) -> Vec<PathBuf> {
        laid_out(binds).into_iter().map(|bind| bind.dest).collect()
    }

    #[test]
    fn pieces_follow_what_they_lie_in() {
        let all = ["/h", "/h/.config", "/h/.config/gh", "/h/src"].map(PathBuf::from);
        assert_eq!(places(vec![home()]), all);
    }

    #[test]
    fn no_piece_is_mounted_into_another_mount_of_the_callers() {
        let config = bind("/h/.config", None);
        let expected = ["/h", "/h/src", "/h/.config"].map(PathBuf::from);
        assert_eq!(places(vec![home(), config]), expected);
        let same = bind("/h", None);
        assert_eq!(places(vec![home(), same]), [PathBuf::from("/h")]);
    }
}
