//! Proof of a file that holds more than one chain: an export with its checkpoints.
//!
//! Each chain begins with a line that names it and its end, then come its checkpoints, then its
//! records. A file without such lines is one chain without checkpoints, as `gig run` writes it.

use std::{io::BufRead, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Expected, Verifier, VerifyError};
use crate::{
    chain::{ChainFault, Head},
    checkpoint::{self, CheckpointFault, Segments},
    log::{
        ChainVerdict, LogVerdict,
        lines::{Line, Lines},
    },
    record::ChainHash,
};

/// The line that a chain begins with in an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedChain {
    /// Whose chain.
    pub node: Arc<str>,
    /// The place of its last record.
    pub last: u64,
    /// The hash of its last record.
    pub hash: ChainHash,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    export: ExportedChain,
}

impl ExportedChain {
    /// Its line, without a newline.
    #[must_use]
    pub fn line(&self) -> String {
        let header = Header {
            export: self.clone(),
        };
        serde_json::to_string(&header).unwrap_or_default()
    }
}

/// Checks every chain of a file.
///
/// The first thing that does not hold ends the reading; it is told of the chain that it is in.
#[must_use]
pub fn verify_lines(reader: impl BufRead, expected: Expected<'_>) -> LogVerdict {
    let mut file = File {
        expected,
        begun: None,
        chains: Vec::new(),
    };
    let mut lines = Lines::new(reader);
    loop {
        let line = lines.number() + 1;
        let read = match lines.next_line() {
            Err(source) => Err(VerifyError::Read { line, source }),
            Ok(found) => {
                let more = found.is_some();
                let taken = match found {
                    None => file.end_chain(),
                    Some(Line::Whole(octets)) => file.line(octets),
                    Some(Line::Unfinished(_)) => Err(ChainFault::Unfinished),
                    Some(Line::TooLong) => Err(ChainFault::TooLong),
                };
                taken
                    .map(|()| more)
                    .map_err(|why| VerifyError::BrokenAt { line, why })
            }
        };
        match read {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                file.broken(error);
                break;
            }
        }
    }
    LogVerdict {
        chains: file.chains,
        ..LogVerdict::default()
    }
}

struct File<'a> {
    expected: Expected<'a>,
    begun: Option<Begun>,
    chains: Vec<ChainVerdict>,
}

/// The chain that is being read.
struct Begun {
    /// `None` in a file that is one chain.
    named: Option<ExportedChain>,
    state: State,
}

enum State {
    Checkpoints(Segments),
    Records(Box<Verifier>),
}

impl File<'_> {
    fn line(&mut self, octets: &[u8]) -> Result<(), ChainFault> {
        if octets.starts_with(HEADER) {
            if self.begun.is_some() {
                self.end_chain()?;
            }
            let header: Header = serde_json::from_slice(octets)
                .map_err(|error| ChainFault::NotARecord(error.to_string()))?;
            self.begun = Some(Begun::new(Some(header.export), self.expected));
            return Ok(());
        }
        let expected = self.expected;
        let begun = self.begun.get_or_insert_with(|| Begun::new(None, expected));
        if octets.starts_with(checkpoint::FIRST_OCTETS.as_bytes()) {
            return begun.checkpoint(octets);
        }
        begun.record(octets, expected)
    }

    /// Ends the chain that is being read; an empty file is one, too.
    fn end_chain(&mut self) -> Result<(), ChainFault> {
        if self.begun.is_none() && !self.chains.is_empty() {
            return Ok(());
        }
        let expected = self.expected;
        let begun = self.begun.get_or_insert_with(|| Begun::new(None, expected));
        // Until it is seen to be whole, a fault is told of this chain.
        let verified = std::mem::take(begun.begin_records(expected)?).finish()?;
        if let Some(named) = &begun.named {
            let end = Head {
                seq: named.last,
                hash: named.hash,
            };
            if verified.head != end {
                let (expected, found) = (end, verified.head);
                return Err(ChainFault::End { expected, found });
            }
        }
        let named = self.begun.take().and_then(|begun| begun.named);
        self.chains.push(ChainVerdict {
            node: named.map(|named| named.node.to_string()),
            outcome: Ok(verified),
        });
        Ok(())
    }

    fn broken(&mut self, error: VerifyError) {
        let named = self.begun.take().and_then(|begun| begun.named);
        self.chains.push(ChainVerdict {
            node: named.map(|named| named.node.to_string()),
            outcome: Err(error),
        });
    }
}

impl Begun {
    fn new(named: Option<ExportedChain>, expected: Expected<'_>) -> Self {
        Self {
            named,
            state: State::Checkpoints(Segments::new(expected.keys)),
        }
    }

    fn checkpoint(&mut self, octets: &[u8]) -> Result<(), ChainFault> {
        let (Some(named), State::Checkpoints(segments)) = (&self.named, &mut self.state) else {
            return Err(ChainFault::NotARecord(
                "a checkpoint stands where a record should".to_owned(),
            ));
        };
        let number = segments.count() + 1;
        let broken = |why| ChainFault::Checkpoint { number, why };
        let line = octets.strip_suffix(b"\n").unwrap_or(octets);
        let line = std::str::from_utf8(line)
            .map_err(|error| broken(CheckpointFault::NotACheckpoint(error.to_string())))?;
        segments.take(line).map_err(broken)?;
        match segments.node() {
            Some(node) if *node != *named.node => {
                Err(broken(CheckpointFault::Elsewhere(node.into())))
            }
            _ => Ok(()),
        }
    }

    fn record(&mut self, octets: &[u8], expected: Expected<'_>) -> Result<(), ChainFault> {
        let node = self.named.as_ref().map(|named| Arc::clone(&named.node));
        let record = self.begin_records(expected)?.line(octets)?;
        match node {
            Some(node) if node != record.node => Err(ChainFault::Elsewhere {
                place: record.seq,
                seq: record.seq,
                node: record.node,
            }),
            _ => Ok(()),
        }
    }

    fn begin_records(&mut self, expected: Expected<'_>) -> Result<&mut Verifier, ChainFault> {
        if let State::Checkpoints(segments) = &mut self.state {
            if segments.count() == 0 && !expected.keys.is_empty() {
                return Err(ChainFault::Unsigned);
            }
            let segments = std::mem::replace(segments, Segments::new(&[]));
            self.state = State::Records(Box::new(Verifier::new(segments, expected.records)));
        }
        match &mut self.state {
            State::Records(verifier) => Ok(verifier),
            State::Checkpoints(_) => Err(ChainFault::Unsigned),
        }
    }
}

const HEADER: &[u8] = b"{\"export\":";
