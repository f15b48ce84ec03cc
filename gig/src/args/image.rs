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
    /// `REGISTRY/NAME@sha256:…`; `gig image digest` takes `REGISTRY/NAME:TAG` too, and says which that is
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

/// Where the files of a registered server come from.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// Its files are those of this image, brought now: `REGISTRY/NAME@sha256:…`. Without a program after
    /// `--` its own runs. Of an image that is one static program, that program alone is kept
    #[arg(long, value_name = "REF@DIGEST", conflicts_with = "folder")]
    pub(crate) image: Option<String>,
    /// Its files are a copy of this folder as it is now, at /app; a program that is named without a
    /// slash is one of the folder's, if it has it
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Trust these roots for the image's registry too (PEM)
    #[arg(long, value_name = "FILE", requires = "image")]
    pub(crate) upstream_ca: Vec<PathBuf>,
    /// Reach the image's registry without TLS, which on this machine needs no option
    #[arg(long, requires = "image")]
    pub(crate) image_clear_text: bool,
}
