//! OCI images: what names one, what its documents say, and how its layers become a directory.
//!
//! Everything here was written by a stranger. Promises that nothing counts that has not the digest and
//! the size by which it was asked for; that the bytes of a layer are read by a program without rights
//! ([`read_layer`], which a sandbox is put around) that only says what is to be made; and that what is
//! made of its words ([`Unpacking`]) lies below one directory, within [`Limits`], with no owner, device
//! or mode of the stranger's. Leaves the network, and where images are kept, to its caller.

mod content;
mod digest;
mod document;
mod intake;
mod limits;
mod reference;
mod unpack;
mod words;
mod zstd;

pub use content::{Content, ContentError};
pub use digest::{Digest, Digesting, ParseDigestError};
pub use document::{
    Config, Descriptor, Document, DocumentError, INDEX_TYPES, MANIFEST_TYPES, Manifest,
};
pub use intake::{INTAKE_ARGUMENT, intake_main, read_layer};
pub use limits::Limits;
pub use reference::{ParseReferenceError, Reference};
pub use unpack::{Stock, UnpackError, Unpacking};
