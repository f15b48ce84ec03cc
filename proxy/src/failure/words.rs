//! An error as gig's own log tells it: what happened, without what the other side wrote.
//!
//! A host that a value went to can have it quoted by an error: as the debug data of a GOAWAY (RFC 9113 §6.8),
//! as a name in its certificate. So of the errors of libraries that quote, the kind alone is told. It leaves to
//! its callers what they say themselves, and to the record what is told there.

use std::{error::Error as StdError, fmt, io};

use rustls::{CertificateError, Error as TlsError};

/// Displays an error and everything beneath it, in words that are none of the other side's.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(&'a (dyn StdError + 'static));

impl<'a> Words<'a> {
    /// Of this error.
    #[must_use]
    pub fn of(error: &'a (dyn StdError + 'static)) -> Self {
        Self(error)
    }
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = Some(self.0);
        let mut between = "";
        while let Some(error) = next {
            f.write_str(between)?;
            let error = unpacked(error);
            next = None;
            if let Some(error) = error.downcast_ref() {
                frames(error, f)?;
            } else if let Some(error) = error.downcast_ref() {
                input(error, f)?;
            } else if let Some(error) = error.downcast_ref() {
                tls(error, f)?;
            } else {
                fmt::Display::fmt(error, f)?;
                next = error.source();
            }
            between = ": ";
        }
        Ok(())
    }
}

/// What an error of a connection only carries, which is no source of it and is told in its stead.
fn unpacked<'a>(mut error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    loop {
        let frames = error.downcast_ref::<h2::Error>();
        let input = frames.and_then(h2::Error::get_io);
        let input = input.or_else(|| error.downcast_ref::<io::Error>());
        let Some(input) = input else {
            return error;
        };
        let within = input
            .get_ref()
            .map(|within| within as &(dyn StdError + 'static));
        let known = |within: &&(dyn StdError + 'static)| {
            within.is::<h2::Error>() || within.is::<TlsError>() || within.is::<io::Error>()
        };
        let Some(within) = within.filter(known) else {
            return input;
        };
        error = within;
    }
}

/// RFC 9113 §7: the reason is one of a list.
fn frames(error: &h2::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(reason) = error.reason() else {
        // A mistake of gig's own, in the library's words for it.
        return fmt::Display::fmt(error, f);
    };
    let what = if error.is_go_away() {
        "connection error"
    } else {
        "stream error"
    };
    let whose = if error.is_remote() {
        "received"
    } else {
        "detected"
    };
    write!(f, "{what} {whose}: {reason}")
}

/// What is within one and not known by its type may be anybody's text.
fn input(error: &io::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error.get_ref() {
        Some(_) => fmt::Display::fmt(&error.kind(), f),
        None => fmt::Display::fmt(error, f),
    }
}

fn tls(error: &TlsError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        TlsError::InvalidCertificate(error) => {
            write!(f, "invalid peer certificate: {}", why(error))
        }
        TlsError::General(_) | TlsError::Other(_) => f.write_str("the TLS library gave up"),
        TlsError::InvalidEncryptedClientHello(_) => f.write_str("the ECH extension is not usable"),
        // Numbers and words of the protocol's.
        error => fmt::Display::fmt(error, f),
    }
}

/// What a certificate says of itself is its owner's text.
fn why(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::BadEncoding => "it cannot be read",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet"
        }
        CertificateError::Revoked => "it was revoked",
        CertificateError::UnknownIssuer => "its issuer is not known",
        CertificateError::BadSignature => "its signature is wrong",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for other names than the one asked for"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is for another purpose"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its algorithms are not supported"
        }
        CertificateError::UnhandledCriticalExtension => {
            "it has a critical extension that is not known here"
        }
        _ => "it is not accepted",
    }
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, InvalidMessage, OtherError, pki_types::ServerName};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const VALUE: &str = "rv-7Qx2mZ0pLr";

    #[derive(Debug, thiserror::Error)]
    #[error("ours")]
    struct Ours(#[source] io::Error);

    fn told(error: impl StdError + 'static) -> String {
        Words::of(&error).to_string()
    }

    fn within(error: impl Into<Box<dyn StdError + Send + Sync>>) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    #[test]
    fn nothing_that_a_certificate_says_is_told() {
        let presented = vec![format!("DnsName({VALUE:?})")];
        let expected = ServerName::try_from("api.example.com").unwrap();
        let named = CertificateError::NotValidForNameContext {
            expected,
            presented,
        };
        let named = TlsError::InvalidCertificate(named);
        let told_of = told(Ours(within(named.clone())));
        assert_eq!(
            told_of,
            "ours: invalid peer certificate: it is for other names than the one asked for"
        );
        let other = OtherError(std::sync::Arc::new(Ours(within(VALUE))));
        for error in [
            named.clone(),
            TlsError::General(VALUE.to_owned()),
            TlsError::Other(other.clone()),
            TlsError::InvalidCertificate(CertificateError::Other(other)),
        ] {
            // As the HTTP/2 library keeps what its connection ended with: as a text.
            let text = within(error.to_string());
            for told in [told(error), told(Ours(text))] {
                assert!(!told.contains(VALUE), "{told}");
            }
        }
        assert_eq!(told(within(within(VALUE))), "invalid data");
    }

    #[test]
    fn what_nobody_wrote_is_told_as_it_is() {
        let alert = TlsError::AlertReceived(AlertDescription::UnknownCA);
        let alert = told(Ours(within(alert)));
        assert!(alert.contains("UnknownCA"), "{alert}");
        let message = told(TlsError::InvalidMessage(InvalidMessage::InvalidContentType));
        assert!(message.contains("InvalidContentType"), "{message}");
        let gone = Ours(io::Error::from_raw_os_error(104));
        assert_eq!(told(gone), "ours: Connection reset by peer (os error 104)");
        let refused = told(h2::Error::from(h2::Reason::REFUSED_STREAM));
        assert!(refused.contains("refused stream"), "{refused}");
    }

    #[tokio::test]
    async fn nothing_that_a_goaway_says_is_told() {
        let (near, mut far) = tokio::io::duplex(4096);
        // SETTINGS, and a GOAWAY for which the value is the reason that it gives in words.
        let length = u8::try_from(8 + VALUE.len()).unwrap();
        let farewell = [0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let octets = [
            &[0, 0, 0, 4, 0, 0, 0, 0, 0][..],
            &farewell,
            VALUE.as_bytes(),
        ]
        .concat();
        far.write_all(&octets).await.unwrap();
        let (_requests, connection) = h2::client::handshake(near).await.unwrap();
        let error = connection.await.unwrap_err();
        assert!(error.to_string().contains(VALUE), "{error}");
        let through = within(error);
        let told = told(through);
        assert_eq!(
            told,
            "connection error received: unexpected internal error encountered"
        );
    }
}
