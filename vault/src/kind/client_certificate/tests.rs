//! What the border could not present is refused when it is set, with what helps.

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P521_SHA512, PKCS_ED25519,
};

use super::*;

/// A certificate and its key.
fn made(algorithm: &'static rcgen::SignatureAlgorithm) -> (String, String) {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let certificate = CertificateParams::new(vec!["client.test".to_owned()]).unwrap();
    (
        certificate.self_signed(&key).unwrap().pem(),
        key.serialize_pem(),
    )
}

fn check(text: &str) -> Result<(), String> {
    let checked = ClientCertificate.check(&text.into());
    checked.map_err(|error| error.to_string())
}

#[test]
fn a_certificate_needs_its_key() {
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519] {
        let (certificate, key) = made(algorithm);
        let (other, _) = made(algorithm);
        assert_eq!(check(&format!("{certificate}{key}")), Ok(()));
        assert_eq!(check(&format!("{key}{certificate}{other}")), Ok(()));
        for text in [&certificate, &key, ""] {
            assert!(check(text).is_err());
        }
        let mixed = check(&format!("{other}{certificate}{key}")).unwrap_err();
        assert!(mixed.contains("do not belong together"), "{mixed}");
    }
}

#[test]
fn what_cannot_be_presented_is_told_with_what_helps() {
    let (certificate, key) = made(&PKCS_ECDSA_P521_SHA512);
    let curve = check(&format!("{certificate}{key}")).unwrap_err();
    assert!(
        curve.contains("P-521") && curve.contains("use ECDSA of P-256"),
        "{curve}"
    );
    let short = check(SHORT).unwrap_err();
    assert!(
        short.contains("too short") && short.contains("2048 bits"),
        "{short}"
    );
    let first = check(FIRST).unwrap_err();
    assert!(
        first.contains("first version") && first.contains("-extfile"),
        "{first}"
    );
    let none = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let (_, key) = made(&PKCS_ECDSA_P256_SHA256);
    assert!(
        check(&format!("{none}{key}"))
            .unwrap_err()
            .contains("cannot be used")
    );
}

/// Made by `openssl x509 -req` without extensions.
const FIRST: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBHTCBxQIUFnFHdn+PYMLIJRMag2bCqpuHBqkwCgYIKoZIzj0EAwIwETEPMA0G\n\
A1UEAwwGY2xpZW50MCAXDTI2MTEyOTEzMTYxN1oYDzIxMjYxMTA1MTMxNjE3WjAR\n\
MQ8wDQYDVQQDDAZjbGllbnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATh4OEl\n\
4mQTYpXBTDkP+4b1UPp0Hwo5cQ9VVzIJeyYB6Dq6b3bNBaMCLJSjQ+CCwkBRF1LS\n\
oOT0tuVkhhgBCa5wMAoGCCqGSM49BAMCA0cAMEQCIDKgUJNcHLFVBYLiXRDPEVcQ\n\
LQI3Ou/2ZQwkD7XJwtUcAiBihEqO9qprnGwwmSm8adY/bNIZ/QjmWSeqMBaKF3yY\n\
yQ==\n\
-----END CERTIFICATE-----\n\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgG18Guo6shw4lF7Wr\n\
RfT9agbmyY4713pVsMYyrgS6SPKhRANCAATh4OEl4mQTYpXBTDkP+4b1UPp0Hwo5\n\
cQ9VVzIJeyYB6Dq6b3bNBaMCLJSjQ+CCwkBRF1LSoOT0tuVkhhgBCa5w\n\
-----END PRIVATE KEY-----\n";
/// RSA of 1024 bits.
const SHORT: &str = "-----BEGIN CERTIFICATE-----\n\
MIICADCCAWmgAwIBAgIUNsSV1ZJ36bkROKtdHou47Nl+tDAwDQYJKoZIhvcNAQEL\n\
BQAwETEPMA0GA1UEAwwGY2xpZW50MCAXDTI2MTEyOTEzMTYxN1oYDzIxMjYxMTA1\n\
MTMxNjE3WjARMQ8wDQYDVQQDDAZjbGllbnQwgZ8wDQYJKoZIhvcNAQEBBQADgY0A\n\
MIGJAoGBALrRDI7dhvfv4i0SaDheRg1zXBVJ9tPZw0/c3ixN9QUqZZwQudCPnzb1\n\
MpsG0kNrZ+GInlQvS9iLR8ErfgcpIAolOVZMu3ac7jeBXqQg0Pq/SOaUOSB0GZlk\n\
VQNLYro/pazSz9BvdzgjGb7kYTQ6DvmYvdf4Wwa2eCG8NVwKsG2TAgMBAAGjUzBR\n\
MB0GA1UdDgQWBBQ9q1q95J2nOUpRQs2uprnO0ks/ZDAfBgNVHSMEGDAWgBQ9q1q9\n\
5J2nOUpRQs2uprnO0ks/ZDAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUA\n\
A4GBACx1jqKq1zP98wxJReLx0LuGjUC99WrjExahjPK8sjSZzWUghHbHlrcjrJyF\n\
1yxXlBLlv63+thQaYWJ/NDR3CoURuNiqRZQSQHxKdmjZiY7E/4yjQ+hmGgGaDoXg\n\
3BZTtCdFggaJRM55tn+FB7LHNuEu5fnXGpC9DW2v0jqOrM24\n\
-----END CERTIFICATE-----\n\
-----BEGIN PRIVATE KEY-----\n\
MIICeAIBADANBgkqhkiG9w0BAQEFAASCAmIwggJeAgEAAoGBALrRDI7dhvfv4i0S\n\
aDheRg1zXBVJ9tPZw0/c3ixN9QUqZZwQudCPnzb1MpsG0kNrZ+GInlQvS9iLR8Er\n\
fgcpIAolOVZMu3ac7jeBXqQg0Pq/SOaUOSB0GZlkVQNLYro/pazSz9BvdzgjGb7k\n\
YTQ6DvmYvdf4Wwa2eCG8NVwKsG2TAgMBAAECgYEAi+THdqRE0Z18zSufh7Zw1tmv\n\
9vEwOGw1abSHWr314Sxicn/D5X3nSAxNHPH6uinP3H+lsHzKWxnRXcHn2gzdw/Lf\n\
tGam5Imde0+RSr31tvHMRoPyAPa+u35pLsaQMtkzdiuRvadnQWWeh3u2QjeuwxIC\n\
gUsis9zwwtpKSs+QsWECQQDp5DzKI0Hj/cGjDR1L4NXVcMT7vPrJrRT7zcDAi8Ig\n\
U3CBGsc+/n2odMwEIJIGN9BP4GhoswZ9xOsKc+2f8YonAkEAzHmuSlg3I+LEjBAp\n\
4SRdtk9wZ2KvtWaZv3NucePLUQ2B8+VarzRZAuWlrrVd1jDJFxeiMYK9eWwAHWqF\n\
NqBAtQJBANhcgwN2hBB1ADhl/FDh5s1waTh6hAAmNYANwJ4davHeXfeAHwqd/v3j\n\
NYsn2g0YeoI5lDwuR/X2QHtF7G6F0QcCQAMx44dF2Za19Fw75GugJdazZw42fIhZ\n\
Eg3rv84HwSWDEIS/EKusJbfl3rDcJJs0J/A0blRXtp4vEdFj2LEB0AECQQCiL+7b\n\
R5A9cRiSjbp53/5EFGaYaoXJ68dADEt/57vpCFIHPctHreOzC3sFjqdWW9DTXj1Q\n\
JqNBAtyo396vVwaI\n\
-----END PRIVATE KEY-----\n";
