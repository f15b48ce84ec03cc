//! A registry of images and what is in it: Debian's docker-registry, images built here by hand, and a
//! scripted registry that lies.
//!
//! Promises that the bytes are those of the formats, with no tool of any engine in between.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{Read, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::{
    Lab,
    http_origin::{Exchange, HttpOrigin, Request},
    network::{Side, text},
    service::Service,
};

/// Content types.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Of a list.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What an entry of a layer is.
#[derive(Debug, Clone)]
pub enum Made<'a> {
    /// A file with these octets that everybody may execute.
    File(&'a [u8]),
    /// A symbolic link.
    Link(&'a str),
    /// A directory.
    Directory,
}

/// One layer, as an archive.
///
/// # Panics
/// When it cannot be written.
#[must_use]
pub fn layer(entries: &[(&str, Made<'_>)]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (name, made) in entries {
        let mut header = Header::new_gnu();
        header.set_mode(0o4755);
        header.set_size(0);
        let octets: &[u8] = match made {
            Made::File(octets) => {
                header.set_size(octets.len() as u64);
                octets
            }
            Made::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_link_name(target).expect("a link");
                &[]
            }
            Made::Directory => {
                header.set_entry_type(EntryType::Directory);
                &[]
            }
        };
        archive
            .append_data(&mut header, name, octets)
            .expect("an entry");
    }
    archive.into_inner().expect("an archive")
}

/// `sha256:…`
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in digest(&SHA256, bytes).as_ref() {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// An image: everything that a registry keeps of it.
#[derive(Debug, Clone)]
pub struct BuiltImage {
    /// By digest: configuration and layers.
    pub blobs: BTreeMap<String, Vec<u8>>,
    /// By digest, with their types: a manifest, and a list that leads to it.
    pub manifests: Vec<(String, &'static str, Vec<u8>)>,
}

impl BuiltImage {
    /// Puts one together; `run` is the configuration's `config`.
    #[must_use]
    pub fn of(layers: &[Vec<u8>], run: &Value) -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({"os": "linux", "architecture": architecture, "config": run,
            "rootfs": {"type": "layers", "diff_ids": []}});
        let config = config.to_string().into_bytes();
        let described = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": sha256(bytes), "size": bytes.len()});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": described("application/vnd.oci.image.config.v1+json", &config),
            "layers": layers.iter()
                .map(|layer| described("application/vnd.oci.image.layer.v1.tar", layer))
                .collect::<Vec<_>>(),
        });
        let manifest = manifest.to_string().into_bytes();
        let mut entry = described(MANIFEST, &manifest);
        entry["platform"] = json!({"os": "linux", "architecture": architecture});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});
        let index = index.to_string().into_bytes();
        let blobs = layers.iter().chain([&config]);
        Self {
            blobs: blobs.map(|bytes| (sha256(bytes), bytes.clone())).collect(),
            manifests: vec![
                (sha256(&manifest), MANIFEST, manifest),
                (sha256(&index), INDEX, index),
            ],
        }
    }

    /// The digest of the manifest.
    #[must_use]
    pub fn manifest(&self) -> &str {
        &self.manifests[0].0
    }

    /// The digest of the list.
    #[must_use]
    pub fn index(&self) -> &str {
        &self.manifests[1].0
    }
}

/// Debian's registry, on the loopback of the machine that gig runs on.
#[derive(Debug)]
pub struct DockerRegistry {
    folder: PathBuf,
    _service: Service,
}

/// Where it listens.
pub const AT: &str = "127.0.0.1:5000";

