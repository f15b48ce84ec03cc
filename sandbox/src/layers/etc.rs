//! The built /etc: what the host's would say about the host is said anew.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::layers::env::HOME;

/// A file of the built /etc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Built {
    /// With these bytes.
    File(PathBuf, Vec<u8>),
    /// A link.
    Link(PathBuf, PathBuf),
}

/// The name of the host, of the sandbox and of its user.
pub const NAME: &str = "sandbox";

/// The other places where a distribution's libraries look for the bundle:
/// Fedora's, SUSE's, Alpine's and Arch's, and the extracted form.
const BUNDLE_LINKS: [&str; 4] = [
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// Where browsers that read neither a bundle nor a variable look for what who manages the machine has them trust:
/// Chromium's, Chrome's, its edition for tests, Edge's and Brave's (policy `CACertificates`, Chromium 127 and later).
const CHROMIUMS: [&str; 5] = [
    "/etc/chromium/policies/managed/gig.json",
    "/etc/opt/chrome/policies/managed/gig.json",
    "/etc/opt/chrome_for_testing/policies/managed/gig.json",
    "/etc/opt/edge/policies/managed/gig.json",
    "/etc/brave/policies/managed/gig.json",
];
/// The same of Firefox (policy `Certificates`, Firefox 65 and later).
const FIREFOX: &str = "/etc/firefox/policies/policies.json";

/// The trusted roots, in the forms that clients read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    /// All roots, as PEM.
    pub(crate) bundle: Vec<u8>,
    /// Our authority alone, as PEM.
    pub(crate) authority: Option<String>,
    /// All roots, as a Java key store.
    pub(crate) java: Option<Vec<u8>>,
}

/// Files that name the sandbox's addresses: each sandbox has its own.
pub(crate) const OWN: [&str; 2] = ["resolv.conf", "hosts"];
/// Where they are when the rest of /etc is shared, and links in /etc lead there:
/// the one file system of a sandbox's own that nobody in it may write.
pub(crate) const OWN_PLACE: &str = "/dev/sandbox";

/// What is in the files of [`OWN`], in their order.
pub(crate) fn own(gateway: Option<Ipv4Addr>, address: Option<Ipv4Addr>) -> [Vec<u8>; 2] {
    let resolver = gateway.map_or_else(
        || "# no network\n".to_owned(),
        |gateway| format!("nameserver {gateway}\noptions timeout:5 attempts:2\n"),
    );
    // Without a network as Debian has it: programs look their own name up (Java, for one).
    let own = address.unwrap_or(Ipv4Addr::new(127, 0, 1, 1));
    let hosts = format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n{own}\t{NAME}\n");
    [resolver, hosts].map(String::into_bytes)
}

/// Files that are about names and users, the same in every sandbox.
pub(crate) fn common() -> Vec<Built> {
    let file = |name: &str, text: String| Built::File(PathBuf::from(name), text.into_bytes());
    vec![
        file("/etc/hostname", format!("{NAME}\n")),
        file(
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
                 {NAME}:x:65534:65534:{NAME}:{HOME}:/bin/sh\n"
            ),
        ),
        file("/etc/group", format!("root:x:0:\n{NAME}:x:65534:\n")),
        file(
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
             protocols: files\nservices: files\nethers: files\nrpc: files\n"
                .to_owned(),
        ),
        Built::Link("/etc/mtab".into(), "/proc/self/mounts".into()),
        // Debian's Chromium does not start without such a file, nor with a sandbox of its own: there are no
        // namespaces to make it of.
        file(
            "/etc/chromium.d/gig",
            "export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\"\n".to_owned(),
        ),
    ]
}

/// Whether something built is at a path or below it.
pub(crate) fn takes_place(built: &[Built], path: &Path) -> bool {
    built.iter().any(|built| match built {
        Built::File(own, _) | Built::Link(own, _) => own.starts_with(path),
    })
}

/// Files that say whom to trust.
pub(crate) fn trust(trust: &Trust) -> Vec<Built> {
    let mut built = Vec::new();
    if !trust.bundle.is_empty() {
        built.push(Built::File(
            crate::layers::env::BUNDLE.into(),
            trust.bundle.clone(),
        ));
        built.extend(
            BUNDLE_LINKS
                .iter()
                .map(|link| Built::Link((*link).into(), crate::layers::env::BUNDLE.into())),
        );
    }
    if let Some(authority) = &trust.authority {
        built.push(Built::File(
            crate::layers::env::CA.into(),
            authority.clone().into_bytes(),
        ));
        built.push(Built::Link(
            "/etc/gigmcp-ca.pem".into(),
            "gig-ca.pem".into(),
        ));
        let [first, others @ ..] = CHROMIUMS;
        built.push(Built::File(first.into(), chromium_policy(authority)));
        built.extend(others.map(|other| Built::Link(other.into(), first.into())));
        let install = format!(
            "{{\"policies\": {{\"Certificates\": {{\"Install\": [\"{}\"]}}}}}}\n",
            crate::layers::env::CA
        );
        built.push(Built::File(FIREFOX.into(), install.into_bytes()));
    }
    if let Some(java) = &trust.java {
        built.push(Built::File(
            "/etc/ssl/certs/java/cacerts".into(),
            java.clone(),
        ));
        built.push(Built::Link(
            "/etc/pki/ca-trust/extracted/java/cacerts".into(),
            "/etc/ssl/certs/java/cacerts".into(),
        ));
    }
    built
}

/// The certificate as the policy has it: its PEM (RFC 7468) without the lines around it.
fn chromium_policy(authority: &str) -> Vec<u8> {
    let lines = authority.lines().map(str::trim);
    let inner: String = lines.filter(|line| !line.starts_with("-----")).collect();
    format!("{{\"CACertificates\": [\"{inner}\"]}}\n").into_bytes()
}
