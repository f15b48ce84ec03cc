//! Why something was refused: one closed vocabulary for HTTP answers, DNS errors, metrics, records.
//!
//! The mapping to RFC 9209 (`Proxy-Status`), RFC 8914 (extended DNS errors) and HTTP status codes is
//! here and nowhere else.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($(#[doc = $meaning:literal] $variant:ident = $word:literal, $status:literal, $proxy:literal;)*) => {
        /// One reason; the word is stable and appears everywhere a denial is told.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum DenyReason { $(#[doc = $meaning] $variant,)* }

        impl DenyReason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The reason that a word stands for; `None` where this gig knows none.
            #[must_use]
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }

            /// What it says, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                let sentence = match self { $(Self::$variant => $meaning,)* };
                sentence.trim()
            }

            /// The status code of the HTTP answer.
            #[must_use]
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// The error type of RFC 9209 §2.3.
            #[must_use]
            pub const fn proxy_status_error(self) -> &'static str {
                match self { $(Self::$variant => $proxy,)* }
            }
        }
    };
}

reasons! {
    // Decided by policy.
    /// No rule names this host.
    HostNotAllowed = "host_not_allowed", 403, "http_request_denied";
    /// Rules name the host, none this port.
    PortNotAllowed = "port_not_allowed", 403, "http_request_denied";
    /// Rules name host and port, none this protocol (HTTP, TLS, or opaque bytes).
    ProtocolNotAllowed = "protocol_not_allowed", 403, "http_request_denied";
    /// No rule of the host has this method.
    MethodNotAllowed = "method_not_allowed", 403, "http_request_denied";
    /// No rule of the host has this path.
    PathNotAllowed = "path_not_allowed", 403, "http_request_denied";
    /// A raw address that no rule names, and no name was given that a rule allows.
    IpNotAllowed = "ip_not_allowed", 403, "destination_ip_prohibited";
    // Decided at the address.
    /// The name resolves to an address that is not public and that no rule opens.
    PrivateAddress = "private_address", 403, "destination_ip_prohibited";
    /// The name resolves to a public address and the policy reaches private ranges only.
    PublicAddress = "public_address", 403, "destination_ip_prohibited";
    /// A metadata service or one of our own listeners: nothing opens it.
    NeverOpenable = "never_openable", 403, "destination_ip_prohibited";
    // Decided by what was sent.
    /// Destination, SNI, Host and :authority do not name one host.
    NamesDisagree = "names_disagree", 421, "http_request_error";
    /// No name could be learnt (TLS without SNI, encrypted client hello) where one is needed.
    NameMissing = "name_missing", 403, "http_request_denied";
    /// The bytes are not valid in the protocol they began.
    MalformedRequest = "malformed_request", 400, "http_request_error";
    /// The name is not a host name.
    MalformedName = "malformed_name", 403, "http_request_denied";
    /// Neither TLS, HTTP nor allowed opaque bytes; or a datagram.
    UnsupportedProtocol = "unsupported_protocol", 403, "http_request_denied";
    /// A header section, body or stream larger than any policy opens.
    TooLarge = "too_large", 413, "http_request_error";
    // Limits of the policy.
    /// Too many requests in a minute.
    RequestRate = "request_rate", 429, "http_request_denied";
    /// Too many connections at once.
    ConnectionLimit = "connection_limit", 429, "connection_limit_reached";
    /// The request body is over the policy's `request_body`.
    RequestBodyLimit = "request_body_limit", 413, "http_request_error";
    /// The sandbox's bodies hold all the memory that they may while gig takes them apart.
    DecoderLimit = "decoder_limit", 429, "http_request_denied";
    /// The request body decodes to so much more than was sent that gig does not look into all of it.
    DecompressionBomb = "decompression_bomb", 413, "http_request_denied";
    /// The hour's upload allowance is used up.
    UploadLimit = "upload_limit", 429, "http_request_denied";
    // Credentials.
    /// A sentinel, or a secret's value, was sent to where the secret is not bound.
    SecretMisuse = "secret_misuse", 403, "http_request_denied";
    /// A secret that the request asks for cannot be had now.
    SecretUnavailable = "secret_unavailable", 502, "proxy_internal_error";
    /// A secret's value cannot stand where its sentinel stands.
    SecretUnplaceable = "secret_unplaceable", 502, "proxy_internal_error";
    /// Tokens in the answer of a token endpoint could not be kept back, so the answer was.
    TokenUnreadable = "token_unreadable", 502, "http_protocol_error";
    // Our own side: fail closed.
    /// The record could not be written: no record, no egress.
    RecordUnavailable = "record_unavailable", 503, "proxy_internal_error";
    /// The policy changed and no longer allows an open connection.
    Revoked = "revoked", 403, "http_request_denied";
    /// gig is going down.
    ShuttingDown = "shutting_down", 503, "proxy_internal_error";
    /// A fault of our own.
    Internal = "internal", 502, "proxy_internal_error";
    // The origin's side.
    /// The name has no address.
    NameNotResolved = "name_not_resolved", 502, "dns_error";
    /// The resolver did not answer in time.
    ResolverTimeout = "resolver_timeout", 504, "dns_timeout";
    /// The origin refused the connection.
    ConnectionRefused = "connection_refused", 502, "connection_refused";
    /// The origin did not accept in time.
    ConnectionTimeout = "connection_timeout", 504, "connection_timeout";
    /// No route, or the connection broke.
    DestinationUnavailable = "destination_unavailable", 502, "destination_unavailable";
    /// The origin's certificate is not valid for the name.
    TlsCertificate = "tls_certificate", 502, "tls_certificate_error";
    /// TLS with the origin failed otherwise.
    TlsProtocol = "tls_protocol", 502, "tls_protocol_error";
    /// The origin's answer is not valid HTTP.
    OriginProtocol = "origin_protocol", 502, "http_protocol_error";
    /// The origin did not answer in time.
    OriginTimeout = "origin_timeout", 504, "http_response_timeout";
    /// The program did not finish its request in time.
    RequestTimeout = "request_timeout", 408, "http_request_error";
    /// The program went away before its request was whole.
    RequestIncomplete = "request_incomplete", 400, "http_request_error";
}

