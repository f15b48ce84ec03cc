//! gig's own log, on standard error: by `GIG_LOG`, what is told and by whom.
//!
//! It promises that no line holds what a sandbox or an origin wrote in a library's words: those of what reads
//! their octets are told where they are errors alone, whatever the filter says. What servers print is kept
//! elsewhere ([`crate::serve`]).

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing::{Level, Metadata, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, filter::filter_fn, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// Begins to tell. `GIG_LOG` is a tracing filter. By default only our own words count: a library's would tell
/// what a program did to it. An appliance says what goes on; a command only what is wrong: standard error of a
/// run belongs to the program.
///
/// # Errors
/// The filter cannot be read: who asked for more words, or fewer, is not left with others.
pub(crate) fn start(serves: bool) -> anyhow::Result<()> {
    let default = if serves {
        OF_AN_APPLIANCE
    } else {
        OF_A_COMMAND
    };
    let said = std::env::var_os(LOG).filter(|said| !said.is_empty());
    let said = said.map_or_else(
        || default.to_owned(),
        |said| said.to_string_lossy().into_owned(),
    );
    let no_filter = || {
        format!(
            "{LOG}={said:?} is not a filter: write a level (off, error, warn, info, debug, trace), or parts with theirs (gig_proxy=debug,gig_vault=trace,warn)"
        )
    };
    let filter = EnvFilter::try_new(&said).with_context(no_filter)?;
    // To the library a lone word that is no level is the name of a part, and shows all of that.
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_part = |word: &str| word.contains(['=', '[', ':', '_']) || word == "gig";
    let mut words = said.split(',').map(str::trim);
    anyhow::ensure!(
        words.all(|word| word.is_empty() || is_level(word) || is_part(word)),
        no_filter()
    );
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // A failed write would be told by a macro that panics when standard error is gone or full.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(is_told))
        .with(lines)
        .init();
    tracing::debug!(
        version = env!("CARGO_PKG_VERSION"),
        filter = said,
        "the log begins"
    );
    Ok(())
}

/// Whether a line may be told at all.
fn is_told(line: &Metadata<'_>) -> bool {
    let part = line.target();
    let part = part.split_once("::").map_or(part, |(part, _)| part);
    if part == "gig" || part.starts_with("gig_") {
        return true;
    }
    let most = if OF_THE_WIRE.contains(&part) {
        Level::ERROR
    } else {
        Level::INFO
    };
    *line.level() <= most
}

/// The variable that says what is told on standard error.
const LOG: &str = "GIG_LOG";

/// By prefix: gig and every `gig_*` crate. What the proxy does for sandboxes is in the record, and a sandbox
/// must not be able to fill a log, or to wait for one.
const OF_AN_APPLIANCE: &str = "gig=info,gig_proxy=warn";
const OF_A_COMMAND: &str = "gig=warn";

/// Libraries that read octets of sandboxes and origins. They print frames with the debug data of a GOAWAY,
/// certificates and names, before anybody here can look at them. What others say below `info` is no less
/// raw (a statement with its parameters), but where they say more it is of their own doing.
const OF_THE_WIRE: [&str; 13] = [
    "h2",
    "hickory_net",
    "hickory_proto",
    "hickory_resolver",
    "httparse",
    "hyper",
    "hyper_util",
    "reqwest",
    "rustls",
    "tokio_rustls",
    "tokio_tungstenite",
    "tungstenite",
    "webpki",
];

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("lines").extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn what_libraries_read_is_told_at_no_level() {
        let lines = Lines::default();
        let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone());
        let all = EnvFilter::new("trace,h2=trace,rustls::client=trace");
        let subscriber = tracing_subscriber::registry()
            .with(all)
            .with(filter_fn(is_told))
            .with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "h2::codec::framed_read", "hidden");
            tracing::trace!(target: "rustls::client::hs", "hidden");
            tracing::warn!(target: "rustls::msgs::handshake", "hidden");
            tracing::debug!(target: "tokio_postgres::query", "hidden");
            tracing::info!(target: "tokio_postgres::connection", "of others");
            tracing::error!(target: "h2", "of what is broken");
            tracing::trace!(target: "gig_proxy::http", "of our own");
            tracing::debug!(target: "gig", "of the program");
        });
        let told = lines.0.lock().expect("lines");
        let told = String::from_utf8_lossy(&told);
        assert!(!told.contains("hidden"), "{told}");
        assert_eq!(told.matches(" of ").count(), 4, "{told}");
    }
}
