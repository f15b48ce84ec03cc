//! Reading a layer: the program without rights that sees a stranger's bytes.
//!
//! It has one file to read and one pipe to write, and says in [`words`](super::words) what the layer wants to have
//! made. What it refuses it refuses for a better message; what must hold is checked by who hears it.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::ExitCode;

use flate2::bufread::MultiGzDecoder;
use rustix::process::{Resource, Rlimit, setrlimit};
use tar::{Archive, Entry, EntryType};

use super::limits::Limits;
use super::words::{Kind, Word};
use super::zstd;

/// `argv[1]` of the program that reads a layer: `main` calls [`intake_main`] when it sees this.
pub const INTAKE_ARGUMENT: &str = "image-intake-process";

/// What it may map: the largest window of Zstandard, some buffers and itself.
const MEMORY: u64 = 1 << 30;
/// Octets at a time.
const CHUNK: usize = 1 << 16;

/// The process: a layer on standard input, words on standard output.
#[must_use]
pub fn intake_main() -> ExitCode {
    let bound = |resource, most| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)
    };
    let bounded = bound(Resource::As, MEMORY)
        .and_then(|()| bound(Resource::Cpu, Limits::DEFAULT.layer_within.as_secs()))
        .and_then(|()| bound(Resource::Fsize, 0))
        .and_then(|()| bound(Resource::Nproc, 0));
    if bounded.is_err() {
        return ExitCode::FAILURE;
    }
    let mut out = BufWriter::with_capacity(CHUNK, io::stdout().lock());
    match read_layer(io::stdin().lock(), &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Reads one layer and says what it wants made. What is wrong with it is the last word.
///
/// # Errors
/// If nobody listens, or the layer breaks off within a file.
pub fn read_layer(from: impl Read, to: &mut impl Write) -> io::Result<()> {
    let last = match unpacked(from).and_then(|layer| entries(layer, to)) {
        Ok(()) => Word::of(Kind::End, Vec::new()),
        Err(Stop::Broken(error)) => return Err(error),
        Err(Stop::Refused(why)) => Word::of(Kind::Failed, why.into_bytes()),
    };
    last.write(to)?;
    to.flush()
}

/// Why reading ends early.
enum Stop {
    /// What is wrong with the layer.
    Refused(String),
    /// There is nobody to tell, or no place in the stream to tell it at.
    Broken(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.to_string().chars().take(300).collect())
    }
}

fn refused<T>(why: &str) -> Result<T, Stop> {
    Err(Stop::Refused(why.to_owned()))
}

/// The archive itself, whatever it is packed in: its first bytes say.
fn unpacked<'a>(from: impl Read + 'a) -> Result<Box<dyn Read + 'a>, Stop> {
    let mut packed = BufReader::with_capacity(CHUNK, from);
    let first = packed.fill_buf()?;
    Ok(match first {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(packed)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Unpacked::new(packed)?),
        _ => Box::new(packed),
    })
}

fn entries(layer: impl Read, to: &mut impl Write) -> Result<(), Stop> {
    let mut archive = Archive::new(layer);
    for entry in archive.entries()? {
        one(&mut entry?, to)?;
    }
    Ok(())
}

fn one(entry: &mut Entry<'_, impl Read>, to: &mut impl Write) -> Result<(), Stop> {
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions {
            // The file would have another name and other octets than its header says.
            if extension?.key_bytes().starts_with(b"GNU.sparse") {
                return refused("it holds a sparse file in a form that gig does not read");
            }
        }
    }
    let header = entry.header();
    let executable = header.mode()? & 0o111 != 0;
    let name = entry.path_bytes().into_owned();
    let old_directory = header.entry_type() == EntryType::Regular && name.ends_with(b"/");
    let kind = match header.entry_type() {
        EntryType::Directory => Kind::Directory,
        _ if old_directory => Kind::Directory,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
        EntryType::Symlink => Kind::Link,
        EntryType::Link => Kind::Same,
        EntryType::Char | EntryType::Block | EntryType::Fifo => Kind::LeftOut,
        EntryType::XGlobalHeader => return Ok(()),
        _ => return refused("it holds an entry of a kind that no image has"),
    };
    let target = match kind {
        Kind::Link | Kind::Same => match entry.link_name_bytes() {
            Some(target) => target.into_owned(),
            None => return refused("it holds a link that leads nowhere"),
        },
        _ => Vec::new(),
    };
    if name.len().max(target.len()) > Word::LONGEST {
        return refused("it holds a name that is too long");
    }
    let word = Word {
        kind,
        executable,
        size: if kind == Kind::File { entry.size() } else { 0 },
        name,
        target,
    };
    word.write(to).map_err(Stop::Broken)?;
    if kind == Kind::File {
        octets(entry, word.size, to).map_err(Stop::Broken)?;
    }
    Ok(())
}

/// As many as were announced.
fn octets(from: &mut impl Read, size: u64, to: &mut impl Write) -> io::Result<()> {
    let copied = io::copy(&mut from.take(size), to)?;
    if copied == size {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
