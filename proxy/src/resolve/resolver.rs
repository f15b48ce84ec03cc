//! Looks names up as the host does: `/etc/hosts`, then the servers of `/etc/resolv.conf`.
//!
//! Names are asked as they are, never with a search suffix. Answers are cached for their TTL. The
//! host's configuration is read again when it changes, since a laptop moves between networks. Which
//! names may be looked up, and what an answer is worth, is decided by others.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::{Duration, SystemTime},
};

use gig_policy::{DenyReason, Fqdn};
use hickory_resolver::{
    Resolver as Hickory, TokioResolver,
    config::{ResolverConfig, ResolverOpts},
    lookup::Lookup,
    lookup_ip::LookupIp,
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::rr::{Name, RecordType},
    system_conf::read_system_conf,
};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::{Instant, timeout};

/// A caching stub resolver with the host's configuration.
pub struct Resolver {
    deadline: Duration,
    current: Mutex<Current>,
}

/// The resolver made from one state of the host's files.
struct Current {
    inner: Option<Arc<TokioResolver>>,
    /// Without a server: what the host's file alone says.
    by_file: Option<Arc<TokioResolver>>,
    has_servers: bool,
    stamps: Stamps,
    looked: Instant,
}

/// When the files that it was made from were changed last.
type Stamps = [Option<SystemTime>; 2];

/// A name could not be resolved.
#[derive(Debug, Error)]
#[error("cannot resolve {name}: {why}")]
pub struct ResolveError {
    /// The name.
    pub name: Fqdn,
    /// What the program is told.
    pub reason: DenyReason,
    /// For our log.
    pub why: String,
}

