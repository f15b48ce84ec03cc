//! Header sections: a request's as it is written, an answer's as it is read.
//!
//! Pure. An answer is read here only if there is one way to read it: HTTP/1.1, final, one length that
//! is digits, or none where there can be no body. Everything else is left to hyper, untouched.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE},
};

/// What the beginning of what came is.
#[derive(Debug)]
pub enum Read {
    /// An answer.
    Answer(Answer),
    /// Something for hyper: all that came.
    Unusual(Bytes),
}

/// An answer whose end is known.
#[derive(Debug)]
pub struct Answer {
    /// Status and fields.
    pub head: Response<()>,
    /// What came behind the header section.
    pub first: Bytes,
    /// Octets of the body.
    pub length: u64,
    /// The connection may carry another request.
    pub keeps: bool,
}

/// Writes the header section of a request without a body into `out`, octet by octet as hyper does; false
/// where it announces a body or another protocol.
pub fn write<B>(request: &Request<B>, out: &mut Vec<u8>) -> bool {
    out.clear();
    let uri = request.uri();
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(uri.path().as_bytes());
    if let Some(query) = uri.query() {
        out.push(b'?');
        out.extend_from_slice(query.as_bytes());
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        let announces = (*name == CONTENT_LENGTH && value.as_bytes() != b"0")
            || *name == TRANSFER_ENCODING
            || *name == UPGRADE;
        if announces {
            return false;
        }
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    true
}

/// Whether `came` is the beginning of a header section, and not one yet.
#[must_use]
pub fn is_begun(came: &[u8]) -> bool {
    if memchr::memmem::find(came, END).is_some() {
        return false;
    }
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let parsed = httparse::Response::new(&mut fields).parse(came);
    parsed.is_ok_and(|parsed| parsed.is_partial())
}

/// Reads what came as an answer, to a `HEAD` request or to another.
#[must_use]
pub fn read(came: Bytes, to_head: bool) -> Read {
    match answer(&came, to_head) {
        Some(answer) => Read::Answer(answer),
        None => Read::Unusual(came),
    }
}

fn answer(came: &Bytes, to_head: bool) -> Option<Answer> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(end) = parsed.parse(came).ok()? else {
        return None;
    };
    let status = StatusCode::from_u16(parsed.code?).ok()?;
    // Lines that end otherwise are read by hyper, and so is every answer that is not the last.
    let whole = came.get(..end)?.ends_with(END);
    if !whole || end > LONGEST || parsed.version != Some(1) || status.is_informational() {
        return None;
    }
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    let (mut length, mut keeps) = (None, true);
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if name == CONTENT_LENGTH {
            if length.is_some() {
                return None;
            }
            length = Some(digits(field.value)?);
        } else if name == TRANSFER_ENCODING {
            return None;
        } else if name == CONNECTION {
            let mut options = field.value.split(|octet| *octet == b',');
            keeps &= !options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        }
        let value = HeaderValue::from_maybe_shared(came.slice_ref(field.value)).ok()?;
        headers.try_append(name, value).ok()?;
    }
    let bare = to_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = if bare { 0 } else { length? };
    let mut head = Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = headers;
    Some(Answer {
        head,
        first: came.slice(end..),
        length,
        keeps,
    })
}

/// RFC 9110 §8.6: digits, and nothing else.
fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = std::str::from_utf8(value).ok()?.parse().ok();
    // hyper has other uses for the two greatest, and refuses them.
    length.filter(|length| *length < u64::MAX - 1)
}

/// Of a header section.
const END: &[u8] = b"\r\n\r\n";
/// A longer header section is read by hyper, within the limit that there is for it.
pub const LONGEST: usize = 16 * 1024;
/// Answers have a dozen or two; those with more are read by hyper.
const MOST_FIELDS: usize = 48;

#[cfg(test)]
mod tests;
