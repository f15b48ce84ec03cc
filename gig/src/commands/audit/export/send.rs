//! `gig audit export --to`: batch after batch, each until it was taken.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail};
use gig_audit::{
    Entry, Event,
    log::Log,
    search::{Filter, Found, Marks},
};
use gig_proxy::tls::roots::Roots;
use gig_vault::SecretBytes;

use crate::{
    args::audit::SendingArgs,
    deliver::{Again, Cursor, Delivery, Destination, NotDelivered},
    exit_status::ExitStatus,
    output,
    run::settings::own_proxy,
    secret_file,
    secrets::changes::Changes,
};

/// Sends what the cursor has not, and with `--follow` what comes.
///
/// # Errors
/// When the record cannot be read, the cursor not be kept, or the other side takes nothing.
pub(super) fn execute(
    mut log: Box<dyn Log>,
    file: &Path,
    filter: &Filter,
    (to, args): (Destination, SendingArgs),
) -> anyhow::Result<ExitStatus> {
    let Some(path) = &args.cursor else {
        bail!("--to needs --cursor FILE: it holds how far the record was delivered");
    };
    let reading = || format!("cannot read {}", file.display());
    let url = to.url().to_owned();
    let mut cursor = Cursor::open(path, &url, log.as_mut())?;
    let mut missed = 0;
    let mut marks = cursor.resume(log.as_mut())?;
    let mut sender = Sender::new(to, &args)?;
    let mut pause = FIRST_PAUSE;
    loop {
        let some = log.after(&marks, AT_ONCE).with_context(reading)?;
        if !some.is_empty() {
            let missing = cursor.missing(&marks, &some)?;
            let mut behind = marks.clone();
            some.iter().for_each(|found| behind.set(found.at));
            let ends: Vec<Found> = last_of_each(&some);
            let count = some.len();
            let wanted = some.into_iter().filter(|found| filter.matches(&found.row));
            let sent = sender.send(&wanted.collect::<Vec<_>>())?;
            if sent.is_none() {
                if let Some(first) = sent.refused.first()
                    && !(args.follow && count < AT_ONCE)
                {
                    bail!(
                        "{}; nor is anything that came with it, and the cursor stays before all of that",
                        refused(first, &url)
                    );
                }
                // Whether it is one record or all of them, what comes beside it tells.
                if pause == FIRST_PAUSE {
                    output::remark(["nothing is taken: trying again with what comes".to_owned()])?;
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(LAST_PAUSE);
                continue;
            }
            pause = FIRST_PAUSE;
            if missing > 0 {
                gap(format!(
                    "{missing} records were removed before they were delivered to {url}: keep them longer, or \
                     deliver sooner"
                ))?;
            }
            for one in &sent.refused {
                gap(refused(one, &url))?;
            }
            let lost = missing + sent.refused.len() as u64;
            cursor.miss(lost);
            missed += lost;
            marks = behind;
            cursor.commit(&marks, &ends)?;
        } else if !args.follow {
            return Ok(match missed {
                0 => ExitStatus::SUCCESS,
                _ => ExitStatus::NO,
            });
        } else if log.replaced(&marks).with_context(reading)?
            // What was written to the old one until it was replaced comes first.
            && log.after(&marks, 1).with_context(reading)?.is_empty()
            && let Ok(new) = super::super::open(file)
        {
            log = new;
            marks = Marks::default();
            cursor.begin_anew();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

/// What became of a record that the other side does not read.
fn refused(one: &Refused, url: &str) -> String {
    let Refused { node, seq, why } = one;
    format!("record {seq} of {node} is not taken by {url}, nor cut short: {why}")
}

/// Says, here and in the record of this machine, that the receiver will never have some records.
fn gap(what: String) -> anyhow::Result<()> {
    let recorded = Changes::open(None).and_then(|record| {
        let mut entry = Entry::new(Event::AuditGap);
        entry.findings = vec![what.as_str().into()];
        let told = record.tell(entry);
        record.close(told)
    });
    output::remark([what])?;
    // The receiver does not wait for this machine's record.
    let why = recorded
        .err()
        .map(|error| format!("that is not recorded: {error:#}"));
    output::remark(why)
}

/// What a collector asks for, from a file of its own: a command line is for everybody to read.
fn bearer(file: &Path) -> anyhow::Result<SecretBytes> {
    let text = secret_file::line(file).context("--token")?;
    if !text.bytes().all(|octet| octet.is_ascii_graphic()) {
        bail!(
            "--token: {} holds no token: printable characters alone",
            file.display()
        );
    }
    Ok(SecretBytes::new([b"Bearer ", text.as_bytes()].concat()))
}

/// The last record of each chain.
fn last_of_each(some: &[Found]) -> Vec<Found> {
    let mut ends: Vec<&Found> = Vec::new();
    for found in some {
        ends.retain(|end| end.at.chain != found.at.chain);
        ends.push(found);
    }
    ends.into_iter().cloned().collect()
}

/// What became of a batch.
#[derive(Default)]
struct Sent {
    /// Something of it was taken.
    any: bool,
    /// Records that were refused, each by itself.
    refused: Vec<Refused>,
}

impl Sent {
    /// Nothing was taken, and something was refused: the other side may take nothing at all.
    fn is_none(&self) -> bool {
        !self.any && !self.refused.is_empty()
    }
}

/// A record that the other side does not read.
struct Refused {
    node: String,
    seq: u64,
    why: String,
}

/// What became of a part of a batch.
enum Piece {
    Taken,
    /// It is too much at once.
    Less,
    /// Something in it is not read.
    Refused(String),
}

struct Sender {
    delivery: Delivery,
    runtime: tokio::runtime::Runtime,
    /// Never gives up.
    patient: bool,
}

impl Sender {
    fn new(to: Destination, args: &SendingArgs) -> anyhow::Result<Self> {
        let mut roots = Roots::system();
        for file in &args.ca {
            let shown = file.display();
            let pem = fs::read(file).with_context(|| format!("--ca: cannot read {shown}"))?;
            roots = roots
                .with_pem(&pem)
                .with_context(|| format!("--ca: cannot trust what is in {shown}"))?;
        }
        let proxy = own_proxy()?;
        let token = match &args.token {
            Some(file) => Some(bearer(file)?),
            None => None,
        };
        Ok(Self {
            delivery: Delivery::new(to, roots, proxy, token),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("cannot start the runtime")?,
            patient: args.follow,
        })
    }

    /// Returns when the batch was taken; in pieces, where it is too much at once or one of them is refused.
    fn send(&mut self, batch: &[Found]) -> anyhow::Result<Sent> {
        let mut sent = Sent::default();
        // What is still to be sent, the next piece last.
        let mut pieces = vec![batch];
        while let Some(piece) = pieces.pop() {
            match (self.send_piece(piece)?, piece) {
                (_, []) => {}
                (Piece::Taken, _) => sent.any = true,
                (Piece::Refused(why), [one]) => sent.refused.push(Refused {
                    node: one.row.node.clone(),
                    seq: one.row.seq,
                    why,
                }),
                (Piece::Less | Piece::Refused(_), _) => {
                    let (first, second) = piece.split_at(piece.len() / 2);
                    pieces.extend([second, first]);
                }
            }
        }
        Ok(sent)
    }

    /// Once, and again as long as time helps.
    fn send_piece(&mut self, batch: &[Found]) -> anyhow::Result<Piece> {
        if batch.is_empty() {
            return Ok(Piece::Taken);
        }
        let mut pause = FIRST_PAUSE;
        let mut tries = 0;
        loop {
            let NotDelivered { why, again } = match self.runtime.block_on(self.delivery.send(batch))
            {
                Ok(remark) => {
                    if tries > 0 && self.patient {
                        output::remark(["records are taken again".to_owned()])?;
                    }
                    output::remark(remark)?;
                    return Ok(Piece::Taken);
                }
                Err(not) => not,
            };
            let after = match again {
                Again::Later(after) => after,
                Again::Less if batch.len() > 1 => return Ok(Piece::Less),
                Again::Refused => return Ok(Piece::Refused(why)),
                Again::Less | Again::Never => {
                    let (first, last) = ends(batch);
                    bail!(
                        "records {first} to {last} are not taken, and will not be: {why}; the cursor stays \
                         before them"
                    );
                }
            };
            tries += 1;
            if !self.patient && tries == MOST_TRIES {
                bail!("records were not taken, {tries} times: {why}");
            }
            if tries == 1 {
                output::remark([format!("records are not taken ({why}): trying again")])?;
            }
            std::thread::sleep(after.unwrap_or(pause).min(LAST_PAUSE));
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

/// The places of the first and the last one.
fn ends(batch: &[Found]) -> (u64, u64) {
    let place = |found: Option<&Found>| found.map_or(0, |found| found.at.seq);
    (place(batch.first()), place(batch.last()))
}

/// One connection or request each.
const AT_ONCE: usize = 1000;
/// How often a record is looked at for what came.
const PAUSE: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// A quarter of a minute; a service that runs this will run it again.
const MOST_TRIES: u32 = 7;
