//! Configurations of the peers: HAProxy, squid with ssl-bump, mitmproxy. One thread each, no log,
//! the same origin, its CA trusted.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    origin::Origin,
    outcome::{Outcome, doing},
    path::{ANSWERS, BarePath, UPLOADS},
    process::{Core, Guard, descendants, free_port, pinned, wait_for_port},
};

/// A peer that listens.
pub(crate) struct Started {
    /// For the origin's answers.
    pub(crate) port: u16,
    /// For uploads.
    pub(crate) sink_port: u16,
    /// The process whose CPU is counted, and what kills it.
    pub(crate) process: (u32, Guard),
}

pub(crate) fn haproxy(room: &Path, origin: &Origin) -> Outcome<Started> {
    let (port, sink_port) = (free_port()?, free_port()?);
    let config = room.join("haproxy.cfg");
    let binds = [port, sink_port].map(|port| format!("127.0.0.1:{port}"));
    fs::write(&config, haproxy_config(origin, &binds))?;
    let mut command = pinned(Core::Proxy, "haproxy");
    command.arg("-q").arg("-db").arg("-f").arg(&config);
    let guard = Guard::spawn("haproxy", &mut command)?;
    wait_for_port(port)?;
    Ok(Started {
        port,
        sink_port,
        process: (guard.id(), guard),
    })
}

/// HAProxy with listening sockets at the near end of a bare path.
pub(crate) fn haproxy_behind(
    path: &BarePath,
    room: &Path,
    origin: &Origin,
) -> Outcome<(u32, Guard)> {
    let config = room.join("haproxy-veth.cfg");
    // HAProxy puts a variable in where it is in double quotes.
    let binds = [ANSWERS, UPLOADS].map(|number| format!("\"fd@${{{number}}}\""));
    fs::write(&config, haproxy_config(origin, &binds))?;
    let mut command = path.listening("haproxy")?;
    command.arg("-q").arg("-db").arg("-f").arg(&config);
    let guard = Guard::spawn("haproxy", &mut command)?;
    Ok((guard.id(), guard))
}

fn haproxy_config(origin: &Origin, [answers, uploads]: &[String; 2]) -> String {
    let (pair, ca) = (origin.pair.display(), origin.ca.display());
    let (nginx, sink) = (origin.port, origin.sink_port);
    format!(
        "global
  nbthread 1
  maxconn 4000
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
frontend answers
  bind {answers} ssl crt {pair} alpn h2,http/1.1
  default_backend origin
frontend uploads
  bind {uploads} ssl crt {pair} alpn http/1.1
  default_backend sink
backend origin
  server o 127.0.0.1:{nginx} ssl verify required ca-file {ca} sni str(origin.bench.test) alpn http/1.1
backend sink
  server s 127.0.0.1:{sink} ssl verify required ca-file {ca} sni str(origin.bench.test) alpn http/1.1
"
    )
}

pub(crate) fn squid(room: &Path, origin: &Origin) -> Outcome<Started> {
    let port = free_port()?;
    let room = &room.join("squid");
    fs::create_dir(room)?;
    // Started by root, squid becomes `proxy` and must still write here.
    fs::set_permissions(room, fs::Permissions::from_mode(0o777))?;
    let pair = room.join("ca.pem");
    let both = format!(
        "{}{}",
        fs::read_to_string(&origin.ca)?,
        fs::read_to_string(&origin.ca_key)?
    );
    fs::write(&pair, both)?;
    let helper = "/usr/lib/squid/security_file_certgen";
    let store = room.join("certificates");
    let made = Command::new(helper)
        .args(["-c", "-s"])
        .arg(&store)
        .args(["-M", "4MB"])
        .stdout(Stdio::null())
        .status();
    if !doing(made, || format!("run {helper}"))?.success() {
        return Err("squid's certificate store could not be made".into());
    }
    open_to_all(&store)?;
    fs::write(room.join("hosts"), hosts())?;
    let config = room.join("squid.conf");
    let (at, ca) = (room.display(), origin.ca.display());
    fs::write(
        &config,
        format!(
            "http_port 127.0.0.1:{port} ssl-bump generate-host-certificates=on \
dynamic_cert_mem_cache_size=4MB tls-cert={at}/ca.pem
sslcrtd_program {helper} -s {at}/certificates -M 4MB
sslcrtd_children 1
tls_outgoing_options cafile={ca}
acl step1 at_step SslBump1
ssl_bump peek step1
ssl_bump bump all
http_access allow all
hosts_file {at}/hosts
access_log none
cache_log {at}/cache.log
cache_store_log none
cache deny all
cache_mem 8 MB
pid_filename none
coredump_dir {at}
workers 1
max_filedescriptors 8192
pinger_enable off
shutdown_lifetime 1 seconds
"
        ),
    )?;
    let mut command = pinned(Core::Proxy, "squid");
    command.arg("-N").arg("-f").arg(&config);
    let guard = Guard::spawn("squid", &mut command)?;
    wait_for_port(port)?;
    Ok(Started {
        port,
        sink_port: port,
        process: (guard.id(), guard),
    })
}

pub(crate) fn mitmproxy(room: &Path, origin: &Origin) -> Outcome<Started> {
    let port = free_port()?;
    let room = &room.join("mitmproxy");
    fs::create_dir(room)?;
    // It resolves by the system, so each connection is turned to the origin's address by a script.
    let script = room.join("to_origin.py");
    fs::write(
        &script,
        "def server_connect(data):\n    data.server.address = ('127.0.0.1', data.server.address[1])\n",
    )?;
    let mut command = pinned(Core::Proxy, "mitmdump");
    command
        .arg("-q")
        .arg("--listen-host")
        .arg("127.0.0.1")
        .arg("-p")
        .arg(port.to_string());
    command
        .arg("--set")
        .arg(format!("confdir={}", room.display()));
    command.arg("--set").arg(format!(
        "ssl_verify_upstream_trusted_ca={}",
        origin.ca.display()
    ));
    command
        .arg("--set")
        .arg("stream_large_bodies=1m")
        .arg("-s")
        .arg(&script);
    let guard = Guard::spawn("mitmdump", &mut command)?;
    wait_for_port(port)?;
    // The program may be a launcher; what is counted is the last process behind it.
    let counted = descendants(guard.id())
        .last()
        .map_or_else(|| guard.id(), |(pid, _)| *pid);
    Ok(Started {
        port,
        sink_port: port,
        process: (counted, guard),
    })
}

fn open_to_all(path: &Path) -> Outcome<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    }
    Ok(())
}

fn hosts() -> String {
    let names = (0..crate::contender::FRESH_NAMES).map(crate::order::fresh_name);
    std::iter::once(crate::order::HOST.to_owned())
        .chain(names)
        .map(|name| format!("127.0.0.1 {name}\n"))
        .collect()
}
