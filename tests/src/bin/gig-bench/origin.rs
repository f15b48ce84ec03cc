//! The origin: nginx with TLS and HTTP/2 for answers and downloads, a sink of our own for uploads.
//!
//! nginx answers an upload before it has read it, so the sink is a small TLS server that answers
//! when the last octet came. Both hold one certificate of a CA that lives as long as the run.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    bearer,
    order::HOST,
    outcome::{Outcome, doing},
    process::{Core, Guard, free_port, pinned, wait_for_port},
};

/// A running origin; ends with this value.
pub(crate) struct Origin {
    /// nginx: `/1k`, the same for a credential, and `/down`.
    pub(crate) port: u16,
    /// The sink: `/up`.
    pub(crate) sink_port: u16,
    /// Certificate of the CA, PEM.
    pub(crate) ca: PathBuf,
    /// The CA's key, PEM: for peers that mint.
    pub(crate) ca_key: PathBuf,
    /// Certificate and key of the origin in one file, PEM.
    pub(crate) pair: PathBuf,
    _nginx: Guard,
    _sink: Guard,
}

impl Origin {
    /// Writes its files into `room` and starts both servers on the load's core.
    pub(crate) fn start(room: &Path, down: u64) -> Outcome<Self> {
        let ca_key = room.join("ca.key");
        let ca = room.join("ca.pem");
        let pair = room.join("origin.pem");
        write_certificates(&ca, &ca_key, &pair)?;
        fs::File::create(room.join("down"))?.set_len(down)?;
        let port = free_port()?;
        let config = room.join("nginx.conf");
        fs::write(&config, nginx_config(room, port, &pair))?;
        let mut nginx = pinned(Core::Load, "nginx");
        nginx
            .arg("-p")
            .arg(room)
            .arg("-e")
            .arg(room.join("nginx.log"))
            .arg("-c")
            .arg(&config);
        let nginx = Guard::spawn("nginx", &mut nginx)?;
        let sink_port = free_port()?;
        let mut sink = pinned(Core::Load, std::env::current_exe()?);
        sink.arg("sink").arg(sink_port.to_string()).arg(&pair);
        let sink = Guard::spawn("sink", &mut sink)?;
        wait_for_port(port)?;
        wait_for_port(sink_port)?;
        Ok(Self {
            port,
            sink_port,
            ca,
            ca_key,
            pair,
            _nginx: nginx,
            _sink: sink,
        })
    }
}

fn write_certificates(ca_path: &Path, ca_key_path: &Path, pair_path: &Path) -> Outcome<()> {
    let ca_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
        .distinguished_name
        .push(DnType::CommonName, "gig bench CA");
    fs::write(ca_key_path, ca_key.serialize_pem())?;
    let ca = CertifiedIssuer::self_signed(params, ca_key)?;
    fs::write(ca_path, ca.pem())?;
    let key = KeyPair::generate()?;
    let names = vec![HOST.to_owned(), "*.names.bench.test".to_owned()];
    let leaf = CertificateParams::new(names)?.signed_by(&key, &ca)?;
    Ok(fs::write(
        pair_path,
        format!("{}{}", leaf.pem(), key.serialize_pem()),
    )?)
}

fn nginx_config(room: &Path, port: u16, pair: &Path) -> String {
    let (room, pair) = (room.display(), pair.display());
    let body = "x".repeat(1024);
    let (bearer, condition) = (bearer::PATH, bearer::condition());
    // As root, nginx would give its worker to www-data, which may not read the run's directory.
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    format!(
        "daemon off; worker_processes 1; pid {room}/nginx.pid; {user}
error_log {room}/nginx.log crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; default_type application/octet-stream;
  keepalive_requests 1000000000; keepalive_timeout 600s; http2_max_concurrent_streams 512;
  client_body_temp_path {room}/body; proxy_temp_path {room}/proxy; fastcgi_temp_path {room}/fcgi;
  uwsgi_temp_path {room}/uwsgi; scgi_temp_path {room}/scgi;
  ssl_certificate {pair}; ssl_certificate_key {pair}; ssl_protocols TLSv1.2 TLSv1.3;
  server {{
    listen 127.0.0.1:{port} ssl http2 backlog=4096;
    location = /1k {{ return 200 '{body}'; }}
    location = {bearer} {{ {condition} return 200 '{body}'; }}
    location = /down {{ root {room}; output_buffers 2 128k; }}
  }}
}}
"
    )
}

/// The sink's process: reads each request body to its end, then answers.
pub(crate) async fn sink(port: u16, pair: &Path) -> Outcome<()> {
    let certificates = CertificateDer::pem_file_iter(pair)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(pair)?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = doing(TcpListener::bind(("127.0.0.1", port)).await, || {
        "bind the sink".into()
    })?;
    loop {
        let (tcp, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        // Connections end with the process, which the bench kills.
        tokio::spawn(async move { swallow(tcp, &acceptor).await });
    }
}

async fn swallow(tcp: TcpStream, acceptor: &TlsAcceptor) -> Outcome<()> {
    tcp.set_nodelay(true)?;
    let mut stream = acceptor.accept(tcp).await?;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let mut head = Vec::with_capacity(4096);
        let end = loop {
            if stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
            if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length: u64 = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .ok_or("an upload without Content-Length")?
            .trim()
            .parse()?;
        let mut left = length.saturating_sub((head.len() - end) as u64);
        while left > 0 {
            let n =
                tokio::time::timeout(Duration::from_secs(60), stream.read(&mut buffer)).await??;
            if n == 0 {
                return Ok(());
            }
            left = left.saturating_sub(n as u64);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await?;
        stream.flush().await?;
    }
}
