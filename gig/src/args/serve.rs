//! `gig serve`, `gig user|token` and the commands that speak with a running appliance, as typed.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};
use gig_audit::{
    PublicKey,
    retention::{Keep, ParseKeepError},
};
use gig_web::Role;

use super::{
    OutputArgs, public_url,
    run::DurabilityArg,
    secret::PassphraseArgs,
    value::{self, BindArg, EnvArg},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// Where console and API listen; `GIG_LISTEN` says the same
    #[arg(
        long,
        env = "GIG_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS:PORT",
        value_parser = value::listen
    )]
    pub(crate) listen: std::net::SocketAddr,
    /// Speak TLS with this certificate (PEM, its chain after it), read again when the file changes
    #[arg(long, env = "GIG_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key (PEM), which nobody else may read
    #[arg(long, env = "GIG_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Where people reach the console, when something in front of it speaks TLS, or by another name than
    /// the first in its certificate: `https://gig.example.com`
    #[arg(long, env = "GIG_PUBLIC_URL", value_name = "URL", value_parser = public_url::read)]
    pub(crate) public_url: Option<String>,
    /// Addresses of what stands in front: its `X-Forwarded-For` is believed, and of nobody else
    #[arg(long, env = "GIG_FRONT", value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) front: Vec<std::net::IpAddr>,
    /// How many changes each user and each token makes in a minute, and twice as many at once (429 beyond); what
    /// runs sandboxes and who owns this machine are not counted
    #[arg(
        long,
        env = "GIG_CHANGES_A_MINUTE",
        default_value_t = 60,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) changes_a_minute: u32,
    /// Trust these roots for origins too (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca: Vec<PathBuf>,
    /// Send a span of each request to the API to this OpenTelemetry collector: `https://otel.example/v1/traces`. Spans of
    /// sandboxes' traffic are sent by `gig audit export --to`
    #[arg(long, env = "GIG_TRACES", value_name = "URL")]
    pub(crate) traces: Option<String>,
    /// A file with the bearer token that this collector asks for
    #[arg(
        long,
        env = "GIG_TRACES_TOKEN",
        value_name = "FILE",
        requires = "traces"
    )]
    pub(crate) traces_token: Option<PathBuf>,
    /// Let webhooks and single sign-on reach these private addresses; repeatable, or with commas between. Without it they reach
    /// public ones alone; gig itself and metadata services are reached by nothing
    #[arg(
        long,
        env = "GIG_OUTBOUND_PRIVATE",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = value::private_range
    )]
    pub(crate) outbound_private: Vec<String>,
    /// Most sandboxes at once, 4 to 4096: half of them of one server, three eighths for one person. Each takes
    /// 65,536 host ids of gig's range, where it has one that is large enough
    #[arg(
        long,
        env = "GIG_SANDBOXES",
        default_value_t = 64,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(4..=4096)
    )]
    pub(crate) sandboxes: u16,
    /// Remove old records: how many days a class is kept, or `forever`; repeatable, or with commas between. Classes that are not
    /// named are kept as `gig audit prune` says. Without it everything is kept. `log=DAYS` is about what
    /// servers print, which is kept for 30 days unless said
    #[arg(
        long,
        env = "GIG_KEEP",
        value_name = "CLASS=DAYS",
        value_delimiter = ',',
        value_parser = kept
    )]
    keep: Vec<Kept>,
    /// A former key of this record, whose checkpoints --keep and a record's page believe beside its own: after a restore
    /// without `audit-signing.key`, or where a node's name was taken over; as `gig audit verify` shows it; repeatable
    #[arg(long, env = "GIG_AUDIT_KEY", value_name = "KEY", value_delimiter = ',')]
    pub(crate) audit_key: Vec<PublicKey>,
    /// What a request, and each change, waits for: `kernel` has the record with the kernel (on the disk within
    /// 100 ms), `strict` on the disk; a fleet's is on its server's disk either way
    #[arg(
        long,
        env = "GIG_AUDIT_DURABILITY",
        value_enum,
        default_value = "kernel",
        value_name = "DURABILITY"
    )]
    pub(crate) audit_durability: DurabilityArg,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArgs,
}

/// What is kept for how long.
#[derive(Debug, Clone)]
enum Kept {
    /// Records of a class.
    Records(Keep),
    /// What servers print; `None` for ever.
    Log(Option<u32>),
}

