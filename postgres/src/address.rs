//! Where a PostgreSQL is and how it is spoken to, as `GIG_DATABASE_URL` says it: a URL of libpq's.
//!
//! What is not understood is refused, and nothing of the URL is repeated in a message: it holds a
//! password. A server across a network is spoken to by TLS, its certificate verified for the name in
//! the URL, unless `sslmode` says something weaker in so many words. To one on this machine (a Unix
//! socket, a loopback address) nothing is encrypted unless `sslmode` asks for it.

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use percent_encoding::percent_decode_str;
use thiserror::Error;
use tokio_postgres::{
    Config,
    config::{Host, SslMode, TargetSessionAttrs},
};

use crate::encryption::{Encryption, EncryptionError};

/// Where it is, and how it is spoken to.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) config: Config,
    /// `None`: in the clear.
    pub(crate) encryption: Option<Encryption>,
    /// For messages: no password.
    pub(crate) place: Arc<str>,
}

/// A URL of a database is not usable. It is not repeated: it may hold a password.
#[derive(Debug, Error)]
pub enum ReadAddressError {
    /// It names something else.
    #[error("a database is named by postgres://USER:PASSWORD@HOST/DATABASE")]
    Scheme,
    /// It is not written as one.
    #[error(
        "the database's URL is damaged: write postgres://USER:PASSWORD@HOST/DATABASE, with %40 for an @ \
         in a password, %3F for a ? and %2F for a /"
    )]
    Url,
    /// A parameter is not known.
    #[error(
        "the database's URL has a parameter that is not known: after the ? may stand {known}",
        known = KNOWN.join(", ")
    )]
    Parameter,
    /// It names no server.
    #[error(
        "the database's URL names no host: for a socket on this machine add ?host=/run/postgresql"
    )]
    Host,
    /// It does not say which address or port is whose.
    #[error("the database's URL names not as many addresses or ports as hosts")]
    Count,
    /// `sslmode` has no such word.
    #[error(
        "sslmode is disable (in the clear), prefer (TLS if the server has it), require or verify-full \
         (TLS with a verified certificate, what is done if nothing is said)"
    )]
    Mode,
    /// `target_session_attrs` asks for a server that cannot be written to.
    #[error("target_session_attrs can only be read-write: gig writes")]
    Session,
    /// TLS cannot be had.
    #[error("sslrootcert")]
    Encryption(#[source] EncryptionError),
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`ReadAddressError`].
    pub(crate) fn read(url: &str) -> Result<Self, ReadAddressError> {
        if !is_postgres(url) {
            return Err(ReadAddressError::Scheme);
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        // The library takes what follows the first @ for the host: a password's end would be asked for.
        if base.matches('@').count() > 1 {
            return Err(ReadAddressError::Url);
        }
        let asked = Asked::read(query)?;
        let url = format!("{base}?{}", asked.passed_on.join("&"));
        let mut config: Config = url.parse().map_err(|_| ReadAddressError::Url)?;
        if config.get_hosts().is_empty() {
            return Err(ReadAddressError::Host);
        }
        let hosts = config.get_hosts();
        if hosts
            .iter()
            .any(|host| matches!(host, Host::Tcp(name) if name.contains('@')))
        {
            return Err(ReadAddressError::Url);
        }
        let hosts = hosts.len();
        let (addresses, ports) = (config.get_hostaddrs().len(), config.get_ports().len());
        if ![0, hosts].contains(&addresses) || ![0, 1, hosts].contains(&ports) {
            return Err(ReadAddressError::Count);
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("gig");
        }
        let mode = asked.mode.unwrap_or_else(|| match is_here(&config) {
            true => SslMode::Disable,
            false => SslMode::Require,
        });
        config.ssl_mode(mode);
        let sockets = |host: &Host| matches!(host, Host::Unix(_));
        let encryption = match mode == SslMode::Disable || config.get_hosts().iter().all(sockets) {
            // There is no TLS on a socket of this machine.
            true => {
                config.ssl_mode(SslMode::Disable);
                None
            }
            false => Some(Encryption::new(asked.roots).map_err(ReadAddressError::Encryption)?),
        };
        let place = place(&config).into();
        Ok(Self {
            config,
            encryption,
            place,
        })
    }

    /// Whether what is said can be read on the way.
    pub(crate) fn is_in_the_clear(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Require && !is_here(&self.config)
    }
}

/// What stands behind the question mark.
#[derive(Default)]
struct Asked<'a> {
    mode: Option<SslMode>,
    roots: Option<PathBuf>,
    /// For the library, as it stands.
    passed_on: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    fn read(query: &'a str) -> Result<Self, ReadAddressError> {
        let mut asked = Self::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(ReadAddressError::Parameter)?;
            match key {
                // A certificate that is not verified is anybody's: require means no less.
                "sslmode" => {
                    asked.mode = Some(match value {
                        "disable" => SslMode::Disable,
                        "prefer" => SslMode::Prefer,
                        "require" | "verify-full" => SslMode::Require,
                        _ => return Err(ReadAddressError::Mode),
                    });
                }
                "sslrootcert" => {
                    let path = percent_decode_str(value).decode_utf8();
                    let path = path.map_err(|_| ReadAddressError::Url)?;
                    // libpq's word for the system's own.
                    asked.roots = (path != "system").then(|| PathBuf::from(&*path));
                }
                "target_session_attrs" if value == "read-write" => {}
                "target_session_attrs" => return Err(ReadAddressError::Session),
                key if KNOWN.contains(&key) => asked.passed_on.push(part),
                _ => return Err(ReadAddressError::Parameter),
            }
        }
        Ok(asked)
    }
}

