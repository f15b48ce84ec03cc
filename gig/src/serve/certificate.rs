//! TLS by file: the certificate that the console shows, and its key, read again when they change.
//!
//! Promises that a key which others can use is refused, that what is shown fits its key, and that files
//! which cannot be used never take the place of those that could: the former certificate is shown on, and
//! the log says why. Where files come from (ACME, an own authority) is left to others.

use std::{
    fmt::Write as _,
    fs::Metadata,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use zeroize::Zeroizing;

use crate::{
    error_chain,
    secret_file::{self, Others},
    stderr::tell,
};

/// The two files, as options name them.
#[derive(Debug, Clone)]
pub(super) struct Files {
    /// PEM, leaf first.
    pub(super) certificate: PathBuf,
    /// PEM.
    pub(super) key: PathBuf,
}

/// What is shown; follows its files until it is dropped.
pub(super) struct Certificate {
    /// For the door.
    pub(super) config: Arc<ServerConfig>,
    /// What people reach it by: its first plain name, else its first address.
    pub(super) name: Option<String>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What was read of the files at once.
struct Read {
    shown: Arc<CertifiedKey>,
    name: Option<String>,
    /// For the log.
    words: String,
}

impl Certificate {
    /// Reads the files and begins to follow them.
    ///
    /// # Errors
    /// When they cannot be read or used; says which and the cure.
    pub(super) fn open(files: Files) -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let texts = Texts::of(&files)?;
        let read = texts.read(&files, &provider)?;
        tell(&format!("gig: {}\n", read.words));
        let shown = Arc::new(Shown(ArcSwap::new(read.shown)));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .context("cannot set TLS up")?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        // What the door speaks, and nothing else.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (stop, stopped) = channel::<()>();
        let mut last = Ok(texts.digest());
        drop(texts);
        let thread = std::thread::Builder::new()
            .name("certificate".to_owned())
            .spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                    follow(&files, &provider, &shown, &mut last);
                }
            })
            .context("cannot start a thread")?;
        Ok(Self {
            config: Arc::new(config),
            name: read.name,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked follows nothing any more.
            let _ended = thread.join();
        }
    }
}

/// Shows one certificate to everybody, whatever name they ask for.
#[derive(Debug)]
struct Shown(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// What the files held when they were looked at last: a digest, or why they could not be read.
type Seen = Result<[u8; 32], String>;

/// Shows what the files hold now, if that is new and can be used.
fn follow(files: &Files, provider: &CryptoProvider, shown: &Shown, last: &mut Seen) {
    let texts = Texts::of(files);
    let seen = match &texts {
        Ok(texts) => Ok(texts.digest()),
        Err(error) => Err(format!("{error:#}")),
    };
    if seen == *last {
        return;
    }
    *last = seen;
    match texts.and_then(|texts| texts.read(files, provider)) {
        Ok(read) => {
            shown.0.store(read.shown);
            tell(&format!("gig: {}\n", read.words));
        }
        Err(error) => {
            let kept = "the new certificate is not taken, the former one is shown on";
            error_chain::print(&error.context(kept));
        }
    }
}

/// What is in the files.
struct Texts {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Texts {
    fn of(files: &Files) -> anyhow::Result<Self> {
        Ok(Self {
            certificate: octets(&files.certificate, |_, _| Ok(()))?.to_vec(),
            key: octets(&files.key, refuse_shared)?,
        })
    }

    /// Of contents and not of times: a link that is turned, or a clock that is, deceives nobody.
    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.certificate.len().to_be_bytes());
        hash.update(&self.certificate);
        hash.update(&*self.key);
        hash.finalize().into()
    }

    fn read(&self, files: &Files, provider: &CryptoProvider) -> anyhow::Result<Read> {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .with_context(|| format!("{certificate} is not PEM"))?;
        let Some(leaf) = chain.first() else {
            bail!("{certificate} holds no certificate in PEM");
        };
        let (name, words) = told(leaf, &files.certificate)?;
        let secret = PrivateKeyDer::from_pem_slice(&self.key).with_context(|| {
            format!("{key} holds no private key in PEM that is open: gig asks for no passphrase")
        })?;
        let shown =
            CertifiedKey::from_der(chain, secret, provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    anyhow::anyhow!(
                        "the key in {key} is not that of the certificate in {certificate}"
                    )
                }
                other => anyhow::Error::new(other)
                    .context(format!("cannot use {certificate} with the key in {key}")),
            })?;
        Ok(Read {
            shown: Arc::new(shown),
            name,
            words,
        })
    }
}

