//! What gig uses of the host at run time: name servers, roots, the data directory, a proxy.

use std::{
    fs,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::Path,
    sync::Arc,
    time::Duration,
};

use gig_proxy::{
    tls::{
        authority_key::Authority,
        roots::{LazyVerifier, Roots},
    },
    upstream::connect_proxy::UpstreamProxy,
};

use crate::{data_dir, doctor::Check, fetch::connect, secrets};

pub(super) fn examine() -> Vec<Check> {
    vec![
        resolver(),
        roots(),
        authority(),
        upstream_proxy(),
        record(),
        secret_memory(),
    ]
}

/// Locks pages as the vault does.
fn secret_memory() -> Check {
    let name = "memory for secrets";
    match gig_vault::memory::locked() {
        Ok(()) if gig_vault::SecretBytes::zeroed(1).is_locked() => {
            Check::works(name, "locked: never swapped, never dumped")
        }
        Ok(()) => Check::limited(
            name,
            "cannot be locked, and GIG_SWAPPABLE_SECRETS allows it",
        )
        .costs("secrets may be written to swap")
        .cure("raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=), or encrypt the swap"),
        Err(error) => Check::limited(name, error.to_string())
            .costs("gig refuses to work with secrets; everything else works")
            .cure("raise RLIMIT_MEMLOCK: ulimit -l unlimited, or LimitMEMLOCK=infinity in a unit"),
    }
}

/// Opens the vault as a run does that wants no secret.
pub(super) fn vault() -> Check {
    let name = "the vault";
    let known = secrets::refuse_unusable_key().and_then(|()| secrets::known_here());
    match known {
        Ok(None) => Check::works(name, "none is used here yet"),
        Ok(Some(_)) => Check::works(name, "its key opens it"),
        Err(error) => Check::missing(name, format!("{error:#}"))
            .costs("gig run starts no program: values of the vault could not be looked for in what it sends")
            .cure(
                "set GIG_MASTER_KEY or GIG_MASTER_KEY_FILE to its key, or bring the key file back from its backup; \
                 where the key is lost, use another data directory (GIG_DATA_DIR)",
            ),
    }
}

fn resolver() -> Check {
    let name = "name servers";
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = name_servers(&text);
    let answering: Vec<String> = servers
        .iter()
        .filter(|server| answers(**server))
        .map(ToString::to_string)
        .collect();
    if answering.is_empty() {
        let found = if servers.is_empty() {
            "/etc/resolv.conf names none".to_owned()
        } else {
            format!("none of {servers:?} answers")
        };
        return Check::limited(name, found)
            .costs("only destinations given with --resolve, or by address, can be reached")
            .cure("set a working nameserver in /etc/resolv.conf");
    }
    if answering.len() < servers.len() {
        return Check::limited(
            name,
            format!("only {} of {servers:?} answer", answering.join(", ")),
        )
        .costs("lookups take longer")
        .cure("remove the silent ones from /etc/resolv.conf");
    }
    Check::works(name, answering.join(", "))
}

fn roots() -> Check {
    let name = "roots for origins";
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let loaded = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| error.to_string())
        .and_then(|runtime| {
            let verifier = LazyVerifier::new(Roots::system(), provider);
            let made = runtime.block_on(verifier.verifier());
            made.map(|_| ()).map_err(|error| error.to_string())
        });
    let bundle = SYSTEM_BUNDLES.iter().find(|path| Path::new(path).exists());
    match (loaded, bundle) {
        (Ok(()), Some(path)) => Check::works(name, format!("the system's ({path})")),
        (Ok(()), None) => Check::limited(name, "the system has none; Mozilla's are compiled in")
            .costs("they are as old as this gig")
            .cure("sudo apt-get install ca-certificates"),
        (Err(why), _) => Check::missing(name, why)
            .costs("no TLS origin can be reached")
            .cure("sudo apt-get install --reinstall ca-certificates"),
    }
}

fn authority() -> Check {
    let name = "certificate authority";
    match Authority::generate() {
        Ok(_) => Check::works(name, "made in memory for each run"),
        Err(error) => Check::missing(name, error.to_string())
            .costs("no TLS of a sandbox can be looked into")
            .cure("see what was refused"),
    }
}

