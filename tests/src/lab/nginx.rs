//! nginx: a real HTTP/1.1 and HTTP/2 server with a log that a test can read.
//!
//! Serves `/hello`, files below its root, `PUT` into it, and what a test adds to the configuration.
//! Promises: one log line for each request, with protocol, host, method, path and octets.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    authority::Leaf,
    network::{Network, Side},
    service::Service,
};

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    folder: PathBuf,
    _service: Service,
}

/// Where and how it listens.
#[derive(Debug)]
pub struct Site<'a> {
    /// Its address; ports 80 and 443.
    pub address: IpAddr,
    /// Its certificate.
    pub leaf: &'a Leaf,
    /// Whether HTTP/2 is offered.
    pub h2: bool,
    /// More configuration inside `server {}`.
    pub extra: &'a str,
}

/// One line of its log.
#[derive(Debug, Clone)]
pub struct Line(Value);

impl Line {
    /// A column: `protocol host method uri status request_length bytes_sent sni`.
    #[must_use]
    pub fn column(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

impl Nginx {
    /// Starts one; its files are in `folder`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(network: &Network, folder: PathBuf, site: &Site<'_>) -> Self {
        fs::create_dir_all(folder.join("root")).expect("a root");
        fs::write(folder.join("cert.pem"), &site.leaf.certificate).expect("write");
        fs::write(folder.join("key.pem"), &site.leaf.key).expect("write");
        let configuration = configuration(&folder, site);
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration).expect("write");
        let mut command = network.command(Side::Internet, "nginx");
        command
            .arg("-p")
            .arg(&folder)
            .arg("-c")
            .arg(&file)
            .args(["-e", "stderr"]);
        let mut service = Service::start(command, folder.join("log"));
        for port in [80, 443] {
            service.wait_for(network, SocketAddr::new(site.address, port));
        }
        Self {
            folder,
            _service: service,
        }
    }

    /// The folder its files are served from.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Its log so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.folder.join("access.log")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok().map(Line))
            .collect()
    }
}

fn configuration(folder: &Path, site: &Site<'_>) -> String {
    let Site {
        address, extra, h2, ..
    } = site;
    let address = match address {
        IpAddr::V4(a) => a.to_string(),
        IpAddr::V6(a) => format!("[{a}]"),
    };
    let (folder, h2) = (folder.display(), if *h2 { " http2" } else { "" });
    // Not a daemon, so that the handle owns it; workers as root, because the folder may be private.
    format!(
        r#"daemon off; worker_processes 1; user root; pid {folder}/pid;
events {{ worker_connections 512; }}
http {{
  log_format lab escape=json '{{"protocol":"$server_protocol","host":"$host","method":"$request_method","uri":"$request_uri","status":"$status","request_length":"$request_length","bytes_sent":"$bytes_sent","sni":"$ssl_server_name","agent":"$http_user_agent"}}';
  access_log {folder}/access.log lab;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  client_max_body_size 0; sendfile on; tcp_nopush on; keepalive_timeout 30s;
  server {{
    listen {address}:80 backlog=512; listen {address}:443 ssl{h2} backlog=512;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    root {folder}/root; dav_methods PUT; create_full_put_path on;
    location = /hello {{ default_type text/plain; return 200 "hello from the origin\n"; }}
    {extra}
  }}
}}
"#
    )
}
