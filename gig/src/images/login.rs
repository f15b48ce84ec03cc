//! Who gig is to a registry: what `docker login` wrote down, or nobody.
//!
//! Read from `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`, of which `auths` alone counts:
//! helpers that hold credentials elsewhere are programs, and gig runs none.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::header::HeaderValue;

/// `Authorization: Basic …`, never shown.
#[derive(Clone)]
pub(super) struct Login(HeaderValue);

impl Login {
    /// The one for this registry.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub(super) fn of(registry: &str) -> anyhow::Result<Option<Self>> {
        let Some(path) = place() else {
            return Ok(None);
        };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        Self::find(&text, registry).with_context(|| format!("cannot use {}", path.display()))
    }

    /// The field to send.
    pub(super) fn field(&self) -> HeaderValue {
        self.0.clone()
    }

    fn find(text: &[u8], registry: &str) -> anyhow::Result<Option<Self>> {
        let config: config::Config = serde_json::from_slice(text)?;
        let named = |key: &str| {
            let host = key
                .strip_prefix("https://")
                .or_else(|| key.strip_prefix("http://"));
            let host = host.unwrap_or(key).split('/').next().unwrap_or_default();
            host == registry || registry == "docker.io" && host == "index.docker.io"
        };
        let auths: BTreeMap<String, config::Auth> = config.auths;
        let auth = auths
            .into_iter()
            .find(|(key, _)| named(key))
            .and_then(|(_, auth)| auth.auth);
        let Some(auth) = auth.filter(|auth| !auth.is_empty()) else {
            return Ok(None);
        };
        // As it stands it is what is sent; it must be what it is said to be.
        let decoded = STANDARD
            .decode(auth.trim())
            .ok()
            .filter(|pair| pair.contains(&b':'));
        decoded.with_context(|| {
            format!("the credentials of {registry} are not base64 of USER:PASSWORD")
        })?;
        let mut field = HeaderValue::from_str(&format!("Basic {}", auth.trim()))?;
        field.set_sensitive(true);
        Ok(Some(Self(field)))
    }
}

fn place() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = set("DOCKER_CONFIG").or_else(|| Some(set("HOME")?.join(".docker")))?;
    Some(folder.join("config.json"))
}

mod config {
    //! `config.json`, of which others own most.

    use std::collections::BTreeMap;

    use serde::Deserialize;

    #[derive(Deserialize)]
    pub(super) struct Config {
        #[serde(default)]
        pub(super) auths: BTreeMap<String, Auth>,
    }

    #[derive(Deserialize)]
    pub(super) struct Auth {
        pub(super) auth: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_of_one_registry_is_nobody_elses() {
        let text = br#"{"auths": {"https://index.docker.io/v1/": {"auth": "YTpi"},
            "reg.example:5000": {"auth": "Yzpk"}, "helped.example": {},
            "bad.example": {"auth": "!!"}}, "credsStore": "any"}"#;
        let find = |registry| {
            Login::find(text, registry)
                .map(|login| login.map(|login| login.0.to_str().unwrap().to_owned()))
        };
        assert_eq!(find("docker.io").unwrap().as_deref(), Some("Basic YTpi"));
        assert_eq!(
            find("reg.example:5000").unwrap().as_deref(),
            Some("Basic Yzpk")
        );
        for nobody in ["reg.example", "example:5000", "helped.example", "v1"] {
            assert_eq!(find(nobody).unwrap(), None, "{nobody}");
        }
        assert!(find("bad.example").is_err());
        assert!(
            !format!("{:?}", Login::find(text, "docker.io").unwrap().unwrap().0).contains("YTpi")
        );
    }
}
