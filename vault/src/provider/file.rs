//! `file`: a file that something else keeps current, such as a mounted Kubernetes or Docker secret, or a
//! pipe that a password manager writes to when it is read. Bounded in size and time ([`super::reading`]).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    ProvideError, ProvideFuture, ProvideRequest, Provided, Provider, lifetime, reading::Reader,
    without_line_end,
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
pub(super) struct File {
    options: FileOptions,
    reader: Reader,
}

impl File {
    pub(super) fn new(options: &FileOptions) -> Self {
        Self {
            options: options.clone(),
            reader: Reader::default(),
        }
    }

    async fn read(&self) -> Result<Provided, ProvideError> {
        let path = self.options.path.display();
        let octets = self.reader.read(&self.options.path, LARGEST).await;
        let octets = octets.map_err(ProvideError::Unavailable)?;
        let value = SecretBytes::copy_of(&octets);
        let refused = |why: String| Err(ProvideError::Refused(format!("{path} {why}")));
        if value.len() > LARGEST {
            return refused(format!("has more than {LARGEST} octets"));
        }
        let value = match self.options.keep_newline {
            true => value,
            false => without_line_end(value),
        };
        if value.is_empty() {
            return refused("is empty, or holds a line end alone".to_owned());
        }
        Ok(Provided {
            value,
            version: None,
            lifetime: lifetime(self.options.ttl),
        })
    }
}

impl Provider for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn provide<'a>(&'a self, _: ProvideRequest<'a>) -> ProvideFuture<'a> {
        Box::pin(self.read())
    }
}