impl DockerRegistry {
    /// Starts it, empty.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start(lab: &Lab) -> Self {
        let folder = lab.folder("registry");
        let config = folder.join("config.yml");
        let words = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage:\n  filesystem: \
             {{rootdirectory: {}}}\nhttp: {{addr: \"{AT}\", secret: test}}\n",
            text(&folder)
        );
        fs::write(&config, words).expect("write its configuration");
        let mut command = lab.network.command(Side::Host, "docker-registry");
        command.arg("serve").arg(&config);
        let service = Service::start(command, folder.join("log"));
        let deadline = Instant::now() + Duration::from_secs(60);
        let address: SocketAddr = AT.parse().expect("an address");
        while !lab
            .network
            .inside(Side::Host, || TcpStream::connect(address).is_ok())
        {
            assert!(Instant::now() < deadline, "no registry: {}", service.log());
            thread::sleep(Duration::from_millis(20));
        }
        Self {
            folder,
            _service: service,
        }
    }

    /// Puts an image into it, under a tag.
    ///
    /// # Panics
    /// When it refuses.
    pub fn push(&self, lab: &Lab, name: &str, image: &BuiltImage) {
        let send = |method: &str, path: &str, kind: &str, body: &[u8]| {
            lab.network
                .inside(Side::Host, || ask(method, path, kind, body))
        };
        for (digest, bytes) in &image.blobs {
            let begun = send("POST", &format!("/v2/{name}/blobs/uploads/"), "", b"");
            let location = begun
                .lines()
                .find_map(|line| line.strip_prefix("Location: "))
                .unwrap_or_else(|| panic!("{begun}"));
            let path = location
                .trim()
                .split_once(AT)
                .map_or(location, |(_, path)| path);
            let path = format!("{}&digest={digest}", path.trim());
            let done = send("PUT", &path, "application/octet-stream", bytes);
            assert!(done.starts_with("HTTP/1.1 201"), "{done}");
        }
        for (at, (digest, kind, bytes)) in image.manifests.iter().enumerate() {
            let name_of = if at == 1 { "latest" } else { digest };
            let done = send(
                "PUT",
                &format!("/v2/{name}/manifests/{name_of}"),
                kind,
                bytes,
            );
            assert!(done.starts_with("HTTP/1.1 201"), "{done}");
        }
    }

    /// The file in which it keeps these bytes.
    #[must_use]
    pub fn file_of(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self.folder.join("docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }
}

fn ask(method: &str, path: &str, kind: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(AT).expect("the registry");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {AT}\r\nConnection: close\r\nContent-Type: {kind}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("send");
    stream.write_all(body).expect("send");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

/// What a scripted registry does with a request before it answers; false when it has answered.
pub type Mood = Arc<Mutex<dyn FnMut(&Request, &mut Exchange<'_>) -> std::io::Result<bool> + Send>>;

/// A registry over TLS in the internet, under a name.
///
/// # Panics
/// When a thread can not be had.
#[must_use]
pub fn scripted(lab: &Lab, host: &str, image: &BuiltImage, mood: Mood) -> HttpOrigin {
    let image = image.clone();
    lab.https(host, move |request, exchange| {
        let go_on = mood.lock().expect("a mood")(request, exchange)?;
        if go_on {
            give(&image, request, exchange)
        } else {
            Ok(())
        }
    })
}

/// A registry without TLS that has one image, under every name.
#[must_use]
pub fn on(listener: TcpListener, image: &BuiltImage) -> HttpOrigin {
    let image = image.clone();
    HttpOrigin::start(listener, None, move |request, exchange| {
        give(&image, request, exchange)
    })
}

fn give(image: &BuiltImage, request: &Request, exchange: &mut Exchange<'_>) -> std::io::Result<()> {
    let name = request.target.rsplit('/').next().unwrap_or_default();
    let manifest = image.manifests.iter().find(|(digest, _, _)| digest == name);
    let found = match (manifest, image.blobs.get(name)) {
        (Some((_, kind, bytes)), _) => Some((*kind, bytes)),
        (None, Some(bytes)) => Some(("application/octet-stream", bytes)),
        (None, None) => None,
    };
    let Some((kind, bytes)) = found else {
        return exchange.answer("404 Not Found", "no");
    };
    exchange.send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
        bytes.len()
    ))?;
    exchange.send(bytes)
}
