//! `gig image …`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// List the images that are on this machine
    Ls(OutputArgs),
    /// Bring an image before it is needed
    Pull(ImageArgs),
    /// Print the name of an image by its digest: that of a tag, today
    Digest(ImageArgs),
    /// Remove an image from this machine
    Rm(ImageRmArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// `REGISTRY/NAME:TAG`, or `REGISTRY/NAME@sha256:…`
    pub(crate) image: String,
    /// Trust these roots for the registry too (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca: Vec<PathBuf>,
    /// Reach the registry without TLS, which on this machine needs no option
    #[arg(long)]
    pub(crate) image_clear_text: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImageRmArgs {
    /// Its name with its digest, or the digest alone
    pub(crate) image: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
