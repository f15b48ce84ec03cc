//! Brotli.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut,
};

use super::{DecodeError, Engine};
use crate::credential::memory::{Memory, NoMemory, Share};

type State = BrotliState<Counted, Counted, Counted>;

/// Undoes Brotli; the large windows that RFC 7932 does not have are refused.
pub(super) struct Brotli {
    state: Box<State>,
    alloc: Counted,
    over: bool,
    _share: Share,
}

impl Brotli {
    pub(super) fn new(memory: &Arc<Memory>) -> Result<Self, NoMemory> {
        let share = memory.take(size_of::<State>() + LITTLE)?;
        let alloc = Counted {
            memory: Arc::clone(memory),
            refused: Arc::default(),
        };
        let state = Box::new(State::new_strict(
            alloc.clone(),
            alloc.clone(),
            alloc.clone(),
        ));
        if alloc.is_refused() {
            return Err(NoMemory);
        }
        Ok(Self {
            state,
            alloc,
            over: false,
            _share: share,
        })
    }
}

impl Engine for Brotli {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<(usize, usize), DecodeError> {
        if self.over {
            return Ok((input.len(), 0));
        }
        let (mut left, mut read) = (input.len(), 0);
        let (mut space, mut written, mut total) = (room.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut space,
            &mut written,
            room,
            &mut total,
            &mut self.state,
        );
        if self.alloc.is_refused() {
            return Err(NoMemory.into());
        }
        match result {
            BrotliResult::ResultSuccess => self.over = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(DecodeError::Broken),
        }
        Ok((read, written))
    }

    fn is_whole(&self) -> bool {
        self.over
    }
}

/// Allocates what the sandbox's memory has room for.
#[derive(Debug, Clone)]
struct Counted {
    memory: Arc<Memory>,
    /// Once, there was none.
    refused: Arc<AtomicBool>,
}

/// What was allocated.
struct Cell<T> {
    items: Box<[T]>,
    _share: Option<Share>,
}

impl Counted {
    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

impl<T: Clone + Default> Allocator<T> for Counted {
    type AllocatedMemory = Cell<T>;

    /// What cannot be had is empty, which the decoder takes for a failure wherever it asks for much. It
    /// does not everywhere else: there it gets what it asks for, and no further step.
    fn alloc_cell(&mut self, length: usize) -> Cell<T> {
        let octets = length.saturating_mul(size_of::<T>());
        let share = self.memory.take(octets).ok();
        if share.is_none() {
            self.refused.store(true, Ordering::Relaxed);
            if octets > LITTLE {
                return Cell::default();
            }
        }
        Cell {
            items: vec![T::default(); length].into(),
            _share: share,
        }
    }

    fn free_cell(&mut self, _: Cell<T>) {}
}

impl<T> Default for Cell<T> {
    fn default() -> Self {
        Self {
            items: Box::default(),
            _share: None,
        }
    }
}

impl<T> SliceWrapper<T> for Cell<T> {
    fn slice(&self) -> &[T] {
        &self.items
    }
}

impl<T> SliceWrapperMut<T> for Cell<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl fmt::Debug for Brotli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Brotli(over: {})", self.over)
    }
}

/// More than each of the decoder's tables of fixed size has, and than what is around the decoder.
const LITTLE: usize = 16 * 1024;
