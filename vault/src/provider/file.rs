//! `file`: a file that something else keeps current, such as a mounted Kubernetes or Docker secret.

use std::{fs, io::Read as _, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    ProvideError, ProvideFuture, ProvideRequest, Provided, Provider, lifetime, without_line_end,
};
use crate::{secret_bytes::SecretBytes, vault::LARGEST};

/// Options of `file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOptions {
    /// Absolute.
    pub path: PathBuf,
    /// Seconds after which it is read again; 60 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// The line end after the value belongs to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_newline: bool,
}

#[derive(Debug)]
pub(super) struct File(FileOptions);

impl File {
    pub(super) fn new(options: &FileOptions) -> Self {
        Self(options.clone())
    }

    fn read(&self) -> Result<Provided, ProvideError> {
        let path = self.0.path.display();
        // It never grows, so that no copy is left behind unwiped.
        let mut octets = Vec::with_capacity(LARGEST + 2);
        let read = fs::File::open(&self.0.path)
            .and_then(|file| file.take(LARGEST as u64 + 1).read_to_end(&mut octets));
        let value = SecretBytes::new(octets);
        read.map_err(|error| ProvideError::Unavailable(format!("cannot read {path}: {error}")))?;
        if value.is_empty() || value.len() > LARGEST {
            return Err(ProvideError::Refused(format!(
                "{path} is empty or has more than {LARGEST} octets"
            )));
        }
        Ok(Provided {
            value: if self.0.keep_newline {
                value
            } else {
                without_line_end(value)
            },
            version: None,
            lifetime: lifetime(self.0.ttl),
        })
    }
}

impl Provider for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn provide<'a>(&'a self, _: ProvideRequest<'a>) -> ProvideFuture<'a> {
        Box::pin(std::future::ready(self.read()))
    }
}
