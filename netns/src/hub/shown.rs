//! The caller's side of trees: which ones the hub has.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::hub::{Hub, out_of_turn, trees};
use crate::hub_protocol::{Failure, Reply, Request, TreeRequest};
use crate::tree::Tree;

/// Names of trees that the hub has, oldest first: as the hub keeps them.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<VecDeque<String>>);

/// Why a tree is not there.
#[derive(Debug, thiserror::Error)]
pub enum ShowTreeError {
    /// Its contents could not be passed.
    #[error("a tree of files could not be written down")]
    Contents(#[source] io::Error),
    /// The hub is gone.
    #[error("the hub was lost before it built a tree of files")]
    Lost(#[source] io::Error),
    /// The hub could not build it.
    #[error("the hub did not build a tree of files")]
    Refused(#[source] Failure),
}

impl Hub {
    /// Sees to it that the tree stands at its place, for programs that are
    /// started from now on. Costs nothing when it was there already.
    ///
    /// # Errors
    /// If it cannot be built or the hub is gone.
    pub fn show(&self, tree: &Tree) -> Result<(), ShowTreeError> {
        let mut names = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.iter().any(|name| name == tree.named()) {
            return Ok(());
        }
        let contents = contents(&tree.contents).map_err(ShowTreeError::Contents)?;
        let request = Request::Tree(TreeRequest {
            name: tree.named().to_owned(),
            entries: tree.entries.clone(),
        });
        match self.answer(Some(&request), &[contents.as_fd()]) {
            Ok((Reply::Grown, _)) => {}
            Ok((Reply::Failed(failure), _)) => return Err(ShowTreeError::Refused(failure)),
            Ok((other, _)) => return Err(ShowTreeError::Lost(out_of_turn(&other))),
            Err(error) => return Err(ShowTreeError::Lost(error)),
        }
        names.push_back(tree.named().to_owned());
        while names.len() > trees::KEPT {
            names.pop_front();
        }
        Ok(())
    }
}

fn contents(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("gig-tree", MemfdFlags::CLOEXEC)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(file)
}
