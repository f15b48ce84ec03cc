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
use crate::other_root::OtherRoot;

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

/// Roots for a sandbox with the host's directories, or another root's.
pub(crate) fn build(root: Option<&OtherRoot>, authority: Option<&str>) -> Arc<Trust> {
    static LAST: Mutex<Option<(Key, Arc<Trust>)>> = Mutex::new(None);
    let key = Key {
        root: root.map(|root| root.path().to_owned()),
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
    root: Option<PathBuf>,
    authority: Option<String>,
}

fn make(root: Option<&OtherRoot>, authority: Option<&str>) -> Trust {
    let system = root.and_then(roots_bundle).or_else(host_bundle);
    let bundle = join(system.unwrap_or_default(), authority);
    let wants_java = JAVA.iter().any(|path| match root {
        Some(root) => root.is_directory(path),
        None => Path::new("/").join(path).exists(),
    });
    Trust {
        java: wants_java.then(|| java::key_store(&bundle)),
        authority: authority.map(str::to_owned),
        bundle,
    }
}

fn roots_bundle(root: &OtherRoot) -> Option<Vec<u8>> {
    BUNDLES
        .iter()
        .find_map(|path| root.read(Path::new(path), BUNDLE_MAX))
}

fn host_bundle() -> Option<Vec<u8>> {
    BUNDLES.iter().find_map(|path| {
        let path = Path::new("/").join(path);
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
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::layers::binds::Hidden;

    #[test]
    fn the_authority_follows_the_systems_roots_on_a_line_of_its_own() {
        assert_eq!(join(b"a".to_vec(), Some("b\n")), b"a\nb\n");
        assert_eq!(join(b"a\n".to_vec(), None), b"a\n");
        assert_eq!(join(Vec::new(), Some("b\n")), b"b\n");
    }

    fn root_of(entries: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("root");
        for entry in ["usr/bin"].iter().chain(entries) {
            fs::create_dir_all(root.join(entry)).unwrap();
        }
        (dir, root)
    }

    fn vetted(root: &Path) -> OtherRoot {
        OtherRoot::vet(root, &Hidden::of_homes(&[])).unwrap()
    }

    #[test]
    fn a_root_without_a_bundle_gets_the_hosts() {
        let (_dir, root) = root_of(&[]);
        let trust = make(Some(&vetted(&root)), Some("ours\n"));
        assert!(trust.bundle.ends_with(b"ours\n"));
        assert_eq!(trust.authority.as_deref(), Some("ours\n"));
        assert_eq!(trust.java, None);
    }

    #[test]
    fn a_bundle_that_a_link_leads_to_is_the_roots_own() {
        for (link, target) in [
            ("etc/ssl/certs/ca-certificates.crt", "/keys/own"),
            (
                "etc/ssl/certs/ca-certificates.crt",
                "../../../../../keys/own",
            ),
            ("etc", "/elsewhere"),
        ] {
            let (dir, root) = root_of(&["keys", "elsewhere/ssl/certs"]);
            let outside = fs::canonicalize(dir.path()).unwrap();
            fs::write(outside.join("key"), "secret\n").unwrap();
            let path = root.join(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(outside.join("key"), &path).unwrap();
            let bundle = make(Some(&vetted(&root)), None).bundle;
            assert!(!bundle.ends_with(b"secret\n"), "{link} leads out");

            fs::remove_file(&path).unwrap();
            symlink(target, &path).unwrap();
            fs::write(root.join("keys/own"), "own\n").unwrap();
            let own = root.join("elsewhere/ssl/certs/ca-certificates.crt");
            fs::write(own, "own\n").unwrap();
            assert_eq!(make(Some(&vetted(&root)), None).bundle, b"own\n", "{link}");
        }
    }

    #[test]
    fn a_java_is_the_roots_own() {
        let (dir, root) = root_of(&["usr/lib"]);
        symlink(dir.path(), root.join("usr/lib/jvm")).unwrap();
        assert_eq!(make(Some(&vetted(&root)), None).java, None);
        fs::remove_file(root.join("usr/lib/jvm")).unwrap();
        symlink("/usr/bin", root.join("usr/lib/jvm")).unwrap();
        assert!(make(Some(&vetted(&root)), None).java.is_some());
    }
}