impl ServeArgs {
    /// What was said of records.
    pub(crate) fn records_kept(&self) -> Vec<Keep> {
        let records = self.keep.iter().filter_map(|kept| match kept {
            Kept::Records(keep) => Some(*keep),
            Kept::Log(_) => None,
        });
        records.collect()
    }

    /// For how many days what servers print is kept; `None` for ever.
    pub(crate) fn log_days(&self) -> Option<u32> {
        let mut logs = self.keep.iter().filter_map(|kept| match kept {
            Kept::Records(_) => None,
            Kept::Log(days) => Some(*days),
        });
        logs.next_back().unwrap_or(Some(LOG_DAYS))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Let somebody sign in: the password comes from standard input, or is typed
    Add(UserAddArgs),
    /// List who may sign in
    Ls(OutputArgs),
    /// Give somebody another role
    Role(UserRoleArgs),
    /// Give somebody a new password, from standard input or typed; their sessions end, their tokens
    /// stay unless you say so
    Password(UserPasswordArgs),
    /// Remove somebody's second factor, whose device is lost: their password alone signs them in
    Factor(UserFactorArgs),
    /// Ask for a second factor of these roles, and of no others
    AskFactor(AskFactorArgs),
    /// Let somebody sign in no more; their sessions end
    Rm(UserArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UserAddArgs {
    #[command(flatten)]
    pub(crate) user: UserArgs,
    /// viewer, auditor, editor, approver or admin
    #[arg(long)]
    pub(crate) role: Role,
}

#[derive(Debug, Args)]
pub(crate) struct UserRoleArgs {
    #[command(flatten)]
    pub(crate) user: UserArgs,
    /// viewer, auditor, editor, approver or admin
    pub(crate) role: Role,
}

#[derive(Debug, Args)]
pub(crate) struct UserPasswordArgs {
    #[command(flatten)]
    pub(crate) user: UserArgs,
    /// End the tokens that they made, too
    #[arg(long)]
    pub(crate) end_tokens: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UserFactorArgs {
    #[command(flatten)]
    pub(crate) user: UserArgs,
    /// Say that it is to go
    #[arg(long, required = true)]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AskFactorArgs {
    /// viewer, auditor, editor, approver, admin; or none
    #[arg(required = true, value_name = "ROLE", value_delimiter = ',')]
    pub(crate) roles: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    /// By which they sign in
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for a program; printed this once
    Add(TokenAddArgs),
    /// List tokens, without their secrets
    Ls(OutputArgs),
    /// Make a token worthless
    Rm(TokenRmArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenAddArgs {
    /// What it is for
    pub(crate) name: String,
    /// viewer, auditor, editor, approver or admin
    #[arg(long)]
    pub(crate) role: Role,
    /// Days until it ends (default: never)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) days: Option<u16>,
    /// Narrow it to this of its role: read, audit, policies:write, policies:assign, policies:floor,
    /// policies:approve, approvals:answer, servers:run, profiles:act, profiles:oversee,
    /// namespaces:register, servers:write, secrets:write, teams:write, webhooks:write, settings:examine; repeatable
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    pub(crate) scope: Vec<String>,
    /// Narrow it to this server and its sandboxes; repeatable
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) server: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRmArgs {
    /// Its id, as `gig token ls` has it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Register a program that the appliance runs in sandboxes, or change one
    Add(Box<ServerAddArgs>),
    /// List registered servers
    Ls(OutputArgs),
    /// Forget a server; its sandboxes end
    Rm(ServerArgs),
    /// Start a sandbox of a server, unless yours runs already
    Start(ServerStartArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServerStartArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Start it for this person instead, as a gateway does for those whom it serves
    #[arg(long = "for", value_name = "PROFILE", value_parser = value::profile)]
    pub(crate) profile: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Its name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServerAddArgs {
    /// Its name
    pub(crate) name: String,
    /// Its programs are somebody else's: its sandboxes are network namespaces (`gig netns register`)
    #[arg(
        long,
        conflicts_with_all = ["env", "ro", "memory", "pids", "cpus", "idle", "image", "folder", "program"]
    )]
    pub(crate) foreign: bool,
    /// Set a variable, or pass one of this shell's; nothing else is inherited
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = value::env)]
    pub(crate) env: Vec<EnvArg>,
    /// Give it the sentinel of a secret of the vault; the policy says where the value may go
    #[arg(long, value_name = "NAME")]
    pub(crate) secret: Vec<String>,
    /// Show it a file or directory, read-only
    #[arg(long, value_name = "PATH[:DEST]", value_parser = value::bind)]
    pub(crate) ro: Vec<BindArg>,
    /// external: public addresses only; local: private ranges only; disconnected: nothing
    #[arg(long, value_enum, default_value = "external")]
    pub(crate) profile: super::run::ProfileArg,
    /// Put this policy in force for it
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Most memory, such as 512MB
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) memory: Option<u64>,
    /// Most processes and threads
    #[arg(long, value_name = "N", value_parser = value::count)]
    pub(crate) pids: Option<u32>,
    /// Most processor time, in processors: 0.5, 2
    #[arg(long, value_name = "N", value_parser = value::cpus)]
    pub(crate) cpus: Option<gig_sandbox::CpuShare>,
    /// End a sandbox that prints nothing, has no connection and nobody attached for so long: 90s, 5m, or
    /// never
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = idle)]
    pub(crate) idle: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) source: super::image::SourceArgs,
    /// The program and its arguments, after `--`; an image may have one of its own
    #[arg(
        last = true,
        required_unless_present_any = ["foreign", "image"],
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Also those that have ended
    #[arg(short, long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// A sandbox's id, or a server's name for its newest
    pub(crate) sandbox: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// A sandbox's id, or a server's name
    pub(crate) which: String,
    /// Not before: `2026-11-21`, `2026-11-21T09:30:00Z`, or ago: `90s`, `12h`, `7d`
    #[arg(long, value_name = "TIME", value_parser = value::since)]
    pub(crate) since: Option<String>,
    /// Only lines that hold this, whatever the case
    #[arg(long, value_name = "TEXT")]
    pub(crate) grep: Option<String>,
    /// Go on with what is printed from now on
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// A registered server
    pub(crate) server: String,
    /// The console's address, of an appliance elsewhere: `https://gig.example.com`. `GIG_TOKEN` holds a
    /// token that may run sandboxes there
    #[arg(long, env = "GIG_URL", value_name = "URL", value_parser = public_url::read)]
    pub(crate) url: Option<String>,
    /// Trust these roots for it, too (PEM)
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) ca: Option<PathBuf>,
    /// Be it for this person instead, as a gateway is for those whom it serves; elsewhere the token needs
    /// the scope profiles:act
    #[arg(long = "for", value_name = "PROFILE", value_parser = value::profile)]
    pub(crate) profile: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Where to; - is standard output. Written over nothing
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A backup; - is standard input
    pub(crate) file: PathBuf,
    /// Move what is there aside (of a fleet's database: put the backup in its place)
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn kept(text: &str) -> Result<Kept, String> {
    if text.trim().contains(char::is_whitespace) {
        return Err("several go with commas between: dns=7,alarm=forever".to_owned());
    }
    // The same days as those of a class.
    if let Some(days) = text.strip_prefix("log=") {
        let keep: Result<Keep, _> = format!("access={days}").parse();
        return keep
            .map(|keep| Kept::Log(keep.days))
            .map_err(|error| error.to_string());
    }
    let keep = text.parse().map(Kept::Records);
    keep.map_err(|error: ParseKeepError| match error {
        ParseKeepError::Class => format!("{error}, and log"),
        ParseKeepError::Shape | ParseKeepError::Days => error.to_string(),
    })
}

/// Whole seconds; 0 is never.
fn idle(text: &str) -> Result<u32, String> {
    if text == "never" {
        return Ok(0);
    }
    let seconds = value::duration(text)?.as_secs();
    match u32::try_from(seconds) {
        Ok(seconds @ 1..) => Ok(seconds),
        _ => Err("idle is a second at least, or never: 5m".to_owned()),
    }
}

/// Requirement 003-27: 7 to 90 days.
const LOG_DAYS: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_kept_as_long_as_is_said_beside_records() {
        for (text, days) in [("log=7", Some(7)), ("log=forever", None)] {
            assert!(matches!(kept(text), Ok(Kept::Log(said)) if said == days));
        }
        assert!(matches!(kept("dns=7"), Ok(Kept::Records(_))));
        let blank = kept("dns=7 alarm=forever").map(drop).unwrap_err();
        assert!(blank.contains("dns=7,alarm=forever"), "{blank}");
        for text in ["log=0", "log=", "logs=7", "log"] {
            assert!(kept(text).is_err(), "{text}");
        }
        assert_eq!((idle("never"), idle("5m")), (Ok(0), Ok(300)));
        assert!(idle("0").is_err() && idle("10ms").is_err() && idle("soon").is_err());
    }
}
