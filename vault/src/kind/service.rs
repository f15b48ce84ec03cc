//! Whether what a definition says of a service can be used, asked before it is stored: its URL, and the roots that it
//! is trusted by. Whether the service is there is not asked.

use rustls_pki_types::{CertificateDer, pem::PemObject as _};

/// An absolute http(s) URL with a host (RFC 9110 §4.2), without user information.
///
/// # Errors
/// With a sentence for a person.
pub(super) fn check_url(text: &str) -> Result<(), &'static str> {
    let rest = ["https://", "http://"]
        .into_iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_whole = authority.is_some_and(|authority| {
        !authority.is_empty() && !authority.starts_with(':') && !authority.contains('@')
    });
    match is_whole && text.bytes().all(|octet| octet.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(
            "has a definition whose service is no https:// (or http://) URL with a host and without user information",
        ),
    }
}

/// At least one certificate in PEM, where any are named.
///
/// # Errors
/// With a sentence for a person.
pub(super) fn check_roots(pem: Option<&str>) -> Result<(), &'static str> {
    let Some(pem) = pem else {
        return Ok(());
    };
    let mut certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).peekable();
    let any = certificates.peek().is_some();
    match any && certificates.all(|one| one.is_ok()) {
        true => Ok(()),
        false => Err("has a definition whose ca holds no certificate in PEM"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_url_with_a_host() {
        for good in [
            "https://id.example/token",
            "http://127.0.0.1:8080",
            "https://[::1]:8443/token?x=1",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "id.example/token",
            "gopher://id.example/",
            "HTTPS//id.example",
            "https:///token",
            "https://",
            "https://:443/token",
            "https://?x",
            "https://me:key@id.example/token",
            "https://id.example/to ken",
            "https://id.example/\r\nHost: other",
            "https://ïd.example/",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn roots_hold_a_certificate() {
        let pem = |text: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        let good = pem("MAA=");
        assert_eq!(check_roots(None), Ok(()));
        assert_eq!(check_roots(Some(&good)), Ok(()));
        for bad in [
            "",
            "/etc/ssl/ca.pem",
            &pem("MA!="),
            &format!("{good}{}", pem("M")),
        ] {
            assert!(check_roots(Some(bad)).is_err(), "{bad}");
        }
    }
}
