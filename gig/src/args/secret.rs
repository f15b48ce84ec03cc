//! `gig secret …`, as typed.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::{
    OutputArgs,
    run::ProfileArg,
    value::{self, SecretArg},
};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Put a secret into the vault, or put another in its place: the value comes from standard input or
    /// --file, never from the command line
    Set(Box<SecretSetArgs>),
    /// List secrets and their versions; values are never shown
    Ls(SecretLsArgs),
    /// Revoke a secret or one version; a running program loses it with its next request
    Rm(SecretRmArgs),
    /// Give a secret a new value; with --master the vault a new master key, with --passphrase what is in
    /// custody a new passphrase
    Rotate(Box<SecretRotateArgs>),
    /// Show where a secret would be placed in a request, with its sentinel, or why it would not be; sends
    /// nothing. Exits 0 when it would be placed, 1 when not
    Test(Box<SecretTestArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct SecretSetArgs {
    /// What policies and programs call it: letters, digits and _
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    /// static: one value; basic: user:password. Other kinds have options: see --definition
    #[arg(long, value_name = "KIND", conflicts_with = "definition")]
    pub(crate) kind: Option<String>,
    /// Kind, provider and shape as a YAML or JSON document
    #[arg(long, value_name = "FILE")]
    pub(crate) definition: Option<PathBuf>,
    /// Shape the sentinel like the value, which begins so: `ghp_`. Well-known beginnings need no
    /// telling
    #[arg(long, value_name = "PREFIX")]
    pub(crate) like: Option<String>,
    /// Give the sentinel no shape, whatever the value looks like
    #[arg(long, conflicts_with = "like")]
    pub(crate) plain: bool,
    /// Hand the real value to programs where the policy says so too; shown as a warning everywhere
    #[arg(long)]
    pub(crate) entrusted: bool,
    /// Seal it with the owner's passphrase too, so that database and master key reveal nothing
    #[arg(long)]
    pub(crate) custody: bool,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArgs,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ValueArgs {
    /// Read the value from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Keep a line end after the value; otherwise one is left out
    #[arg(long)]
    pub(crate) keep_newline: bool,
    /// The value may be used for this time: 30d
    #[arg(long, value_name = "DURATION", value_parser = value::span)]
    pub(crate) expires: Option<Duration>,
    /// Taken only to refuse it with the cure.
    #[arg(hide = true, value_name = "VALUE")]
    pub(crate) on_the_command_line: Vec<OsString>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PassphraseArgs {
    /// Read the passphrase of secrets in custody from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Read the passphrase of secrets in custody from this open descriptor
    #[arg(long, value_name = "N", conflicts_with = "passphrase_file")]
    pub(crate) passphrase_fd: Option<u16>,
}

impl PassphraseArgs {
    /// The option that says where it is, as it was given.
    pub(crate) fn named(&self) -> Option<String> {
        let file = self.passphrase_file.as_ref();
        let file = file.map(|path| format!("--passphrase-file {}", path.display()));
        file.or_else(|| self.passphrase_fd.map(|fd| format!("--passphrase-fd {fd}")))
    }
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Append the record of the change here; `-` is standard error (default: audit.jsonl in the data
    /// directory)
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SecretLsArgs {
    /// Removed secrets too
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SecretRmArgs {
    /// Which secret
    pub(crate) name: String,
    /// This version only
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Forget the value as well. Otherwise it is remembered, so that gig can stop it from leaving
    #[arg(long)]
    pub(crate) forget: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SecretRotateArgs {
    /// Which secret
    #[arg(required_unless_present_any = ["master", "change_passphrase"])]
    pub(crate) name: Option<String>,
    /// Change the master key: to GIG_MASTER_KEY_NEW or GIG_MASTER_KEY_NEW_FILE, or to a fresh one in
    /// gig's own key file
    #[arg(long, conflicts_with_all = ["name", "file", "keep_newline", "expires"])]
    pub(crate) master: bool,
    /// Change the passphrase of what is in custody: from the one of --passphrase-file, --passphrase-fd or
    /// typed, to the one of --new-passphrase-file, --new-passphrase-fd or typed
    #[arg(
        long = "passphrase",
        conflicts_with_all = ["name", "master", "grace", "file", "keep_newline", "expires"]
    )]
    pub(crate) change_passphrase: bool,
    /// Read the new passphrase from this file
    #[arg(long, value_name = "FILE", requires = "change_passphrase")]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    /// Read the new passphrase from this open descriptor
    #[arg(
        long,
        value_name = "N",
        requires = "change_passphrase",
        conflicts_with = "new_passphrase_file"
    )]
    pub(crate) new_passphrase_fd: Option<u16>,
    /// How long the old value stays known (default 0s, which ends all before it; of two times that a value was
    /// promised the longer holds), or who holds the old master key may go on (default 24h)
    #[arg(long, value_name = "DURATION", value_parser = value::span)]
    pub(crate) grace: Option<Duration>,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArgs,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SecretTestArgs {
    /// Which secret
    pub(crate) name: String,
    /// Of the request; `{NAME}` in it, in --header and in --body is where the program would write its
    /// variable. Without any, the usual places are tried one by one
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// Of the request
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// A field of the request: `Authorization: Bearer {NAME}`
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// The request's body
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// Policy document, as for `gig run`
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Allow a host, as for `gig run`
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow: Vec<String>,
    /// Bind a secret, as for `gig run`
    #[arg(long, value_name = "NAME[:PLACE,…]@HOST[:PORT][,HOST[:PORT]…]", value_parser = value::secret)]
    pub(crate) secret: Vec<SecretArg>,
    /// Which addresses a run would reach, as for `gig run`
    #[arg(long, value_enum, default_value = "external")]
    pub(crate) profile: ProfileArg,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
