//! Where a URL leads: scheme, host, port and what is asked for there.

use std::net::IpAddr;

use gig_policy::{Host, ParseAllowError, PolicyBuilder, Port};
use gig_proxy::authority::Authority;

/// The parts of `http[s]://host[:port]/path?query`.
pub(crate) struct Target {
    pub(crate) tls: bool,
    pub(crate) host: Host,
    pub(crate) port: Port,
    /// As the `Host` field has it.
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err("the URL is neither https:// nor http://"),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("the URL holds credentials");
        }
        let parsed = Authority::parse(authority).map_err(|_| "the URL names no host")?;
        let default = if tls { Port::HTTPS } else { Port::HTTP };
        let path = path.split('#').next().unwrap_or_default();
        Ok(Self {
            tls,
            host: parsed.host,
            port: parsed.port.unwrap_or(default),
            authority: authority.to_owned(),
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
        })
    }
}

/// A policy of one rule: this host at this port, and what is opened of private ranges for it.
///
/// # Errors
/// When no rule can name the host or the ranges.
pub(crate) fn only(
    host: &Host,
    port: Port,
    private: &[String],
) -> Result<PolicyBuilder, ParseAllowError> {
    let option = match host {
        Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        host => format!("{host}:{port}"),
    };
    let builder = PolicyBuilder::new("outbound").allow(&option)?;
    let mut ranges = private.iter();
    ranges.try_fold(builder, |builder, range| builder.allow_private(range))
}
