//! How large an image may be, in every way in which one can be too large.

use std::time::Duration;

/// Bounds of one image; what is above is refused, and nothing of it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Layers. What engines mount has at most 128, and builders keep to that.
    pub layers: usize,
    /// Octets of an index, a manifest or a configuration: registries take four million.
    pub document: u64,
    /// Octets of all layers, as they are sent.
    pub packed: u64,
    /// Octets of all files: a machine-learning image has twenty thousand million.
    pub unpacked: u64,
    /// Entries of all layers: files, directories, links and what takes them away.
    pub entries: u64,
    /// Octets of the names of all entries, and of where links lead: a million of two hundred and fifty.
    pub names: u64,
    /// Octets of a path, as the kernel's own bound (`PATH_MAX`).
    pub path: usize,
    /// Directories within each other.
    pub depth: usize,
    /// How long one layer may be unpacked.
    pub layer_within: Duration,
}

impl Limits {
    /// What any honest image keeps to.
    pub const DEFAULT: Self = Self {
        layers: 128,
        document: 4 << 20,
        packed: 16 << 30,
        unpacked: 32 << 30,
        entries: 1_000_000,
        names: 256 << 20,
        path: 4096,
        depth: 128,
        layer_within: Duration::from_mins(20),
    };
}
