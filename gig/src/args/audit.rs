//! `gig audit …`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gig_audit::{PublicKey, chain::Head, retention::Keep, search::Marks};
use gig_policy::DenyReason;

use super::{OutputArgs, value};
use crate::deliver::Destination;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest records, and those that come
    Tail(AuditTailArgs),
    /// Find records, newest first
    Search(AuditSearchArgs),
    /// Prove that no record is missing or changed
    ///
    /// Records that were removed are missed only where a signed checkpoint does not list them; those that were
    /// cut off at the end where `--last` names one of them, or a checkpoint speaks of them. Exits 0 when everything
    /// holds, 1 when not.
    Verify(AuditVerifyArgs),
    /// Write records for other programs, oldest first
    Export(AuditExportArgs),
    /// Remove old records from a database, so that the rest stays provable
    ///
    /// Kept when nothing is said: dns 7 days, connect and request 30, sandbox, alarm, change, access and
    /// gap 90. What is removed is listed in a checkpoint that this machine's key signs; a chain's last
    /// record always stays, and so does what no checkpoint covers yet.
    Prune(AuditPruneArgs),
    /// Show the public key of this machine's checkpoints
    Key(OutputArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditPruneArgs {
    /// SQLite database, or `postgres:` for the one of GIG_DATABASE_URL
    #[arg(value_name = "RECORD")]
    pub(crate) file: PathBuf,
    /// How many days a class is kept, or `forever`; repeatable
    #[arg(long, value_name = "CLASS=DAYS")]
    pub(crate) keep: Vec<Keep>,
    /// Another key whose checkpoints are believed, as `gig audit key` shows it; repeatable
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Vec<PublicKey>,
    /// The chain of that machine alone. Of a fleet's record: this machine's, where none is named
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Say what would go, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditExportArgs {
    /// Audit file, SQLite database, or `postgres:` for the one of GIG_DATABASE_URL
    #[arg(value_name = "RECORD")]
    pub(crate) file: PathBuf,
    /// As what
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: FormatArg,
    /// With what `gig audit verify` needs to prove the export by itself
    #[arg(long)]
    pub(crate) with_checkpoints: bool,
    /// A new file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Send instead: `syslog+tcp://HOST:PORT`, `syslog+tls://HOST:PORT` (601 and 6514 if no port is named),
    /// or where an OTLP collector takes logs or traces: `https://HOST:PORT/v1/logs`, `.../v1/traces`
    #[arg(long, value_name = "URL", conflicts_with_all = ["format", "with_checkpoints", "output"],
          requires = "cursor")]
    pub(crate) to: Option<Destination>,
    /// Say as one JSON document what was written or sent, with --output or --to; records themselves are as
    /// --format says
    #[arg(long, conflicts_with = "follow")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sending: SendingArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// How records are sent: at least once, going on where it stopped.
#[derive(Debug, Args)]
pub(crate) struct SendingArgs {
    /// Where to keep how far was sent; one file for each record, destination and what is asked for. A `--since` that
    /// counts from now counts from when delivery began
    #[arg(long, value_name = "FILE", requires = "to")]
    pub(crate) cursor: Option<PathBuf>,
    /// Go on sending what is recorded, until interrupted
    #[arg(long, requires = "to")]
    pub(crate) follow: bool,
    /// A file with the bearer token that an OTLP collector asks for
    #[arg(long, value_name = "FILE", requires = "to")]
    pub(crate) token: Option<PathBuf>,
    /// PEM roots to trust for the receiver, beside the system's; repeatable
    #[arg(long, value_name = "FILE", requires = "to")]
    pub(crate) ca: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// The records as they were written, one JSON object a line
    Jsonl,
    /// Comma-separated values with a header, safe to open in a spreadsheet
    Csv,
    /// Open Cybersecurity Schema Framework 1.3, one JSON object a line
    Ocsf,
    /// OpenTelemetry logs: OTLP export requests in JSON, one a line
    OtlpJson,
    /// OpenTelemetry traces: a span for each outcome, denial and sandbox
    OtlpTracesJson,
    /// Syslog messages of RFC 5424, one a line
    Syslog,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// Audit file, SQLite database or `postgres:`; `-` reads JSON lines from standard input
    #[arg(value_name = "RECORD")]
    pub(crate) file: PathBuf,
    /// Believe checkpoints of this key alone, and miss them where there are none, of each that is named: as
    /// `gig audit key` shows it; repeatable
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Vec<PublicKey>,
    /// A record that has to be there, by place and hash, such as the last one that `verify` told before: so nothing
    /// was cut off up to it, nor written anew; repeatable
    #[arg(long, value_name = "SEQ:HASH")]
    pub(crate) last: Vec<Head>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditTailArgs {
    /// Audit file, SQLite database, or `postgres:` for the one of GIG_DATABASE_URL
    #[arg(value_name = "RECORD")]
    pub(crate) file: PathBuf,
    /// How many of the newest to show
    #[arg(short = 'n', long, default_value = "10", value_name = "N")]
    pub(crate) lines: usize,
    /// Go on showing what is recorded, until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Print the records as JSON, one a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditSearchArgs {
    /// Audit file, SQLite database, or `postgres:` for the one of GIG_DATABASE_URL
    #[arg(value_name = "RECORD")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Most records to show
    #[arg(long, default_value = "50", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Go on where a page ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<Marks>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which records. Each option may be repeated: one of its values is enough.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Not before: `2026-11-21`, `2026-11-21T09:30:00Z`, or ago: `90s`, `12h`, `7d`
    #[arg(long, value_name = "TIME", value_parser = value::since)]
    pub(crate) since: Option<String>,
    /// Before this moment; of a day its end
    #[arg(long, value_name = "TIME", value_parser = value::until)]
    pub(crate) until: Option<String>,
    /// Kind: sandbox.start, dns, connect, request, response, secret.use, secret.misuse …
    #[arg(long, value_name = "EVENT", value_parser = event)]
    pub(crate) event: Vec<String>,
    /// allow, deny or would_deny
    #[arg(long, value_name = "VERDICT", value_parser = ["allow", "deny", "would_deny"])]
    pub(crate) verdict: Vec<String>,
    /// Why it was denied: host_not_allowed …
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub(crate) reason: Vec<String>,
    /// Alarms alone: a misused secret, a changed namespace, a gap in the record
    #[arg(long)]
    pub(crate) alarm: bool,
    /// The rule that matched or came nearest
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    /// Sandbox, by its whole id
    #[arg(long, value_name = "ID")]
    pub(crate) sandbox: Vec<String>,
    /// Registered server
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Vec<String>,
    /// User or profile
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Vec<String>,
    /// Machine
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Vec<String>,
    /// Policy
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Vec<String>,
    /// Host; `*.example.com` is every name below, not the name itself
    #[arg(long, value_name = "HOST", value_parser = gig_audit::search::filter::host)]
    pub(crate) host: Vec<String>,
    /// Method
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Vec<String>,
    /// Status: `403`, or `4xx`
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Vec<String>,
    /// Name of a secret that was used or misused
    #[arg(long, value_name = "NAME")]
    pub(crate) secret: Vec<String>,
    /// Everything of one connection, by its number (with --sandbox)
    #[arg(long, value_name = "N")]
    pub(crate) conn: Vec<u64>,
    /// Everything of one request
    #[arg(long, value_name = "ID")]
    pub(crate) request: Vec<String>,
    /// Address that something came from, without its port
    #[arg(long, value_name = "ADDRESS", value_parser = gig_audit::search::filter::source)]
    pub(crate) src: Vec<String>,
    /// Words that must all be in the record: an id, an address it came from, or of its texts (host, path, rule, deed, subject, findings …)
    #[arg(long, value_name = "WORDS", value_parser = words)]
    pub(crate) text: Vec<String>,
}

fn event(text: &str) -> Result<String, String> {
    let known: Result<gig_audit::Event, _> = serde_json::from_value(text.into());
    known
        .map(|event| event.to_string())
        .map_err(|error| error.to_string())
}

fn reason(text: &str) -> Result<String, String> {
    if DenyReason::of_word(text).is_some() {
        return Ok(text.to_owned());
    }
    let all: Vec<&str> = DenyReason::ALL
        .iter()
        .map(|reason| reason.as_str())
        .collect();
    Err(format!("no such reason; there are {}", all.join(", ")))
}

fn status(text: &str) -> Result<String, String> {
    gig_audit::search::filter::status(text)
        .ok_or_else(|| "a status is a number or a class: 403, 4xx".to_owned())
}

fn words(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_alphanumeric) {
        return Ok(text.to_owned());
    }
    Err("words have letters or digits".to_owned())
}
