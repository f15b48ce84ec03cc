//! How much a sandbox may do: numbers with units.

use std::fmt;

use thiserror::Error;

/// A number of octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

/// Why a text is no amount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseByteCountError {
    /// No digits first.
    #[error("{0:?} does not start with a whole number")]
    NoNumber(String),
    /// Not one of the units.
    #[error("{0:?} is not a unit: use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")]
    Unit(String),
    /// Over 2^64.
    #[error("{0:?} is more than can be counted")]
    TooLarge(String),
}

impl ByteCount {
    /// Reads `50MB`, `1 GiB` or `4096`. `k`, `M`, `G`, `T` count by 1,000, with `i` by 1,024.
    ///
    /// # Errors
    /// When there is no whole number, an unknown unit (`Mb` would be bits), or too much.
    pub fn parse(text: &str) -> Result<Self, ParseByteCountError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).unwrap_or(("", text));
        if number.is_empty() {
            return Err(ParseByteCountError::NoNumber(text.to_owned()));
        }
        let factor: u64 = match unit.trim_start_matches(' ') {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            other => return Err(ParseByteCountError::Unit(other.to_owned())),
        };
        let bytes = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(factor));
        bytes
            .map(Self)
            .ok_or_else(|| ParseByteCountError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The `limits` of a policy document. `None` means no limit of that kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests in any 60 seconds.
    pub requests_per_minute: Option<u32>,
    /// Connections open at once, never unlimited.
    pub connections: u32,
    /// Octets in one request body.
    pub request_body: Option<ByteCount>,
    /// Octets sent towards origins in any hour: of requests method, target, header and trailer fields and body;
    /// of what is not opened everything.
    pub upload_per_hour: Option<ByteCount>,
}

impl Limits {
    /// What holds when a document says nothing: 64 connections (requirement 000, "connections per
    /// sandbox capped"), nothing else.
    pub const UNSTATED: Self = Self {
        requests_per_minute: None,
        connections: 64,
        request_body: None,
        upload_per_hour: None,
    };
}