impl DenyReason {
    /// Whether a rule more, or a wider one, would have let it pass.
    #[must_use]
    pub const fn is_of_rules(self) -> bool {
        matches!(
            self,
            Self::HostNotAllowed
                | Self::PortNotAllowed
                | Self::ProtocolNotAllowed
                | Self::MethodNotAllowed
                | Self::PathNotAllowed
                | Self::IpNotAllowed
        )
    }

    /// Whether it failed beyond gig's reach, so that no rule would change it: a name without an address, an origin that
    /// does not answer.
    const fn is_origins_fault(self) -> bool {
        matches!(
            self,
            Self::NameNotResolved
                | Self::ResolverTimeout
                | Self::ConnectionRefused
                | Self::ConnectionTimeout
                | Self::DestinationUnavailable
                | Self::TlsCertificate
                | Self::TlsProtocol
                | Self::OriginProtocol
                | Self::OriginTimeout
                | Self::TokenUnreadable
        )
    }

    /// Whether what was allowed and ended for this reason was refused after all: by its address, by a limit, by a change
    /// of policy. An origin that fails, a program that goes away and the end of the run refused nothing.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        let ended = matches!(self, Self::RequestIncomplete | Self::ShuttingDown);
        !ended && !self.is_origins_fault()
    }

    /// Whether it was refused where it was dialled to, so that nothing of it left.
    #[must_use]
    pub const fn is_of_address(self) -> bool {
        matches!(
            self,
            Self::PrivateAddress | Self::PublicAddress | Self::NeverOpenable
        )
    }

    /// The extended DNS error of RFC 8914 §4 for a name refused for this reason.
    #[must_use]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "0 Other is the registry's own wildcard"
    )]
    pub const fn extended_dns_error(self) -> u16 {
        match self {
            // 18 Prohibited would say "you may not ask"; 15 Blocked is "the operator's policy".
            Self::HostNotAllowed
            | Self::MalformedName
            | Self::NeverOpenable
            | Self::SecretMisuse => 15,
            // 14 Not Ready: our own side cannot answer.
            Self::RecordUnavailable | Self::ShuttingDown => 14,
            // 0 Other.
            _ => 0,
        }
    }
}

impl fmt::Display for DenyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
