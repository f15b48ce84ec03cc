//! `gig approvals …`, as typed.

use clap::{Args, Subcommand, ValueEnum};

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List requests that wait for somebody, and denials of the last day that nobody decided on
    Ls(OutputArgs),
    /// Let a request that waits go, once or by a rule for an hour or for ever; of a denial, by a rule, the next one
    Allow(ApprovalsAllowArgs),
    /// Deny a request that waits
    Deny(ApprovalsDenyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsAllowArgs {
    /// A request's id, or a denial's record, as `gig approvals ls` has it
    pub(crate) id: String,
    /// For how long
    #[arg(long = "for", value_name = "TIME", default_value = "once")]
    pub(crate) lasting: LastingArg,
    /// What a rule opens: this method and path, unless said, or all of the host; with --for hour or ever alone
    #[arg(long)]
    pub(crate) width: Option<WidthArg>,
    /// Why; stands in the policy's history
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsDenyArgs {
    /// A request's id, as `gig approvals ls` has it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LastingArg {
    /// This one and no other
    Once,
    /// By a rule that ends in an hour
    Hour,
    /// By a rule
    Ever,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WidthArg {
    /// This method and path
    Path,
    /// Every request to the host on this port
    Host,
}
