//! The servers that a URL names, one at a time: the library tries them in turn, too, but gives none of
//! them an end once it took the connection, so that one that hangs hides those behind it.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    net::IpAddr,
    path::PathBuf,
    time::Duration,
};

use tokio_postgres::{
    Config,
    config::{Host, LoadBalanceHosts},
};

/// One server of those in a URL.
pub(crate) struct Place {
    host: Host,
    address: Option<IpAddr>,
    port: u16,
    any_order: bool,
}

/// Their names and addresses, each with its port; sockets of this machine have neither.
pub(crate) fn named(config: &Config) -> Vec<(String, u16)> {
    let mut named = Vec::new();
    for Place {
        host,
        address,
        port,
        ..
    } in places(config)
    {
        if let Host::Tcp(name) = host {
            named.push((name, port));
        }
        named.extend(address.map(|address| (address.to_string(), port)));
    }
    named
}

/// Where the sockets of this machine are, by the name that PostgreSQL gives them in their folder.
pub(crate) fn sockets(config: &Config) -> Vec<PathBuf> {
    let sockets = places(config).into_iter().filter_map(|place| {
        let Host::Unix(folder) = place.host else {
            return None;
        };
        Some(folder.join(format!(".s.PGSQL.{}", place.port)))
    });
    sockets.collect()
}

/// In the order in which they are tried.
pub(crate) fn places(config: &Config) -> Vec<Place> {
    let (addresses, ports) = (config.get_hostaddrs(), config.get_ports());
    let any_order = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
    let hosts = config.get_hosts().iter().enumerate();
    let mut places: Vec<Place> = hosts
        .map(|(index, host)| Place {
            host: host.clone(),
            address: addresses.get(index).copied(),
            port: *ports.get(index).or_else(|| ports.first()).unwrap_or(&5432),
            any_order,
        })
        .collect();
    if any_order {
        turn(&mut places);
    }
    places
}

impl Place {
    /// Where it is; `None` for a socket of this machine.
    #[expect(
        clippy::disallowed_methods,
        reason = "the operator's own database, which the library would look up the same way"
    )]
    pub(crate) async fn addresses(&self) -> io::Result<Vec<Option<IpAddr>>> {
        if self.address.is_some() {
            return Ok(vec![self.address]);
        }
        let Host::Tcp(name) = &self.host else {
            return Ok(vec![None]);
        };
        let found = tokio::net::lookup_host((name.as_str(), self.port)).await?;
        let mut found: Vec<_> = found.map(|found| Some(found.ip())).collect();
        if found.is_empty() {
            return Err(io::Error::other("its name has no address"));
        }
        if self.any_order {
            turn(&mut found);
        }
        Ok(found)
    }

    /// All that `whole` says, for this one alone.
    pub(crate) fn config(&self, whole: &Config, at: Option<IpAddr>) -> Config {
        let mut config = Config::new();
        match &self.host {
            // The name is what a certificate is verified for.
            Host::Tcp(name) => config.host(name),
            Host::Unix(path) => config.host_path(path),
        };
        if let Some(at) = at {
            config.hostaddr(at);
        }
        config.port(self.port);
        if let Some(user) = whole.get_user() {
            config.user(user);
        }
        if let Some(password) = whole.get_password() {
            config.password(password);
        }
        if let Some(name) = whole.get_dbname() {
            config.dbname(name);
        }
        if let Some(name) = whole.get_application_name() {
            config.application_name(name);
        }
        if let Some(within) = whole.get_connect_timeout() {
            config.connect_timeout(*within);
        }
        if let Some(within) = whole.get_tcp_user_timeout() {
            config.tcp_user_timeout(*within);
        }
        config.keepalives(whole.get_keepalives());
        config.keepalives_idle(whole.get_keepalives_idle());
        if let Some(between) = whole.get_keepalives_interval() {
            config.keepalives_interval(between);
        }
        if let Some(times) = whole.get_keepalives_retries() {
            config.keepalives_retries(times);
        }
        config.ssl_mode(whole.get_ssl_mode());
        config.ssl_negotiation(whole.get_ssl_negotiation());
        config.target_session_attrs(whole.get_target_session_attrs());
        config
    }
}

/// What each of `many` may take that are tried within `within`.
pub(crate) fn share_of(within: Duration, many: usize) -> Duration {
    let many = u32::try_from(many).unwrap_or(u32::MAX).max(1);
    (within / many).max(LEAST)
}

/// Another one is the first.
fn turn<T>(all: &mut [T]) {
    let many = u64::try_from(all.len()).unwrap_or(u64::MAX);
    let by = RandomState::new().build_hasher().finish().checked_rem(many);
    let by = by.and_then(|by| usize::try_from(by).ok());
    all.rotate_left(by.unwrap_or(0));
}

/// A server that is there has answered by then.
const LEAST: Duration = Duration::from_secs(1);
