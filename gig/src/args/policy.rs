//! `gig policy …`, as typed.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use gig_policy::{Format, SandboxId};

use super::{OutputArgs, run, team::PlaceArgs, value};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say whether a document is valid, with line and column of what is not, and what looks too wide
    Check(PolicyCheckArgs),
    /// Explain one decision; exits 0 when allowed, 1 when denied
    Test(PolicyTestArgs),
    /// Compare two documents by what they say; exits 0 when they say the same, 1 when not
    Diff(PolicyDiffArgs),
    /// Decide recorded traffic again by a draft: what it would newly allow and newly deny
    ///
    /// The code that enforces decides. Exits 0 when nothing changes, 1 when something does.
    Simulate(PolicySimulateArgs),
    /// Write the narrowest policy for what was recorded, each rule with its evidence
    ///
    /// Records of `--observe` runs and of denied ones serve alike. The document goes to standard
    /// output, what had to be left out to standard error. Exits 0 when it covers everything, 1 when not.
    Suggest(PolicySuggestArgs),
    /// Read another tool's allowlist and write it as a policy document
    ///
    /// Whatever had to be widened or narrowed is listed on standard error and above the document. Exits 0
    /// when nothing was, 1 when something was.
    Import(PolicyImportArgs),
    /// List the policies that the appliance keeps
    Ls(OutputArgs),
    /// Print a policy that the appliance keeps
    Get(PolicyGetArgs),
    /// Write a policy's next version into the appliance; in force everywhere when this returns
    Apply(PolicyApplyArgs),
    /// List the versions of a policy that the appliance keeps, newest first
    History(PolicyHistoryArgs),
    /// Put an old version in force again, as the next one
    Rollback(PolicyRollbackArgs),
    /// Say where a policy is in force
    Assign(PolicyAssignArgs),
    /// Take a policy out of force where it is
    Unassign(PolicyUnassignArgs),
    /// Remove a policy that is in force nowhere; its versions can be read on, and rolled back to
    Rm(PolicyRmArgs),
    /// Say which policies bound what others allow; list them
    Floor(PolicyFloorArgs),
    /// List the changes that wait for a second person in the appliance
    Proposals(PolicyProposalsArgs),
    /// Make a change that waits for a second person, as this machine's owner
    Approve(PolicyDecideArgs),
    /// Refuse a change that waits for a second person
    Reject(PolicyDecideArgs),
    /// Say whether policies are changed by two people; turn that on or off as this machine's owner
    TwoPerson(PolicyTwoPersonArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyProposalsArgs {
    /// Those that were decided
    #[arg(long)]
    pub(crate) decided: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyDecideArgs {
    /// Which, as `gig policy proposals` lists it
    pub(crate) id: u64,
    /// Why; stands in the history and the record; a rejection needs one
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTwoPersonArgs {
    /// On or off; left out: only say which
    #[arg(value_enum)]
    pub(crate) rule: Option<OnOff>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    On,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyHistoryArgs {
    /// The policy's name in the appliance
    pub(crate) name: String,
    /// Versions before this one: 200 are listed at once
    #[arg(long, value_name = "N")]
    pub(crate) before: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyGetArgs {
    /// The policy's name in the appliance
    pub(crate) name: String,
    /// Which version (default: the newest)
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyApplyArgs {
    /// The policy's name in the appliance
    pub(crate) name: String,
    /// Policy document, YAML or JSON; `-` is standard input
    pub(crate) file: PathBuf,
    /// Why; stands in the history and the record
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) reason: String,
    /// Refuse unless this is the newest version; 0: the policy is new (default: the newest there is)
    #[arg(long, value_name = "N")]
    pub(crate) on: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyRollbackArgs {
    /// The policy's name in the appliance
    pub(crate) name: String,
    /// The version to put in force again
    pub(crate) version: u64,
    /// Why; stands in the history and the record
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyAssignArgs {
    /// The policy's name in the appliance
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyUnassignArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyRmArgs {
    /// The policy's name in the appliance
    pub(crate) name: String,
    /// Refuse unless this is the newest version
    #[arg(long, value_name = "N")]
    pub(crate) on: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyFloorArgs {
    /// The policy's name in the appliance; without one, and without --rm, the floors are listed; with --rm the floor
    /// must be this one
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Take the floor away
    #[arg(long)]
    pub(crate) rm: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyCheckArgs {
    /// Policy document, YAML or JSON
    pub(crate) file: PathBuf,
    /// Have the appliance that runs on this machine check it, which also says which secrets its vault does not have
    #[arg(long)]
    pub(crate) appliance: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// Policy document, YAML or JSON
    pub(crate) file: PathBuf,
    /// HTTP method, such as GET; CONNECT asks for an opaque connection (tcp://host:port)
    pub(crate) method: String,
    /// URL, such as `https://api.github.com/user` or `tcp://db.example:5432`
    pub(crate) url: String,
    /// Which addresses a run would reach, as for `gig run`
    #[arg(long, value_enum, default_value = "external")]
    pub(crate) profile: run::ProfileArg,
    /// A document that bounds the first, as a floor in the appliance does; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) floor: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyDiffArgs {
    /// The old document
    pub(crate) old: PathBuf,
    /// The new document; `-` reads standard input
    pub(crate) new: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicySimulateArgs {
    /// The draft: a policy document, YAML or JSON
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicySuggestArgs {
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    /// Leave out what this document allows already
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// How wide a rule is: the methods and paths that were seen, or every request to the host
    #[arg(long, value_enum, default_value = "path")]
    pub(crate) width: WidthArg,
    /// What the document calls itself
    #[arg(long, default_value = "suggested")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyImportArgs {
    /// Whose document it is
    #[arg(value_parser = value::format())]
    pub(crate) format: Format,
    /// The other tool's document; `-` reads standard input
    pub(crate) file: PathBuf,
    /// What the document calls itself
    #[arg(long, default_value = "imported")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which records are looked at.
#[derive(Debug, Args)]
pub(crate) struct TrafficArgs {
    /// What `gig run --audit` wrote, a file or a database; `-` reads lines from standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: PathBuf,
    /// Only what was recorded in this time until now: 12h, 7d
    #[arg(long, value_name = "DUR", value_parser = value::span)]
    pub(crate) since: Option<Duration>,
    /// Only what this sandbox did
    #[arg(long, value_name = "ID", value_parser = value::sandbox)]
    pub(crate) sandbox: Option<SandboxId>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WidthArg {
    Path,
    Host,
}
