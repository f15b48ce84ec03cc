//! `command`: what a program prints, such as a password manager's command line.
//!
//! No shell: an absolute path and its arguments. Its environment is empty but for what the definition
//! lists, its standard error goes nowhere, its output and its time are bounded, and it is killed when
//! nobody waits for it any more.

use std::{path::PathBuf, process::Stdio, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{io::AsyncReadExt as _, time::timeout};
use zeroize::Zeroizing;

use super::{
    ProvideError, ProvideFuture, ProvideRequest, Provided, Provider, lifetime, without_line_end,
};
use crate::{secret_bytes::SecretBytes, vault::LARGEST};

/// Options of `command`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandOptions {
    /// Absolute.
    pub program: PathBuf,
    /// Its arguments, none of them secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of gig's own environment that it gets; none when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<String>,
    /// Seconds it may take; 10 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Seconds after which it is asked again; 60 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// The line end after the value belongs to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_newline: bool,
}

#[derive(Debug)]
pub(super) struct Command(CommandOptions);

impl Command {
    pub(super) fn new(options: &CommandOptions) -> Self {
        Self(options.clone())
    }

    async fn run(&self) -> Result<Provided, ProvideError> {
        let program = self.0.program.display();
        let limit = Duration::from_secs(self.0.timeout.unwrap_or(10).max(1));
        let failed = |why: String| ProvideError::Unavailable(format!("{program} {why}"));
        let passed = self.0.pass.iter();
        let passed =
            passed.filter_map(|name| crate::environment::var_os(name).map(|value| (name, value)));
        // Not a sandbox: the operator named a program that is trusted with the secret itself.
        let mut child = tokio::process::Command::new(&self.0.program)
            .args(&self.0.args)
            .env_clear()
            .envs(passed)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(format!("cannot be started: {error}")))?;
        let output = child.stdout.take();
        let finished = timeout(limit, async {
            // One growth at most, so that no copy is left behind unwiped.
            let mut octets = Zeroizing::new(Vec::with_capacity(LARGEST + 1));
            if let Some(output) = output {
                output
                    .take(LARGEST as u64 + 1)
                    .read_to_end(&mut octets)
                    .await?;
            }
            let status = if octets.len() > LARGEST {
                None
            } else {
                Some(child.wait().await?)
            };
            Ok::<_, std::io::Error>((SecretBytes::copy_of(&octets), status))
        });
        let (value, status) = finished
            .await
            .map_err(|_| failed(format!("did not finish within {limit:?}")))?
            .map_err(|error| failed(format!("cannot be read: {error}")))?;
        let value = match self.0.keep_newline {
            true => value,
            false => without_line_end(value),
        };
        match status {
            None => Err(failed(format!("printed more than {LARGEST} octets"))),
            Some(status) if !status.success() => Err(failed(format!(
                "ended with {status} (what it says on standard error is not kept: run it by hand to see it)"
            ))),
            Some(_) if value.is_empty() => {
                Err(failed("printed nothing, or a line end alone".to_owned()))
            }
            Some(_) => Ok(Provided {
                value,
                version: None,
                lifetime: lifetime(self.0.ttl),
            }),
        }
    }
}

impl Provider for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn provide<'a>(&'a self, _: ProvideRequest<'a>) -> ProvideFuture<'a> {
        Box::pin(self.run())
    }
}
