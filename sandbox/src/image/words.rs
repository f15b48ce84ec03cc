//! The words in which a layer's reader says what is to be made: few, short and bounded.
//!
//! The reader has seen hostile bytes and may be theirs by now, so these words are all that it can do:
//! whoever hears them checks each.

use std::io::{self, Read, Write};

/// One thing to make; a file's octets follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) kind: Kind,
    /// Whether somebody may execute it.
    pub(super) executable: bool,
    /// Octets that follow.
    pub(super) size: u64,
    /// As the layer has it, or what went wrong.
    pub(super) name: Vec<u8>,
    /// Where a link leads.
    pub(super) target: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    /// A symbolic link.
    Link,
    /// Another name of a file that is there.
    Same,
    /// A device or a pipe: nothing is made.
    LeftOut,
    /// The layer is whole.
    End,
    /// The layer is none; the name says why.
    Failed,
}

const KINDS: [Kind; 7] = [
    Kind::Directory,
    Kind::File,
    Kind::Link,
    Kind::Same,
    Kind::LeftOut,
    Kind::End,
    Kind::Failed,
];
/// Kind, executable, length of the name, of the target, and the size.
const HEAD: usize = 14;

impl Word {
    /// Octets of a name that can be said.
    pub(super) const LONGEST: usize = u16::MAX as usize;

    pub(super) const fn of(kind: Kind, name: Vec<u8>) -> Self {
        Self {
            kind,
            executable: false,
            size: 0,
            name,
            target: Vec::new(),
        }
    }

    /// Says it.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let short = |bytes: &[u8]| {
            u16::try_from(bytes.len()).map_err(|_| io::Error::other("a name is too long"))
        };
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        let kind = u8::try_from(kind.unwrap_or_default()).unwrap_or_default();
        let mut head = vec![kind, u8::from(self.executable)];
        head.extend(short(&self.name)?.to_le_bytes());
        head.extend(short(&self.target)?.to_le_bytes());
        head.extend(self.size.to_le_bytes());
        head.extend(&self.name);
        head.extend(&self.target);
        to.write_all(&head)
    }

    /// Hears one.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let [kind, executable, n0, n1, t0, t1, size @ ..] = head;
        let unknown = || io::Error::other("an unknown word");
        let bytes = |from: &mut dyn Read, length: u16| {
            let mut bytes = vec![0; usize::from(length)];
            from.read_exact(&mut bytes).map(|()| bytes)
        };
        Ok(Self {
            kind: *KINDS.get(usize::from(kind)).ok_or_else(unknown)?,
            executable: executable != 0,
            size: u64::from_le_bytes(size),
            name: bytes(from, u16::from_le_bytes([n0, n1]))?,
            target: bytes(from, u16::from_le_bytes([t0, t1]))?,
        })
    }
}