fn is_postgres(text: &str) -> bool {
    ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

/// Whether every server that is named is on this machine.
fn is_here(config: &Config) -> bool {
    let names = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
    });
    names && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let port = ports.get(index).or_else(|| ports.first()).unwrap_or(&5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => path.display().to_string(),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    match config.get_dbname() {
        Some(name) => format!("the database {name} of PostgreSQL at {}", hosts.join(", ")),
        None => format!("the database of PostgreSQL at {}", hosts.join(", ")),
    }
}

/// Of libpq's parameters those that mean something here.
const KNOWN: [&str; 13] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "load_balance_hosts",
    "password",
    "port",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "user",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address, ReadAddressError> {
        Address::read(url)
    }

    #[test]
    fn across_a_network_nothing_is_said_in_the_clear_unless_the_url_says_so() {
        let mode = |url: &str| {
            let address = read(url).unwrap();
            let encrypted = address.encryption.is_some();
            (
                address.config.get_ssl_mode(),
                encrypted,
                address.is_in_the_clear(),
            )
        };
        let sure = (SslMode::Require, true, false);
        let here = (SslMode::Disable, false, false);
        assert_eq!(mode("postgres://gig:x@db.example.com/gig"), sure);
        assert_eq!(
            mode("postgresql://db.example.com/gig?sslmode=require"),
            sure
        );
        assert_eq!(
            mode("postgres://db.example.com/gig?sslmode=verify-full"),
            sure
        );
        assert_eq!(mode("postgres://127.0.0.1/gig?sslmode=verify-full"), sure);
        assert_eq!(mode("postgres://127.0.0.1,db.example.com/gig"), sure);
        assert_eq!(mode("postgres://localhost/gig?hostaddr=192.0.2.1"), sure);
        for url in [
            "postgres://127.0.0.1/gig",
            "postgres://[::1]/g",
            "postgres://localhost/g",
        ] {
            assert_eq!(mode(url), here, "{url}");
        }
        assert_eq!(mode("postgres:///gig?host=/run/postgresql"), here);
        assert_eq!(mode("postgres:///gig?host=/run/p&sslmode=require"), here);
        let clear = (SslMode::Disable, false, true);
        assert_eq!(mode("postgres://db.example.com/gig?sslmode=disable"), clear);
        let either = (SslMode::Prefer, true, true);
        assert_eq!(mode("postgres://db.example.com/gig?sslmode=prefer"), either);
    }

    #[test]
    fn what_is_not_understood_is_refused_and_no_password_is_repeated() {
        for url in [
            "",
            "gig.db",
            "mysql://u:hunter2@h/d",
            "Postgres://u:hunter2@h/d",
            "postgres:///d",
            "postgres://u:hunter2@h:x/d",
            "postgres://u:hun?ter2@h/d",
            "postgres://u:hun@ter2@h/d",
            "postgres://u:hun@ter2@h",
            "postgres://u:h/un@ter2@h/d",
            "postgres://u:x@hun%40ter2/d",
            "postgres://u:x@/d?host=hun@ter2",
            "postgres://u:hunter2@g,h/d?hostaddr=192.0.2.1",
            "postgres://u:hun?ter2=@h/d",
            "postgres://u:hunter2@g,h/d?hostaddr=192.0.2.1,192.0.2.2,192.0.2.3",
            "postgres://u:hunter2@g,h/d?port=1,2,3",
            "postgres://u:hunter2@h/d?sslmode=allow",
            "postgres://u:hunter2@h/d?sslmode=verify-ca",
            "postgres://u:hunter2@h/d?sslmode=",
            "postgres://u:hunter2@h/d?options=-c%20x=y",
            "postgres://u:hunter2@h/d?channel_binding=require",
            "postgres://u:hunter2@h/d?target_session_attrs=any",
            "postgres://u:hunter2@h/d?sslrootcert=/nowhere/root.pem",
        ] {
            let error = read(url).map(drop).unwrap_err();
            let words = format!("{error} {error:?}");
            assert!(!words.contains("hun") && !words.contains("ter2"), "{words}");
        }
        let address = read("postgres://u:hunter2@h:6432/d").unwrap();
        assert_eq!(&*address.place, "the database d of PostgreSQL at h:6432");
        assert!(!format!("{address:?}").contains("hunter2"), "{address:?}");
    }

    #[test]
    fn every_place_of_the_database_is_told() {
        let places = |url: &str| crate::places::named(&read(url).unwrap().config);
        let of = |host: &str, port| (host.to_owned(), port);
        let one = places("postgres://u@db.example/gig?sslmode=disable");
        assert_eq!(one, [of("db.example", 5432)]);
        let two = places("postgres://u@a.example:1,b.example:2/gig?sslmode=disable");
        assert_eq!(two, [of("a.example", 1), of("b.example", 2)]);
        let socket = places("postgres://u@/gig?host=/run/postgresql");
        assert_eq!(socket, []);
        let sockets = |url: &str| crate::places::sockets(&read(url).unwrap().config);
        let socket = sockets("postgres://u@/gig?host=/run/postgresql");
        assert_eq!(
            socket,
            [std::path::Path::new("/run/postgresql/.s.PGSQL.5432")]
        );
        assert!(sockets("postgres://u@db.example/gig?sslmode=disable").is_empty());
        let address = places("postgres://u@db.example:6000/gig?hostaddr=192.0.2.1&sslmode=disable");
        assert_eq!(address, [of("db.example", 6000), of("192.0.2.1", 6000)]);
    }
}