impl Resolver {
    /// Reads the host's configuration; a missing one is not an error until a name is asked for.
    #[must_use]
    pub fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            current: Mutex::new(Current::read(deadline)),
        }
    }

    /// Whether the host has a name server at all.
    #[must_use]
    pub fn has_servers(&self) -> bool {
        self.current.lock().has_servers
    }

    /// The addresses of `name` in both families. Never asks with a search suffix.
    ///
    /// # Errors
    /// When there is none or no server answers in time.
    pub async fn addresses(&self, name: &Fqdn) -> Result<Vec<IpAddr>, ResolveError> {
        let fail = |reason, why: String| ResolveError {
            name: name.clone(),
            reason,
            why,
        };
        let inner = self.refreshed(|current| current.inner.clone());
        let inner = inner.ok_or_else(|| {
            fail(
                DenyReason::NameNotResolved,
                "the host has no resolver".to_owned(),
            )
        })?;
        let absolute = Name::from_ascii(format!("{name}."))
            .map_err(|error| fail(DenyReason::MalformedName, error.to_string()))?;
        match timeout(self.deadline, both_families(&inner, absolute)).await {
            Ok(Ok(addresses)) if addresses.is_empty() => {
                Err(fail(DenyReason::NameNotResolved, "no address".to_owned()))
            }
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(fail(reason(&error), words(&error))),
            Err(elapsed) => Err(fail(DenyReason::ResolverTimeout, elapsed.to_string())),
        }
    }

    /// The addresses that this host itself gives `name`, without asking anybody: by `/etc/hosts`, as the name of
    /// its loopback (RFC 6761 §6.3), or as its own name. Empty for all others.
    pub async fn own_addresses(&self, name: &Fqdn) -> Vec<IpAddr> {
        let by_file = self.refreshed(|current| current.by_file.clone());
        let absolute = Name::from_ascii(format!("{name}.")).ok();
        let mut found = Vec::new();
        if let (Some(by_file), Some(absolute)) = (by_file, absolute) {
            // Of one family the file may say nothing.
            for family in [RecordType::A, RecordType::AAAA] {
                let said = by_file.lookup(absolute.clone(), family).await;
                found.extend(said.into_iter().flat_map(addresses));
            }
        }
        let uname = rustix::system::uname();
        if found.is_empty() && is_own(name.as_str(), uname.nodename().to_bytes()) {
            found = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        }
        found
    }

    fn refreshed<T>(&self, which: impl FnOnce(&Current) -> T) -> T {
        let mut current = self.current.lock();
        if current.looked.elapsed() >= LOOK_AGAIN {
            current.looked = Instant::now();
            if stamps() != current.stamps {
                *current = Current::read(self.deadline);
            }
        }
        which(&current)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Current {
    fn read(deadline: Duration) -> Self {
        let stamps = stamps();
        let (config, options) = match read_system_conf() {
            Ok((config, options)) => (config, Some(options)),
            Err(error) => {
                tracing::warn!(%error, "{RESOLV_CONF} cannot be used: only {HOSTS} is");
                (ResolverConfig::default(), None)
            }
        };
        Self {
            stamps,
            ..Self::with(config, options.unwrap_or_default(), deadline)
        }
    }

    fn with(config: ResolverConfig, mut options: ResolverOpts, deadline: Duration) -> Self {
        let has_servers = !config.name_servers.is_empty();
        options.cache_size = CACHED;
        // resolv.conf may say more; ours bounds the whole.
        options.timeout = options.timeout.min(deadline);
        options.positive_max_ttl = Some(LONGEST);
        options.negative_max_ttl = Some(LONGEST_NEGATIVE);
        Self {
            by_file: made(ResolverConfig::default(), options.clone()),
            inner: made(config, options),
            has_servers,
            stamps: stamps(),
            looked: Instant::now(),
        }
    }
}

fn made(config: ResolverConfig, options: ResolverOpts) -> Option<Arc<TokioResolver>> {
    let builder = Hickory::builder_with_config(config, TokioRuntimeProvider::default());
    match builder.with_options(options).build() {
        Ok(resolver) => Some(Arc::new(resolver)),
        Err(error) => {
            tracing::error!(%error, "no resolver could be made");
            None
        }
    }
}

/// Whether it is what every host calls itself (RFC 6761 §6.3, Debian's and Fedora's `/etc/hosts`), what
/// `nss-myhostname` answers of it, or what this one is called (`own`), also by multicast DNS (RFC 6762 §3).
fn is_own(name: &str, own: &[u8]) -> bool {
    let own = String::from_utf8_lossy(own).to_ascii_lowercase();
    let short = own.split('.').next().unwrap_or_default();
    let below = |domain: &str| {
        let rest = name.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let of_node = |suffix: &str| !short.is_empty() && name.strip_suffix(suffix) == Some(short);
    LOOPBACK.iter().any(|domain| below(domain))
        || OF_ITSELF.contains(&name)
        || name == own
        || ["", ".local", ".localdomain"]
            .iter()
            .any(|suffix| of_node(suffix))
}

const LOOPBACK: [&str; 3] = [
    "localhost",
    "localhost.localdomain",
    "localhost6.localdomain6",
];
const OF_ITSELF: [&str; 8] = [
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
    "_outbound",
    "_gateway",
    "_localdnsstub",
    "_localdnsproxy",
];

/// Asks for both families at once. Once the IPv4 answer is there, the IPv6 one is waited for only a
/// moment (RFC 8305 §3): name servers that never answer for AAAA exist.
async fn both_families(inner: &TokioResolver, name: Name) -> Result<Vec<IpAddr>, NetError> {
    let four = inner.lookup(name.clone(), RecordType::A);
    let six = inner.lookup(name, RecordType::AAAA);
    tokio::pin!(four, six);
    let mut six_answer = None;
    let four_answer = tokio::select! {
        answer = &mut four => answer,
        answer = &mut six => {
            six_answer = Some(answer);
            four.await
        }
    };
    if six_answer.is_none() {
        six_answer = match &four_answer {
            Ok(_) => timeout(RESOLUTION_DELAY, six).await.ok(),
            Err(_) => Some(six.await),
        };
    }
    match (six_answer, four_answer) {
        (Some(Ok(six)), Ok(four)) => Ok(addresses(six).chain(addresses(four)).collect()),
        (_, Ok(four)) => Ok(addresses(four).collect()),
        (Some(Ok(six)), Err(_)) => Ok(addresses(six).collect()),
        (_, Err(error)) => Err(error),
    }
}

fn addresses(found: Lookup) -> impl Iterator<Item = IpAddr> {
    LookupIp::from(found).into_iter()
}

fn reason(error: &NetError) -> DenyReason {
    if matches!(error, NetError::Timeout) {
        DenyReason::ResolverTimeout
    } else {
        DenyReason::NameNotResolved
    }
}

/// Without what a name server wrote: of a chain of names, the library's own words say the last.
fn words(error: &NetError) -> String {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(_)) => "no address".to_owned(),
        NetError::Msg(_) | NetError::Proto(_) => "no answer that can be read".to_owned(),
        error => error.to_string(),
    }
}

fn stamps() -> Stamps {
    [RESOLV_CONF, HOSTS].map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok())
}

const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// Two calls of stat, at most this often.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// RFC 8305 §3: "Resolution Delay ... 50 milliseconds".
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// Answers kept, for all sandboxes together.
const CACHED: u64 = 4096;
/// An hour: renumbered origins are found again.
const LONGEST: Duration = Duration::from_secs(3600);
/// A name that did not exist may exist soon.
const LONGEST_NEGATIVE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
