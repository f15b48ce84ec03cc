//! One file a command.

mod approvals;
mod audit;
mod authority;
mod backup;
mod doctor;
mod identity;
mod image;
mod logs;
mod mcp;
mod netns;
pub(crate) mod policy;
mod restore;
mod sandboxes;
mod secret;
mod team;

use crate::{
    args::{Command, policy::PolicyCommand, secret::SecretCommand},
    exit_status::ExitStatus,
    run, serve,
};

/// Does what the command line says.
///
/// # Errors
/// When gig itself failed; a program's own failure is a status.
pub(crate) fn execute(command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Run(args) => run::execute(*args),
        Command::Serve(args) => serve::execute(&args),
        Command::Ps(args) => sandboxes::list(&args),
        Command::Stop(args) => sandboxes::stop(&args),
        Command::Logs(args) => logs::execute(&args),
        Command::Mcp(args) => mcp::execute(&args),
        Command::Server(command) => sandboxes::server(command),
        Command::Netns(command) => netns::execute(&command),
        Command::User(command) => identity::user(command),
        Command::Team(command) => team::team(command),
        Command::Token(command) => identity::token(command),
        Command::Policy(PolicyCommand::Check(args)) => policy::check(&args),
        Command::Policy(PolicyCommand::Test(args)) => policy::test(&args),
        Command::Policy(PolicyCommand::Diff(args)) => policy::diff(&args),
        Command::Policy(PolicyCommand::Simulate(args)) => policy::simulate(&args),
        Command::Policy(PolicyCommand::Suggest(args)) => policy::suggest_policy(&args),
        Command::Policy(PolicyCommand::Import(args)) => policy::import(&args),
        Command::Policy(PolicyCommand::Ls(output)) => policy::kept::list(&output),
        Command::Policy(PolicyCommand::Get(args)) => policy::kept::get(&args),
        Command::Policy(PolicyCommand::Apply(args)) => policy::kept::apply(&args),
        Command::Policy(PolicyCommand::History(args)) => policy::kept::history(&args),
        Command::Policy(PolicyCommand::Rollback(args)) => policy::kept::roll_back(&args),
        Command::Policy(PolicyCommand::Assign(args)) => policy::kept::assign(&args),
        Command::Policy(PolicyCommand::Unassign(args)) => policy::kept::unassign(&args),
        Command::Policy(PolicyCommand::Rm(args)) => policy::kept::remove(&args),
        Command::Policy(PolicyCommand::Floor(args)) => policy::kept::floor(&args),
        Command::Policy(PolicyCommand::Proposals(args)) => policy::proposals::list(&args),
        Command::Policy(PolicyCommand::Approve(args)) => policy::proposals::approve(&args),
        Command::Policy(PolicyCommand::Reject(args)) => policy::proposals::reject(&args),
        Command::Policy(PolicyCommand::TwoPerson(args)) => policy::proposals::rule(&args),
        Command::Secret(SecretCommand::Set(args)) => secret::set(&args),
        Command::Secret(SecretCommand::Ls(args)) => secret::list(&args),
        Command::Secret(SecretCommand::Rm(args)) => secret::remove(&args),
        Command::Secret(SecretCommand::Rotate(args)) => secret::rotate(&args),
        Command::Secret(SecretCommand::Test(args)) => secret::test(&args),
        Command::Approvals(command) => approvals::execute(command),
        Command::Audit(command) => audit::execute(*command),
        Command::Image(command) => image::execute(command),
        Command::Ca(command) => authority::execute(&command),
        Command::Backup(args) => backup::execute(&args),
        Command::Restore(args) => restore::execute(&args),
        Command::Doctor(output) => doctor::execute(&output),
    }
}