fn upstream_proxy() -> Check {
    let name = "upstream proxy";
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(other) = UpstreamProxy::overlooked(variable) {
        return Check::limited(name, format!("{other} is set and HTTPS_PROXY is not"))
            .costs("gig goes to origins directly, past that proxy")
            .cure("set HTTPS_PROXY in gig's own environment to that proxy, or unset both");
    }
    match UpstreamProxy::from_env(variable) {
        Ok(None) => Check::works(name, "none is set; origins are dialled directly"),
        Ok(Some(proxy)) => match listens(&proxy) {
            Ok(()) => Check::works(name, "it listens; taken from gig's own environment"),
            Err(why) => Check::missing(
                name,
                format!("{} port {}: {why}", proxy.host(), proxy.port()),
            )
            .costs("no origin can be reached but those that NO_PROXY names")
            .cure(
                "start it, or set HTTPS_PROXY in gig's own environment to where it is, or unset it",
            ),
        },
        Err(error) => Check::missing(name, error.to_string())
            .costs("gig run refuses to start")
            .cure("set the variable to http://[user:password@]host:port, or unset it"),
    }
}

/// Connects to it, and says nothing.
fn listens(proxy: &UpstreamProxy) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connecting = connect(proxy.host(), proxy.port());
    let connected = runtime.block_on(async { tokio::time::timeout(PATIENCE, connecting).await });
    // A look-up that is still under way is not waited for.
    runtime.shutdown_background();
    connected?.map(drop)
}

fn name_servers(resolv_conf: &str) -> Vec<IpAddr> {
    resolv_conf
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("nameserver"))
                .then(|| words.next())
                .flatten()
        })
        .filter_map(|address| address.split('%').next()?.parse().ok())
        .take(MOST_SERVERS)
        .collect()
}

/// Asks for the root's name servers, which every resolver knows; any answer at all will do.
fn answers(server: IpAddr) -> bool {
    let local: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let ask = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind((local, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send_to(ROOT_QUERY, SocketAddr::from((server, 53)))?;
        let mut answer = [0; 512];
        let (length, from) = socket.recv_from(&mut answer)?;
        let same_id = answer.iter().zip(ROOT_QUERY).take(2).all(|(a, b)| a == b);
        Ok(length >= 12 && from.ip() == server && same_id)
    };
    // A refused or silent server is the finding itself.
    ask().unwrap_or(false)
}

fn record() -> Check {
    let name = "the record";
    let tried = data_dir::path().and_then(|dir| {
        let runs = dir.join(gig_sandbox::RUNS);
        data_dir::make_private(&runs)?;
        let mut file = tempfile_in(&runs)?;
        file.write_all(b"doctor\n")?;
        file.sync_data()?;
        Ok(runs)
    });
    match tried {
        Ok(runs) => Check::works(name, format!("written to {}", runs.display())),
        Err(error) => Check::limited(name, format!("{error:#}"))
            .costs("without a record there is no egress; gig run needs --audit FILE")
            .cure("set GIG_DATA_DIR to a directory that can be written"),
    }
}

/// A file without a name: nothing to clean up.
fn tempfile_in(dir: &Path) -> std::io::Result<fs::File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// `. IN NS` with recursion desired (RFC 1035 §4.1).
const ROOT_QUERY: &[u8] = b"\x67\x69\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01";
/// Where distributions keep their bundle: Debian, Fedora, SUSE, Alpine.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// glibc asks no more than three (resolv.conf(5), MAXNS).
const MOST_SERVERS: usize = 3;
/// Long enough for a resolver that has to ask the root itself, and for a proxy.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_nobody_listens_at_does_not_work() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let named = |name: &str| (name == "HTTPS_PROXY").then(|| url.clone());
        let proxy = UpstreamProxy::from_env(named).unwrap().unwrap();
        assert!(listens(&proxy).is_ok());
        drop(listener);
        assert!(listens(&proxy).is_err());
    }

    #[test]
    fn name_servers_are_read_as_libc_reads_them() {
        let text = "# x\nsearch a\nnameserver 10.0.0.1\n nameserver fe80::1%eth0\nnameserver x\n";
        let expected: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        assert_eq!(name_servers(text), expected);
    }
}
