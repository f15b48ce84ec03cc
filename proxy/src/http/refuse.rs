//! The answer to a request that does not go: what was denied, why, and what to ask for.
//!
//! It tells the program nothing that the program did not send, save the policy's name, its own id, and of a secret
//! whose sentinel it holds where that may go.

use bytes::Bytes;
use gig_policy::{Denial, DenyReason};
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER},
};
use serde::Serialize;

use crate::enforce::request::Asked;

/// A refusal as it is told.
#[derive(Debug)]
pub struct Refusal {
    /// Why; recorded already.
    pub denial: Box<Denial>,
    /// What was asked.
    pub asked: Asked,
    /// The client speaks gRPC and looks for a status in trailers.
    pub grpc: bool,
}

/// The JSON body; field names are the interface.
#[derive(Debug, Serialize)]
struct Told<'a> {
    error: &'static str,
    reason: &'static str,
    host: &'a str,
    port: u16,
    method: &'a str,
    path: &'a str,
    policy: &'a str,
    sandbox: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    request_id: &'a str,
}

impl Refusal {
    /// The whole answer.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        if self.grpc {
            return self.grpc_response();
        }
        let reason = self.denial.reason;
        let status =
            StatusCode::from_u16(reason.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = Response::new(Bytes::from(self.body()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(PROXY_STATUS, proxy_status(reason));
        if status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, retry_after(reason));
        }
        if !stays_usable(reason) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Trailers-only (gRPC over HTTP/2, "Responses"): the status travels in the header section.
    fn grpc_response(&self) -> Response<Bytes> {
        let reason = self.denial.reason;
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(PROXY_STATUS, proxy_status(reason));
        headers.insert("grpc-status", HeaderValue::from_static(grpc_status(reason)));
        let message = match self.hint() {
            Some(hint) => format!("{}: {reason}; {hint}", error_word(reason)),
            None => format!("{}: {reason}", error_word(reason)),
        };
        if let Ok(message) = HeaderValue::from_str(&percent_encoded(&message)) {
            headers.insert("grpc-message", message);
        }
        response
    }

    fn body(&self) -> Vec<u8> {
        let reason = self.denial.reason;
        let told = Told {
            error: error_word(reason),
            reason: reason.as_str(),
            host: &self.asked.host_word,
            port: self.asked.port.get(),
            method: &self.asked.method,
            path: &self.asked.path,
            policy: &self.denial.policy.name,
            sandbox: self.asked.subject.id().to_string(),
            hint: self.hint(),
            request_id: &self.asked.id,
        };
        let mut body = serde_json::to_vec(&told).unwrap_or_default();
        body.push(b'\n');
        body
    }

    fn hint(&self) -> Option<String> {
        let hint = &self.denial.hint;
        if hint.is_empty() {
            return standing_hint(self.denial.reason).map(str::to_owned);
        }
        let reason = self.denial.reason;
        let asks = reason.http_status() == 403 && reason != DenyReason::SecretMisuse;
        if asks && !hint.starts_with("ask for") && gig_policy::can_be_asked_for(hint) {
            return Some(format!("ask for: {hint}"));
        }
        Some(hint.clone())
    }
}

/// `Proxy-Status` (RFC 9209 §2) for one reason.
#[must_use]
pub fn proxy_status(reason: DenyReason) -> HeaderValue {
    let error = reason.proxy_status_error();
    HeaderValue::from_str(&format!("gig; error={error}; details=\"{reason}\""))
        .unwrap_or_else(|_| HeaderValue::from_static("gig"))
}

/// Whether the connection may carry the next request. Not after a request whose end is in doubt.
const fn stays_usable(reason: DenyReason) -> bool {
    !matches!(
        reason,
        DenyReason::MalformedRequest
            | DenyReason::TooLarge
            | DenyReason::ConnectionLimit
            | DenyReason::ShuttingDown
            | DenyReason::RequestTimeout
    )
}

/// Refused by decision, or failed on the way.
fn error_word(reason: DenyReason) -> &'static str {
    if matches!(reason.http_status(), 400..=499) {
        "egress_denied"
    } else {
        "egress_failed"
    }
}

/// What helps where no rule would: the same words for everybody.
#[must_use]
pub const fn standing_hint(reason: DenyReason) -> Option<&'static str> {
    Some(match reason {
        DenyReason::PrivateAddress => {
            "ask for: allow_private with the host's address; it is not a public one"
        }
        DenyReason::NamesDisagree => {
            "destination, TLS server name, Host and :authority must name one host"
        }
        DenyReason::TlsCertificate => {
            "the origin's certificate is not trusted for this host; --upstream-ca adds an authority"
        }
        DenyReason::OriginProtocol => {
            "the origin's answer cannot be passed on: it is no HTTP, its length is in doubt, it has too many fields \
             or interim answers, its content coding cannot be undone where gig looks for secrets, or was not asked \
             for and hides one (ask for gzip, br, zstd or identity), or it is another protocol than was asked for (a WebSocket needs HTTP/1.1 or RFC 8441)"
        }
        DenyReason::ProtocolNotAllowed => "through this proxy go CONNECT, http and https",
        DenyReason::SecretMisuse => {
            "a secret, or what stands for one here, may only go to the hosts that it is bound to"
        }
        DenyReason::SecretUnavailable => "a secret that the request needs cannot be had now",
        DenyReason::SecretUnplaceable => {
            "a secret cannot stand there as it is, or the answer would be a credential; the record of the request says which"
        }
        DenyReason::TokenUnreadable => {
            "a login's tokens are kept out of the sandbox, and those in this answer could not be"
        }
        DenyReason::DecoderLimit => {
            "too many compressed or long bodies at once; gig looks into them: fewer at a time, or plain ones"
        }
        DenyReason::DecompressionBomb => {
            "the body decodes to more than a thousand times what it is; gig looks into it: send it plain"
        }
        DenyReason::RecordUnavailable => "what cannot be recorded does not go; ask the operator",
        _ => return None,
    })
}

fn retry_after(reason: DenyReason) -> HeaderValue {
    // The windows are a minute and an hour long and slide: what was used comes back little by little.
    HeaderValue::from_static(match reason {
        DenyReason::UploadLimit => "300",
        DenyReason::RequestRate => "5",
        _ => "1",
    })
}

fn grpc_status(reason: DenyReason) -> &'static str {
    match reason.http_status() {
        429 => "8",       // RESOURCE_EXHAUSTED
        400..=499 => "7", // PERMISSION_DENIED
        504 => "4",       // DEADLINE_EXCEEDED
        _ => "14",        // UNAVAILABLE
    }
}

/// `grpc-message` holds printable ASCII; everything else, and `%`, is percent-encoded.
fn percent_encoded(message: &str) -> String {
    percent_encoding::utf8_percent_encode(message, GRPC_MESSAGE).to_string()
}

const GRPC_MESSAGE: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b'%');
const PROXY_STATUS: http::HeaderName = http::HeaderName::from_static("proxy-status");
