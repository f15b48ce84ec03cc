//! Octets as hexadecimal digits, and back.

use super::unescape;

/// Lower-case hexadecimal digits.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The octets of hexadecimal digits; `None`: they are none, or not in pairs.
pub(super) fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let octet = |[high, low]: &[u8; 2]| {
        let (high, low) = (unescape::hex(*high)?, unescape::hex(*low)?);
        Some(high << 4 | low)
    };
    let octets = pairs.iter().map(octet).collect();
    rest.is_empty().then_some(octets)?
}
