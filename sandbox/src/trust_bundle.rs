//! The roots that programs inside trust: the system's and gig's authority.
//!
//! The host's bundle is taken as it is, without parsing: it is only put in
//! front of the authority. The Java form costs a decoding, so it is made where
//! there is a Java to read it, and kept.

mod java;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::layers::etc::Trust;

/// Where distributions keep all roots in one file.
const BUNDLES: [&str; 5] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];
/// A bundle has some hundred kilobytes.
const BUNDLE_MAX: u64 = 16 << 20;
/// Where a Java is, if there is one.
const JAVA: [&str; 3] = ["usr/lib/jvm", "usr/java", "opt/java"];

/// Roots for a sandbox with the directories of `root`.
pub(crate) fn build(root: Option<&Path>, authority: Option<&str>) -> Arc<Trust> {
    static LAST: Mutex<Option<(Key, Arc<Trust>)>> = Mutex::new(None);
    let root = root.unwrap_or_else(|| Path::new("/"));
    let key = Key {
        root: root.to_owned(),
        authority: authority.map(str::to_owned),
    };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, trust)) = last.as_ref()
        && *of == key
    {
        return Arc::clone(trust);
    }
    let trust = Arc::new(make(root, authority));
    *last = Some((key, Arc::clone(&trust)));
    trust
}

#[derive(Debug, PartialEq, Eq)]
struct Key {
    root: PathBuf,
    authority: Option<String>,
}

fn make(root: &Path, authority: Option<&str>) -> Trust {
    let system = system_bundle(root).or_else(|| system_bundle(Path::new("/")));
    let bundle = join(system.unwrap_or_default(), authority);
    let wants_java = JAVA.iter().any(|path| root.join(path).exists());
    Trust {
        java: wants_java.then(|| java::key_store(&bundle)),
        authority: authority.map(str::to_owned),
        bundle,
    }
}

fn system_bundle(root: &Path) -> Option<Vec<u8>> {
    BUNDLES.iter().find_map(|path| {
        let path = root.join(path);
        let meta = fs::metadata(&path).ok()?;
        (meta.is_file() && meta.len() <= BUNDLE_MAX)
            .then(|| fs::read(&path).ok())
            .flatten()
    })
}

fn join(mut bundle: Vec<u8>, authority: Option<&str>) -> Vec<u8> {
    if let Some(authority) = authority {
        if bundle.last().is_some_and(|last| *last != b'\n') {
            bundle.push(b'\n');
        }
        bundle.extend_from_slice(authority.as_bytes());
    }
    bundle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_follows_the_systems_roots_on_a_line_of_its_own() {
        assert_eq!(join(b"a".to_vec(), Some("b\n")), b"a\nb\n");
        assert_eq!(join(b"a\n".to_vec(), None), b"a\n");
        assert_eq!(join(Vec::new(), Some("b\n")), b"b\n");
    }

    #[test]
    fn a_root_without_a_bundle_gets_the_hosts() {
        let empty = tempfile::tempdir().unwrap();
        let trust = make(empty.path(), Some("ours\n"));
        assert!(trust.bundle.ends_with(b"ours\n"));
        assert_eq!(trust.authority.as_deref(), Some("ours\n"));
        assert_eq!(trust.java, None);
    }
}
