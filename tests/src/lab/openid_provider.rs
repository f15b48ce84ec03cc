//! A real OpenID provider, built on Authlib, on loopback.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
};

use super::{fixture, place};

/// Running; ends with its handle.
#[derive(Debug)]
pub struct OpenIdProvider {
    child: Child,
    issuer: String,
}

impl OpenIdProvider {
    /// As which gig is registered there.
    pub const CLIENT: &str = "gig";
    /// Of gig; as a form has it, it is another text.
    pub const SECRET: &str = "a secret + of gig's";

    /// Starts one with keys of its own for `algorithm`: RS256, ES256 or EdDSA. Whoever comes is signed in
    /// with these claims, JSON, until it is told otherwise.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(algorithm: &str, claims: &str) -> Self {
        let python = place::client("venv").join("bin/python");
        let mut child = Command::new(python)
            .arg(fixture::path("openid_provider.py"))
            .args([Self::SECRET, algorithm, claims])
            .env("AUTHLIB_INSECURE_TRANSPORT", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a provider");
        let mut said = BufReader::new(child.stdout.take().expect("its words"));
        let mut line = String::new();
        said.read_line(&mut line).expect("its first words");
        let issuer = line.trim().strip_prefix("issuer ");
        let issuer = issuer.expect("what it calls itself").to_owned();
        thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, issuer }
    }

    /// What it calls itself: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        self.issuer.trim_start_matches("http://")
    }

    /// What an appliance is told of it.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, &str); 4] {
        [
            ("GIG_OIDC_ISSUER", self.issuer.as_str()),
            ("GIG_OIDC_CLIENT_ID", Self::CLIENT),
            ("GIG_OIDC_CLIENT_SECRET", Self::SECRET),
            ("GIG_OIDC_ROLES", "ops=admin,writers=editor"),
        ]
    }
}

impl Drop for OpenIdProvider {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