/// The name by which a certificate is reached, and what the log says of it.
fn told(leaf: &[u8], file: &Path) -> anyhow::Result<(Option<String>, String)> {
    let shown = file.display();
    let (_, leaf) = x509_parser::parse_x509_certificate(leaf)
        .with_context(|| format!("the first certificate in {shown} cannot be read"))?;
    let names = leaf.subject_alternative_name();
    let names = names.with_context(|| format!("the names in {shown} cannot be read"))?;
    let names = names.map(|names| &names.value.general_names);
    let names = || names.into_iter().flatten();
    // A wildcard says not where; an address is a place as good as any, after names.
    let plain = names().find_map(|name| match name {
        GeneralName::DNSName(name) if !name.contains('*') => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let name = plain.or_else(|| names().find_map(address));
    let until = leaf.validity().not_after.timestamp();
    let until = jiff::Timestamp::from_second(until).context("a date beyond all calendars")?;
    let mut words = format!("TLS by {shown}, valid until {until}");
    if until < jiff::Timestamp::now() {
        let over = " - which is over: browsers refuse it";
        // A string takes everything.
        let _infallible = write!(words, "{over}");
    }
    Ok((name, words))
}

fn address(name: &GeneralName<'_>) -> Option<String> {
    let GeneralName::IPAddress(octets) = name else {
        return None;
    };
    let v4 =
        <[u8; 4]>::try_from(*octets).map(|octets| std::net::Ipv4Addr::from(octets).to_string());
    let v6 = || {
        let octets = <[u8; 16]>::try_from(*octets).ok()?;
        Some(format!("[{}]", std::net::Ipv6Addr::from(octets)))
    };
    v4.ok().or_else(v6)
}

/// All of a file that passes the look at it.
fn octets(
    path: &Path,
    look: impl FnOnce(&Path, &Metadata) -> anyhow::Result<()>,
) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let shown = path.display();
    let file = secret_file::open(path).with_context(|| format!("cannot read {shown}"))?;
    let facts = file.metadata();
    let facts = facts.with_context(|| format!("cannot look at {shown}"))?;
    if !facts.is_file() {
        bail!("{shown} is no file");
    }
    look(path, &facts)?;
    let mut octets = Zeroizing::new(Vec::with_capacity(LONGEST));
    let bound = u64::try_from(LONGEST).unwrap_or_default();
    let read = file.take(bound).read_to_end(&mut octets);
    read.with_context(|| format!("cannot read {shown}"))?;
    if octets.len() == LONGEST {
        bail!("{shown} is longer than any chain of certificates");
    }
    Ok(octets)
}

/// As for gig's own keys: its owner alone, or root, reads and writes it.
fn refuse_shared(path: &Path, facts: &Metadata) -> anyhow::Result<()> {
    let shown = path.display();
    match secret_file::others(path, facts) {
        None => Ok(()),
        Some(Others::Owner(owner)) => {
            bail!(
                "the private key {shown} belongs to another user (uid {owner}), who can change it"
            )
        }
        Some(Others::Mode(mode)) => bail!(
            "others can use the private key {shown} (mode {mode:04o}): chmod 600 it, or let what renews it \
             leave gig a copy of its own"
        ),
    }
}

/// How often the files are looked at: a renewal has weeks.
const EVERY: Duration = Duration::from_secs(5);
/// In octets, of one file: a chain has four certificates of a few thousand.
const LONGEST: usize = 256 * 1024;

#[cfg(test)]
mod tests;
