//! The program's environment: built, then overridden by what was listed.
//!
//! Nothing is inherited. Every client's own way to trust the authority and to
//! find the proxy is set; ignoring the proxy changes nothing, because every
//! connection is redirected anyway.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use gig_policy::SandboxId;

use crate::layers::etc::NAME;

/// The program's home: empty, private, its own.
pub(crate) const HOME: &str = "/home/sandbox";
/// Where a program is looked up, unless the caller lists a `PATH`.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The bundle of roots, ours included.
pub(crate) const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Our authority alone.
pub(crate) const CA: &str = "/etc/gig-ca.pem";

/// Variables that name a bundle which replaces the client's own roots.
const BUNDLE_VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];
/// Variables that name a file of roots beside the client's own.
const CA_VARIABLES: [&str; 1] = ["NODE_EXTRA_CA_CERTS"];
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];
/// Servers that the program itself runs on its own loopback, in each of the ways in which clients read it: by
/// whoever asks the proxy for them, the host's own would be meant. `0.0.0.0` is what servers print that listen
/// everywhere. No address has brackets: Python's httpx refuses to start on one that has.
const NO_PROXY: &str = "localhost,.localhost,127.0.0.1,127.0.0.0/8,0.0.0.0,::1";

/// What an image asks for in vain beside the names that are set here: other ways past the proxy or to other
/// roots, and what is loaded into each program before it. A caller may list them.
const NOT_AN_IMAGES: [&str; 12] = [
    "ALL_PROXY",
    "all_proxy",
    "FTP_PROXY",
    "ftp_proxy",
    "SSL_CERT_DIR",
    "GIT_SSL_CAPATH",
    "GIT_SSL_NO_VERIFY",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NODE_OPTIONS",
    "LD_PRELOAD",
    "LD_AUDIT",
    "GIG_SANDBOX_ID",
];

/// What the built variables depend on.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) id: SandboxId,
    /// The gateway and the explicit proxy's port, when there is a network.
    pub(crate) proxy: Option<(Ipv4Addr, u16)>,
    /// The sandbox's own address, when there is a network.
    pub(crate) own: Option<Ipv4Addr>,
    /// Whether there is an authority to trust.
    pub(crate) authority: bool,
    /// What an image asks for.
    pub(crate) image: &'a [(OsString, OsString)],
    /// What the caller listed.
    pub(crate) listed: &'a [(OsString, OsString)],
}

/// The whole environment, sorted by name.
pub(crate) fn build(around: &Surroundings<'_>) -> BTreeMap<OsString, OsString> {
    let asked = around.image.iter();
    let asked = asked.filter(|(name, _)| !NOT_AN_IMAGES.iter().any(|other| name == other));
    let mut env: BTreeMap<OsString, OsString> = asked.cloned().collect();
    // Where an image's programs are, and in which language, only the image knows.
    let known = ["PATH", "LANG"].map(|name| (name, env.get(OsStr::new(name)).cloned()));
    let mut set = |name: &str, value: String| env.insert(name.into(), value.into());
    set("PATH", PATH.to_owned());
    set("HOME", HOME.to_owned());
    set("TMPDIR", "/tmp".to_owned());
    set("LANG", "C.UTF-8".to_owned());
    set("USER", "sandbox".to_owned());
    set("LOGNAME", "sandbox".to_owned());
    set("GIG_SANDBOX_ID", around.id.to_string());
    if let Some(proxy) = around.proxy {
        let own = around.own.map(|own| format!("{NO_PROXY},{NAME},{own}"));
        let past = own.as_deref().unwrap_or(NO_PROXY);
        for (name, value) in proxy_variables(proxy, past) {
            set(name, value);
        }
    }
    if around.authority {
        for (name, value) in authority_variables(BUNDLE, CA) {
            set(name, value);
        }
    }
    for (name, value) in known {
        if let Some(value) = value {
            env.insert(name.into(), value);
        }
    }
    for (name, value) in around.listed {
        env.insert(name.clone(), value.clone());
    }
    env
}

