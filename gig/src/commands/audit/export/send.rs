//! `gig audit export --to`: batch after batch, each until it was taken.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail};
use gig_audit::{
    log::Log,
    search::{Filter, Found, Marks},
};
use gig_proxy::tls::roots::Roots;
use serde_json::{Value, json};

use super::told;
use crate::{
    args::audit::SendingArgs,
    deliver::{Again, Cursor, Delivered, Delivery, Destination, NotDelivered, bearer},
    exit_status::ExitStatus,
    output,
    run::settings::own_proxy,
};

mod open;

use open::{Open, Refused, gap, last_of_each};

/// Sends what the cursor has not, and with `--follow` what comes. Answers what was sent, for a program, too.
///
/// # Errors
/// When the record cannot be read, the cursor not be kept, or the other side takes nothing.
pub(super) fn execute(
    mut log: Box<dyn Log>,
    file: &Path,
    filter: &Filter,
    (to, args): (Destination, SendingArgs),
) -> anyhow::Result<(Value, ExitStatus)> {
    let Some(path) = &args.cursor else {
        bail!("--to needs --cursor FILE: it holds how far the record was delivered");
    };
    let reading = || format!("cannot read {}", file.display());
    let url = to.url().to_owned();
    let mut cursor = Cursor::open(path, &url, log.as_mut())?;
    let filter = &begun(&mut cursor, file, filter, &to)?;
    let (mut records, mut missed) = (0, 0);
    let place = to.place();
    let mut marks = cursor.resume(log.as_mut())?;
    let mut sender = Sender::new(to, &args)?;
    let mut open = Open::default();
    loop {
        let some = log.after(&marks, AT_ONCE).with_context(reading)?;
        if some.is_empty() {
            missed += open.miss_the_rest(&mut cursor, (&marks, &url), filter)?;
        }
        if !some.is_empty() {
            let missing = cursor.missing(&marks, &some)?;
            open.miss(missing, filter);
            some.iter().for_each(|found| marks.set(found.at));
            open.ends.extend(some.iter().cloned());
            open.ends = last_of_each(&open.ends);
            let wanted = some.into_iter().filter(|found| filter.matches(&found.row));
            let wanted: Vec<_> = wanted.collect();
            records += wanted.len();
            sender.send(&wanted, &mut open)?;
            // What came behind tells whether it was them, or all of it.
            if open.unsure.is_empty() {
                missed += open.settle(&mut cursor, (&marks, &url))?;
            } else if open.unsure.len() > MOST_UNSURE {
                if !args.follow {
                    bail!(open.words(&url));
                }
                // No more is read: what is taken later tells what becomes of these.
                sender.stand_still(&mut open, (log.as_mut(), &marks, &url))?;
            }
        } else if !args.follow {
            if !open.unsure.is_empty() {
                bail!(open.words(&url));
            }
            let document = json!({ "to": place, "records": records, "missed": missed });
            let status = match missed {
                0 => ExitStatus::SUCCESS,
                _ => ExitStatus::NO,
            };
            return Ok((document, status));
        } else if log.replaced(&marks).with_context(reading)?
            // What was written to the old one until it was replaced comes first.
            && log.after(&marks, 1).with_context(reading)?.is_empty()
            && let Ok(new) = super::super::follow(file)
        {
            // Nothing comes behind them any more.
            open.give_up();
            missed += open.settle(&mut cursor, (&marks, &url))?;
            log = new;
            marks = Marks::default();
            cursor.begin_anew();
        } else {
            open.remark(&url)?;
            if sender.is_time(&open) {
                sender.knock(&[], &mut open)?;
            }
            if open.unsure.is_empty() && !open.is_settled() {
                missed += open.settle(&mut cursor, (&marks, &url))?;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// What is delivered with this cursor: what goes on where it stopped was told when it began.
fn begun(
    cursor: &mut Cursor,
    file: &Path,
    filter: &Filter,
    to: &Destination,
) -> anyhow::Result<Filter> {
    let (asked, mut filter) = (told::asked(filter), filter.clone());
    let Some(since) = cursor.since(&asked)? else {
        told::tell_export(file, &format!("sent to {}", to.place()), &filter)?;
        cursor.begins(asked)?;
        return Ok(filter);
    };
    let given = filter.since.take();
    if let Some(given) = given.filter(|given| since.as_ref() != Some(given)) {
        let began = since.as_deref().unwrap_or("its first record");
        let words = format!("the cursor goes on since {began}, as it began, and not since {given}");
        output::remark([words])?;
    }
    filter.since = since;
    Ok(filter)
}

/// What became of a part of a batch.
enum Piece {
    Taken,
    /// There was nothing to tell.
    Nothing,
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
    /// A record that was taken: whether it is again tells what a refusal of another means.
    taken: Option<Found>,
    /// How often in a row it was not.
    tries: u32,
    /// How often it was asked since then whether it takes something now.
    knocks: u32,
    /// Looks until it is asked again.
    looks: u32,
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
            Some(file) => Some(bearer(file, "--token")?),
            None => None,
        };
        if token.is_some() && to.shows_token() {
            output::remark([format!(
                "warning: the token of --token and what is recorded cross the network to {} in clear text: \
                 write https://",
                to.url()
            )])?;
        }
        Ok(Self {
            delivery: Delivery::new(to, roots, proxy, token),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("cannot start the runtime")?,
            patient: args.follow,
            taken: None,
            tries: 0,
            knocks: 0,
            looks: 0,
        })
    }

    /// Returns when the batch was taken, or each record of it that was not was refused by itself; what was refused
    /// before anything was taken is tried again as soon as something is.
    fn send(&mut self, batch: &[Found], open: &mut Open) -> anyhow::Result<()> {
        self.send_some(batch, open)?;
        if self.taken.is_some() && !open.unsure.is_empty() {
            let unsure = std::mem::take(&mut open.unsure).into_iter();
            let again: Vec<Found> = unsure.map(|(found, _)| found).collect();
            self.send_some(&again, open)?;
        }
        Ok(())
    }

    /// Whether it is time to ask again about what waits, of looks at the record that found nothing.
    fn is_time(&mut self, open: &Open) -> bool {
        if open.unsure.is_empty() {
            return false;
        }
        self.looks += 1;
        let every = LOOKS_OF_FIRST_KNOCK * 2_u32.pow(self.knocks.min(6));
        let is_time = self.looks >= every;
        if is_time {
            self.looks = 0;
        }
        is_time
    }

    /// Asks with one of what waits, and one of what comes behind it, each time with others: when either is taken, so is
    /// the rest, or it is known to be refused for what is in it.
    fn knock(&mut self, behind: &[Found], open: &mut Open) -> anyhow::Result<()> {
        let nth = usize::try_from(self.knocks).unwrap_or_default();
        self.knocks += 1;
        let waits: Vec<Found> = open.unsure.iter().map(|(found, _)| found.clone()).collect();
        for (some, waited) in [(&waits[..], true), (behind, false)] {
            let Some(one) = some.get(nth % some.len().max(1)) else {
                continue;
            };
            // What is said of one that comes behind is heard when its turn is.
            let mut aside = Open::default();
            let heard = if waited { &mut *open } else { &mut aside };
            let is_taken = matches!(
                self.send_piece(std::slice::from_ref(one), heard)?,
                Piece::Taken
            );
            if is_taken && self.delivery.tells(one) {
                // What was rejected of what was taken is not sent again.
                open.unsure.retain(|(waits, _)| waits.at != one.at);
                self.taken = Some(one.clone());
                self.knocks = 0;
                output::remark(["records are taken now".to_owned()])?;
                return self.send(&[], open);
            }
        }
        Ok(())
    }

    /// Knocks until something is taken; says so here and in the record, once.
    fn stand_still(
        &mut self,
        open: &mut Open,
        (log, marks, url): (&mut dyn Log, &Marks, &str),
    ) -> anyhow::Result<()> {
        gap(format!(
            "delivery to {url} stands still: {} records were refused one after the other, and none was taken; it is \
             tried again, once a minute at least: {}",
            open.unsure.len(),
            open.words(url)
        ))?;
        while !open.unsure.is_empty() {
            let pause = FIRST_PAUSE * 2_u32.pow(self.knocks.min(8));
            std::thread::sleep(pause.min(LAST_PAUSE));
            let behind = log
                .after(marks, AT_ONCE)
                .context("cannot read the record")?;
            self.knock(&behind, open)?;
        }
        Ok(())
    }

    /// In pieces, where it is too much at once or one of them is refused.
    fn send_some(&mut self, batch: &[Found], open: &mut Open) -> anyhow::Result<()> {
        // What is still to be sent, the next piece last.
        let mut pieces = vec![batch];
        while let Some(piece) = pieces.pop() {
            match (self.send_piece(piece, open)?, piece) {
                (_, []) | (Piece::Nothing, _) => {}
                (Piece::Taken, _) => {
                    self.tries = 0;
                    let told = piece.iter().rev().find(|found| self.delivery.tells(found));
                    if let Some(told) = told.cloned() {
                        self.taken = Some(told);
                    }
                }
                (Piece::Refused(why), [one]) => match self.is_well()? {
                    None => open.unsure.push((one.clone(), why)),
                    Some(true) => open.refused.push(Refused::of(one, why)),
                    Some(false) => {
                        self.wait(&why)?;
                        pieces.push(piece);
                    }
                },
                (Piece::Less | Piece::Refused(_), _) => {
                    let (first, second) = piece.split_at(piece.len() / 2);
                    pieces.extend([second, first]);
                }
            }
        }
        Ok(())
    }

    /// Whether the other side takes again what it took before; `None` where it took nothing yet.
    fn is_well(&mut self) -> anyhow::Result<Option<bool>> {
        let Some(known) = self.taken.clone() else {
            return Ok(None);
        };
        // What is said of it was said before.
        let mut aside = Open::default();
        let again = self.send_piece(std::slice::from_ref(&known), &mut aside)?;
        Ok(Some(matches!(again, Piece::Taken)))
    }

    /// The other side takes nothing any more, not even what it took: time may help.
    fn wait(&mut self, why: &str) -> anyhow::Result<()> {
        self.tries += 1;
        let tries = self.tries;
        if !self.patient && tries == MOST_TRIES {
            bail!("records were not taken, {tries} times, nor what was taken before: {why}");
        }
        if tries == 1 {
            output::remark([format!("nothing is taken any more ({why}): trying again")])?;
        }
        let pause = FIRST_PAUSE * 2_u32.pow(tries.min(8) - 1);
        std::thread::sleep(pause.min(LAST_PAUSE));
        Ok(())
    }

    /// Once, and again as long as time helps.
    fn send_piece(&mut self, batch: &[Found], open: &mut Open) -> anyhow::Result<Piece> {
        if batch.is_empty() {
            return Ok(Piece::Taken);
        }
        let mut pause = FIRST_PAUSE;
        let mut tries = 0;
        loop {
            let NotDelivered { why, again } = match self.runtime.block_on(self.delivery.send(batch))
            {
                Ok(Delivered::Nothing) => return Ok(Piece::Nothing),
                Ok(Delivered::Taken(rejected)) => {
                    if tries > 0 && self.patient {
                        output::remark(["records are taken again".to_owned()])?;
                    }
                    if let Some(rejected) = rejected {
                        open.hear(rejected, batch.len())?;
                    }
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
/// Records that were refused before anything was taken, which are kept in memory: some megabytes.
const MOST_UNSURE: usize = 1000;
/// A second; each time it is for nothing the next comes later, until it is a minute.
const LOOKS_OF_FIRST_KNOCK: u32 = 5;
/// How often a record is looked at for what came.
const PAUSE: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// A quarter of a minute; a service that runs this will run it again.
const MOST_TRIES: u32 = 7;
