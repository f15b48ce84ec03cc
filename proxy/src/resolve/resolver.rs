//! Looks names up as the host does: `/etc/hosts`, then the servers of `/etc/resolv.conf`.
//!
//! Names are asked as they are, never with a search suffix. Answers are cached for their TTL. The
//! host's configuration is read again when it changes, since a laptop moves between networks. Which
//! names may be looked up, and what an answer is worth, is decided by others.

use std::{
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use gig_policy::{DenyReason, Fqdn};
use hickory_resolver::{
    Resolver as Hickory, TokioResolver,
    config::{ResolverConfig, ResolverOpts},
    lookup::Lookup,
    lookup_ip::LookupIp,
    net::{NetError, runtime::TokioRuntimeProvider},
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
        let inner = self.refreshed().ok_or_else(|| {
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
            Ok(Err(error)) => Err(fail(reason(&error), error.to_string())),
            Err(elapsed) => Err(fail(DenyReason::ResolverTimeout, elapsed.to_string())),
        }
    }

    fn refreshed(&self) -> Option<Arc<TokioResolver>> {
        let mut current = self.current.lock();
        if current.looked.elapsed() >= LOOK_AGAIN {
            current.looked = Instant::now();
            if stamps() != current.stamps {
                *current = Current::read(self.deadline);
            }
        }
        current.inner.clone()
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
        let builder = Hickory::builder_with_config(config, TokioRuntimeProvider::default());
        let inner = match builder.with_options(options).build() {
            Ok(inner) => Some(Arc::new(inner)),
            Err(error) => {
                tracing::error!(%error, "no resolver could be made");
                None
            }
        };
        Self {
            inner,
            has_servers,
            stamps: stamps(),
            looked: Instant::now(),
        }
    }
}

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
