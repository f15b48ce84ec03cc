//! The variables that a caller asks for; the sandbox adds its own beneath them.
//!
//! A caller may override any of the built ones, `HTTPS_PROXY` included: what a variable says opens
//! nothing.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

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
        refuse_own_key(&arg.name, &value)?;
        variables.push((arg.name.clone().into(), value));
    }
    Ok(variables)
}

/// What opens the vault enters no sandbox, wherever gig has it from.
///
/// # Errors
/// When the variable holds it, whatever it is called.
pub(crate) fn refuse_own_key(name: &str, value: &OsStr) -> anyhow::Result<()> {
    match crate::secrets::own_key_in(value.as_bytes()) {
        None => Ok(()),
        Some(place) => bail!(
            "--env {name}: it holds the vault's own key ({place}), which no program must have: leave it out"
        ),
    }
}
