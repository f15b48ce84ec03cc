//! The command line, as typed. What it means is resolved by the commands.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod image;
pub(crate) mod netns;
pub(crate) mod policy;
mod public_url;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod team;
pub(crate) mod value;

use clap::{Args, Parser, Subcommand};

/// Runs untrusted programs in sandboxes whose only way out is a policy proxy.
#[derive(Debug, Parser)]
#[command(name = "gig", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Command {
    /// Variables of gig's own environment that it names as secrets.
    pub(crate) fn secret_variables(&self) -> Vec<&str> {
        match self {
            Self::Run(args) => args.secret.iter().map(|arg| arg.name.as_str()).collect(),
            Self::Secret(secret::SecretCommand::Test(args)) => vec![args.name.as_str()],
            _ => Vec::new(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one program in a sandbox: no daemon, no root
    Run(Box<run::RunArgs>),
    /// Run the appliance: console, API and sandboxes of registered servers
    Serve(serve::ServeArgs),
    /// List the appliance's sandboxes
    Ps(serve::PsArgs),
    /// End a sandbox of the appliance: SIGTERM, ten seconds later SIGKILL
    Stop(serve::SandboxArgs),
    /// Show the last of what a sandbox of the appliance printed, or search what a server printed
    Logs(serve::LogsArgs),
    /// Be a registered server, for an MCP client: its program runs in a sandbox of the appliance, with
    /// these standard streams
    Mcp(serve::McpArgs),
    /// Register, start and forget the appliance's servers
    #[command(subcommand)]
    Server(serve::ServerCommand),
    /// Take network namespaces that gig did not make, such as containers', as sandboxes of the appliance
    #[command(subcommand)]
    Netns(netns::NetnsCommand),
    /// Say who may sign in to the appliance, and as what
    #[command(subcommand)]
    User(serve::UserCommand),
    /// Say who is of which team, for policies that are in force for one
    #[command(subcommand)]
    Team(team::TeamCommand),
    /// Make and end tokens for programs that use the appliance
    #[command(subcommand)]
    Token(serve::TokenCommand),
    /// Answer requests that wait for a person: policies with `hold` ask before they deny
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// Check, try, compare or suggest a policy document
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Keep secrets in the vault of this machine
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Follow, search and prove audit records
    #[command(subcommand)]
    Audit(Box<audit::AuditCommand>),
    /// Bring, list and remove OCI images
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Show the certificate authority of the appliance
    #[command(subcommand)]
    Ca(CaCommand),
    /// Write everything that the appliance keeps to a file, while it serves; its keys are not in it
    Backup(serve::BackupArgs),
    /// Bring an appliance back to what a backup holds
    Restore(serve::RestoreArgs),
    /// Try every mechanism that gig needs and say what is missing, what that costs and the cure
    Doctor(OutputArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaCommand {
    /// Print the certificate that the sandboxes of the appliance on this machine trust, as PEM
    Show(OutputArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The leaves of a command without `--json`, by their words.
    fn without(command: &clap::Command, words: &str, found: &mut Vec<String>) {
        let mut options = command.get_arguments();
        let has = options.any(|option| option.get_long() == Some("json"));
        if !command.has_subcommands() && !has {
            found.push(words.to_owned());
        }
        for one in command.get_subcommands() {
            let words = format!("{words} {}", one.get_name());
            without(one, words.trim(), found);
        }
    }

    #[test]
    fn every_command_that_prints_has_json() {
        let mut found = Vec::new();
        without(&Arguments::command(), "", &mut found);
        // Their output is the program's, or a log.
        assert_eq!(found, ["run", "serve", "mcp"]);
    }
}
