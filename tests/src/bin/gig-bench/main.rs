//! What a request through gig costs, beside what it costs through nothing, through a plain tunnel
//! and through the proxies that are installed.
//!
//! `gig-bench [--quick] [--gig PATH] [--only NAME,NAME] [--load LOAD,LOAD] [--rounds N]` starts its own origin, load
//! and contenders, pins proxies to one core and everything else to another, interleaves all
//! measurements, and prints medians and ratios. Its figures are for people: nothing here passes or
//! fails. It leaves correctness to the suites.
#![forbid(unsafe_code)]

mod agent;
mod bearer;
mod bulk;
mod contender;
mod http1;
mod http2;
mod measure;
mod order;
mod origin;
mod outcome;
mod path;
mod peers;
mod process;
mod starts;
mod stream;
mod table;
mod tunnel;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    contender::{Contender, Gig},
    measure::{Piece, Scale},
    origin::Origin,
    outcome::{Outcome, doing},
    path::BarePath,
    process::installed,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gig-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match *words {
        ["agent"] => agent::run(),
        ["sink", port, pair] => on_one_thread(origin::sink(port.parse()?, Path::new(pair))),
        ["tunnel-at", at] => {
            let listener = path::listener(at, BarePath::tunnelled().port())?;
            on_one_thread(tunnel::serve_on(listener))
        }
        ["listening", at, program, ref args @ ..] => path::become_listening(at, program, args),
        ["tunnel", port] => on_one_thread(tunnel::serve(port.parse()?)),
        _ => bench(&Options::parse(&args)?),
    }
}

fn on_one_thread<F: Future<Output = Outcome<()>>>(future: F) -> Outcome<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

struct Options {
    scale: Scale,
    gig: PathBuf,
    only: Option<Vec<String>>,
    pieces: Vec<Piece>,
}

impl Options {
    fn parse(args: &[String]) -> Outcome<Self> {
        let mut options = Self {
            scale: Scale::FULL,
            gig: std::env::current_exe()?.with_file_name("gig"),
            only: None,
            pieces: measure::PIECES.to_vec(),
        };
        let mut rounds = None;
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let mut value = || {
                rest.next()
                    .ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
            };
            match word.as_str() {
                "--quick" => options.scale = Scale::QUICK,
                "--gig" => options.gig = PathBuf::from(value()?),
                "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--load" => {
                    let named = value()?.split(',').map(|name| {
                        Piece::named(name).ok_or_else(|| format!("no load is called {name}"))
                    });
                    options.pieces = named.collect::<Result<_, _>>()?;
                }
                "--rounds" => rounds = Some(value()?.parse()?),
                _ => return Err(USAGE.into()),
            }
        }
        options.scale.rounds = rounds.unwrap_or(options.scale.rounds).clamp(1, MOST_ROUNDS);
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| only.iter().any(|one| one == name))
    }
}

fn bench(options: &Options) -> Outcome<()> {
    let room = tempfile::Builder::new().prefix("gig-bench-").tempdir()?;
    // nginx may give its worker to another user, who must be able to pass through.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(room.path(), permissions)?;
    for needed in ["nginx", "taskset"] {
        if !installed(needed) {
            return Err(format!("{needed} is needed: apt-get install nginx util-linux").into());
        }
    }
    let origin = Origin::start(room.path(), options.scale.bulk)?;
    let path = bare_path(options);
    let mut contenders = contenders(options, (room.path(), &origin), path.as_ref());
    let names: Vec<_> = contenders.iter().map(|contender| contender.name).collect();
    if contenders.is_empty() && !options.wants("starts") {
        return Err("no contender could be started".into());
    }
    let results = measure::all(&mut contenders, &origin, (options.scale, &options.pieces));
    drop(contenders);
    println!("{}", table::figures(&results, &names));
    if options.gig.exists() && options.wants("starts") {
        let starts = doing(starts::measure(&options.gig, options.scale), || {
            "starts".to_owned()
        })?;
        println!("{}", table::starts(starts));
    }
    for gig in ["gig", "gig CONNECT"] {
        if names.contains(&gig) {
            println!("{}", table::targets(&results, gig));
        }
    }
    if names.contains(&SECRETS) && names.contains(&"gig") {
        println!("{}", table::secrets(&results, SECRETS));
    }
    Ok(())
}

/// The peers' path over a veth, where one can be made and is wanted.
fn bare_path(options: &Options) -> Option<BarePath> {
    if !BEHIND.iter().any(|name| options.wants(name)) {
        return None;
    }
    BarePath::make()
        .inspect_err(|error| eprintln!("peers behind a veth: left out: {error} (root is needed)"))
        .ok()
}

fn contenders(
    options: &Options,
    (room, origin): (&Path, &Origin),
    path: Option<&BarePath>,
) -> Vec<Contender> {
    let mut all = Vec::new();
    let mut add = |name: &str, there: bool, start: &dyn Fn() -> Outcome<Contender>| {
        if !options.wants(name) {
            return;
        }
        if !there {
            eprintln!("{name}: not installed, left out");
            return;
        }
        match start() {
            Ok(contender) => all.push(contender),
            Err(error) => eprintln!("{name}: left out: {error}"),
        }
    };
    let gig = options.gig.as_path();
    let [tunnel_veth, haproxy_veth] = BEHIND;
    let haproxy = installed("haproxy");
    add("direct", true, &|| Contender::direct(origin));
    add("tunnel", true, &Contender::tunnel);
    add("HAProxy", haproxy, &|| Contender::haproxy(room, origin));
    if let Some(path) = path {
        add(tunnel_veth, true, &|| Contender::tunnel_behind(path));
        add(haproxy_veth, haproxy, &|| {
            Contender::haproxy_behind(path, room, origin)
        });
    }
    for (name, way) in [
        ("gig", Gig::Redirected),
        (SECRETS, Gig::Secrets),
        ("gig CONNECT", Gig::Connect),
    ] {
        add(name, gig.exists(), &|| {
            Contender::gig(gig, (room, origin), (name, way))
        });
    }
    add("squid", installed("squid"), &|| {
        Contender::squid(room, origin)
    });
    add("mitmproxy", installed("mitmdump"), &|| {
        Contender::mitmproxy(room, origin)
    });
    all
}

/// Peers whose load is behind a veth, as gig's is.
const BEHIND: [&str; 2] = ["tunnel veth", "HAProxy veth"];
/// gig with secrets, beside the same gig without.
const SECRETS: &str = "gig secrets";
/// So many rounds use up the fresh names.
const MOST_ROUNDS: u32 = contender::FRESH_NAMES / Scale::FULL.fresh;

const USAGE: &str =
    "usage: gig-bench [--quick] [--gig PATH] [--rounds 1-10] [--only NAME,...] [--load LOAD,...]
names: direct tunnel HAProxy 'tunnel veth' 'HAProxy veth' gig 'gig secrets' 'gig CONNECT' squid mitmproxy starts
loads: held http1 http2 http1bearer http2bearer single cached cachedonebyone fresh down up";
