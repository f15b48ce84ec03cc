//! What a Zstandard frame says of its window, before the library allocates it (RFC 8878 §3.1.1).

/// The window of a frame that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// More of the frame's header must come first, all of it.
    Short,
    /// It is no frame that has one.
    None,
    /// So many octets.
    Of(u64),
}

/// Reads it from the first octets of a frame.
pub(super) fn window(input: &[u8]) -> Window {
    let Some((magic, rest)) = input.split_at_checked(MAGIC.len()) else {
        return if MAGIC.starts_with(input) || SKIPPABLE.starts_with(input.get(1..).unwrap_or(&[])) {
            Window::Short
        } else {
            Window::None
        };
    };
    if magic != MAGIC {
        return Window::None;
    }
    let Some((descriptor, rest)) = rest.split_first() else {
        return Window::Short;
    };
    let single = descriptor & SINGLE_SEGMENT != 0;
    let dictionary = match descriptor & 3 {
        0 => 0,
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let (length, plus) = match descriptor >> 6 {
        0 => (usize::from(single), 0),
        1 => (2, 256),
        2 => (4, 0),
        _ => (8, 0),
    };
    let before = usize::from(!single) + dictionary;
    // The library allocates with the last octet of the header, and takes any that come before it.
    let Some(field) = rest.get(before..before + length) else {
        return Window::Short;
    };
    if let (false, Some(window)) = (single, rest.first()) {
        let base = 1_u64 << (10 + (window >> 3));
        return Window::Of(base + base / 8 * u64::from(window & 7));
    }
    // The window is as long as the content, which the last field tells.
    let digit = |content, octet: &u8| content << 8 | u64::from(*octet);
    let content = field.iter().rev().fold(0_u64, digit);
    Window::Of(content.saturating_add(plus))
}

/// §3.1.1, little-endian.
pub(super) const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// §3.1.2: the last three octets of sixteen numbers.
const SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];
const SINGLE_SEGMENT: u8 = 1 << 5;