/// For a program that gig does not start: where its way out is, and the authority at `ca`, which is all that it
/// has to trust.
#[must_use]
pub fn network_variables(proxy: (Ipv4Addr, u16), ca: &str) -> Vec<(String, String)> {
    let all = proxy_variables(proxy, NO_PROXY).chain(authority_variables(ca, ca));
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn proxy_variables(
    (gateway, port): (Ipv4Addr, u16),
    past: &str,
) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let proxies = PROXY_VARIABLES.map(|name| (name, format!("http://{gateway}:{port}")));
    let own = ["NO_PROXY", "no_proxy"].map(|name| (name, past.to_owned()));
    proxies.into_iter().chain(own)
}

fn authority_variables(bundle: &str, ca: &str) -> impl Iterator<Item = (&'static str, String)> {
    let bundles = BUNDLE_VARIABLES.map(|name| (name, bundle.to_owned()));
    let authorities = CA_VARIABLES.map(|name| (name, ca.to_owned()));
    bundles.into_iter().chain(authorities)
}

/// A name that cannot be a variable's.
pub(crate) fn bad_name(listed: &[(OsString, OsString)]) -> Option<&OsStr> {
    listed
        .iter()
        .find(|(name, value)| {
            let name = name.as_bytes();
            name.is_empty()
                || name.contains(&b'=')
                || name.contains(&0)
                || value.as_bytes().contains(&0)
        })
        .map(|(name, _)| name.as_os_str())
}

/// `NAME=value`, as exec wants it.
pub(crate) fn lines(env: &BTreeMap<OsString, OsString>) -> Vec<Vec<u8>> {
    env.iter()
        .map(|(name, value)| {
            let mut line = name.clone().into_vec();
            line.push(b'=');
            line.extend_from_slice(value.as_bytes());
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use gig_policy::SandboxId;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_image_chooses_no_way_out_no_roots_and_nothing_that_is_loaded_first() {
        let mut names: Vec<&str> = NOT_AN_IMAGES.to_vec();
        names.extend(BUNDLE_VARIABLES);
        names.extend(CA_VARIABLES);
        names.extend(PROXY_VARIABLES);
        names.extend(["HOME", "TMPDIR", "NO_PROXY", "no_proxy"]);
        let image: Vec<_> = names
            .iter()
            .chain(&["OWN", "PATH"])
            .map(|name| (OsString::from(name), OsString::from("image")))
            .collect();
        let listed = [("LD_PRELOAD".into(), "mine".into())];
        let env = build(&Surroundings {
            id: SandboxId::new(Uuid::nil()),
            proxy: Some((Ipv4Addr::new(10, 200, 0, 1), 3128)),
            own: Some(Ipv4Addr::new(10, 200, 0, 2)),
            authority: true,
            image: &image,
            listed: &listed,
        });
        let asked: Vec<_> = env.iter().filter(|(_, value)| *value == "image").collect();
        assert_eq!(asked.len(), 2, "{asked:?}");
        let value = |name: &str| env.get(OsStr::new(name)).and_then(|value| value.to_str());
        assert_eq!(
            (value("OWN"), value("PATH")),
            (Some("image"), Some("image"))
        );
        assert_eq!(
            (value("LD_PRELOAD"), value("ALL_PROXY")),
            (Some("mine"), None)
        );
        let past: Vec<_> = value("NO_PROXY").unwrap().split(',').collect();
        for own in [
            "localhost",
            ".localhost",
            "127.0.0.0/8",
            "0.0.0.0",
            "::1",
            "sandbox",
            "10.200.0.2",
        ] {
            assert!(past.contains(&own), "{past:?}");
        }
        assert!(!past.contains(&"10.200.0.1"), "{past:?}");
        assert!(!past.iter().any(|own| own.contains('[')), "{past:?}");
    }

    #[test]
    fn no_secret_takes_the_place_of_what_is_set_here() {
        let env = build(&Surroundings {
            id: SandboxId::new(Uuid::nil()),
            proxy: Some((Ipv4Addr::new(10, 200, 0, 1), 3128)),
            own: None,
            authority: true,
            image: &[],
            listed: &[],
        });
        let built = env.keys().filter_map(|name| name.to_str());
        for name in built.chain(NOT_AN_IMAGES) {
            let secret: gig_policy::SecretName = name.parse().unwrap();
            assert!(secret.is_taken(), "{name}");
        }
    }
}
