//! The variables that a caller asks for; the sandbox adds its own beneath them.
//!
//! A caller may override any of the built ones, `HTTPS_PROXY` included: what a variable says opens
//! nothing.

use std::ffi::OsString;

use anyhow::bail;

use crate::args::value::EnvArg;

/// `--env`, with passed variables read from gig's own environment; and `TERM` for a terminal.
///
/// # Errors
/// When a variable to pass is not set.
pub(crate) fn variables(
    asked: &[EnvArg],
    terminal: bool,
) -> anyhow::Result<Vec<(OsString, OsString)>> {
    let mut variables = Vec::with_capacity(asked.len() + 1);
    if terminal && !asked.iter().any(|arg| arg.name == "TERM") {
        let term = std::env::var_os("TERM").unwrap_or_else(|| "xterm".into());
        variables.push(("TERM".into(), term));
    }
    for arg in asked {
        let value = match (&arg.value, gig_vault::environment::var_os(&arg.name)) {
            (Some(value), _) => value.into(),
            (None, Some(value)) => value,
            (None, None) => bail!(
                "--env {name}: gig's own environment has no {name}; set it, or give a value with \
                 --env {name}=VALUE",
                name = arg.name
            ),
        };
        variables.push((arg.name.clone().into(), value));
    }
    Ok(variables)
}
