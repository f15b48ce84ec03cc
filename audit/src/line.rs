//! Writes an entry with its place, its time and its predecessor as one JSON object.
//!
//! A line is JSON in printable ASCII: whatever else a sandbox managed to put into a host or a path
//! (controls, escapes, bidirectional overrides) stands as `\uXXXX`, so that a terminal that shows
//! the file obeys nobody. Written by hand, since two lines a request are a fifth of what a request
//! costs when serde makes them; the tests hold it against serde, octet by octet. Where the hash goes
//! is [`crate::chain`]'s.

use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use crate::{
    chain::Stamp,
    entry::{Entry, TlsFacts, VerdictWord},
    record::{ChainHash, hex},
};

/// Appends the object up to and without its closing brace.
pub(crate) fn write(out: &mut Vec<u8>, seq: u64, stamp: Stamp<'_>, entry: &Entry, prev: ChainHash) {
    out.extend_from_slice(b"{\"seq\":");
    decimal(out, seq);
    text_field(out, b",\"time\":", stamp.time);
    text_field(out, b",\"node\":", stamp.node);
    fields(out, entry);
    out.extend_from_slice(b",\"prev\":\"");
    out.extend_from_slice(&hex(prev));
    out.push(b'"');
}

/// Every field that applies, in the order of [`Entry`].
fn fields(out: &mut Vec<u8>, entry: &Entry) {
    // Taken apart whole, so that a new field cannot be forgotten here.
    let Entry {
        event,
        deed,
        subject,
        sandbox,
        server,
        profile,
        conn,
        request,
        policy,
        policy_version,
        rule,
        verdict,
        reason,
        src,
        host,
        port,
        dst_ip,
        protocol,
        tls,
        method,
        path,
        status,
        bytes_out,
        bytes_in,
        duration_ms,
        secrets,
        findings,
    } = entry;
    word_field(out, b",\"event\":", event.as_str());
    if let Some(deed) = deed {
        word_field(out, b",\"deed\":", deed.as_str());
    }
    text(out, b",\"subject\":", subject.as_ref());
    if let Some(id) = sandbox {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = id.as_uuid().hyphenated().encode_lower(&mut text);
        word_field(out, b",\"sandbox\":", text);
    }
    text(out, b",\"server\":", server.as_ref());
    text(out, b",\"profile\":", profile.as_ref());
    number(out, b",\"conn\":", *conn);
    text(out, b",\"request\":", request.as_ref());
    text(out, b",\"policy\":", policy.as_ref());
    number(out, b",\"policy_version\":", *policy_version);
    text(out, b",\"rule\":", rule.as_ref());
    if let Some(verdict) = verdict {
        word_field(out, b",\"verdict\":", verdict_word(*verdict));
    }
    if let Some(reason) = reason {
        word_field(out, b",\"reason\":", reason.as_str());
    }
    if let Some(src) = src {
        out.extend_from_slice(b",\"src\":\"");
        socket_address(out, *src);
        out.push(b'"');
    }
    text(out, b",\"host\":", host.as_ref());
    number(out, b",\"port\":", *port);
    if let Some(ip) = dst_ip {
        out.extend_from_slice(b",\"dst_ip\":\"");
        ip_address(out, *ip);
        out.push(b'"');
    }
    text(out, b",\"protocol\":", protocol.as_ref());
    if let Some(tls) = tls {
        tls_facts(out, tls);
    }
    text(out, b",\"method\":", method.as_ref());
    text(out, b",\"path\":", path.as_ref());
    number(out, b",\"status\":", *status);
    number(out, b",\"bytes_out\":", *bytes_out);
    number(out, b",\"bytes_in\":", *bytes_in);
    number(out, b",\"duration_ms\":", *duration_ms);
    list(out, b",\"secrets\":", secrets);
    list(out, b",\"findings\":", findings);
}

const fn verdict_word(verdict: VerdictWord) -> &'static str {
    match verdict {
        VerdictWord::Allow => "allow",
        VerdictWord::Deny => "deny",
        VerdictWord::WouldDeny => "would_deny",
    }
}

fn tls_facts(out: &mut Vec<u8>, facts: &TlsFacts) {
    let TlsFacts { version, alpn, sni } = facts;
    out.extend_from_slice(b",\"tls\":{");
    let begin = out.len();
    text(out, b",\"version\":", version.as_ref());
    text(out, b",\"alpn\":", alpn.as_ref());
    text(out, b",\"sni\":", sni.as_ref());
    if out.len() > begin {
        // The first field's comma.
        out.remove(begin);
    }
    out.push(b'}');
}

fn number(out: &mut Vec<u8>, key: &[u8], value: Option<impl Into<u64>>) {
    if let Some(value) = value {
        out.extend_from_slice(key);
        decimal(out, value.into());
    }
}

fn text(out: &mut Vec<u8>, key: &[u8], value: Option<&Arc<str>>) {
    if let Some(value) = value {
        text_field(out, key, value);
    }
}

pub(crate) fn text_field(out: &mut Vec<u8>, key: &[u8], value: &str) {
    out.extend_from_slice(key);
    quoted(out, value);
}

/// For words of our own, which need no look at their octets.
fn word_field(out: &mut Vec<u8>, key: &[u8], word: &str) {
    out.extend_from_slice(key);
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

fn list(out: &mut Vec<u8>, key: &[u8], values: &[Arc<str>]) {
    let Some((first, others)) = values.split_first() else {
        return;
    };
    out.extend_from_slice(key);
    out.push(b'[');
    quoted(out, first);
    for value in others {
        out.push(b',');
        quoted(out, value);
    }
    out.push(b']');
}

fn quoted(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    // Folded without a way out, so that many octets are looked at in one step.
    let odd = value.bytes().fold(false, |odd, octet| odd | is_odd(octet));
    if odd {
        value.chars().for_each(|character| escaped(out, character));
    } else {
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'"');
}

/// Does not stand for itself.
const fn is_odd(octet: u8) -> bool {
    (octet < b' ') | (octet > b'~') | (octet == b'"') | (octet == b'\\')
}

fn escaped(out: &mut Vec<u8>, character: char) {
    let short = match character {
        '"' => b'"',
        '\\' => b'\\',
        '\u{8}' => b'b',
        '\t' => b't',
        '\n' => b'n',
        '\u{c}' => b'f',
        '\r' => b'r',
        ' '..='~' => return out.extend(u8::try_from(character)),
        _ => {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                written(out, format_args!("\\u{unit:04x}"));
            }
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn socket_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            ipv4_address(out, *address.ip());
            out.push(b':');
            decimal(out, address.port().into());
        }
        SocketAddr::V6(address) => written(out, format_args!("{address}")),
    }
}

fn ip_address(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => ipv4_address(out, ip),
        IpAddr::V6(ip) => written(out, format_args!("{ip}")),
    }
}

fn ipv4_address(out: &mut Vec<u8>, ip: Ipv4Addr) {
    for (place, octet) in ip.octets().into_iter().enumerate() {
        if place > 0 {
            out.push(b'.');
        }
        decimal(out, octet.into());
    }
}

/// Most numbers are short: an octet of an address, a port, a status.
fn decimal(out: &mut Vec<u8>, value: u64) {
    match value {
        0..10 => out.push(digit(value)),
        10..100 => out.extend_from_slice(&digits::<2>(value)),
        100..1000 => out.extend_from_slice(&digits::<3>(value)),
        1000..10_000 => out.extend_from_slice(&digits::<4>(value)),
        10_000..100_000 => out.extend_from_slice(&digits::<5>(value)),
        _ => {
            let all = digits::<20>(value);
            let begin = all.iter().position(|digit| *digit != b'0');
            out.extend_from_slice(all.get(begin.unwrap_or_default()..).unwrap_or_default());
        }
    }
}

/// The last ones of a number. Of a known count, so that they are written without a call.
fn digits<const N: usize>(mut value: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for place in digits.iter_mut().rev() {
        *place = digit(value % 10);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    digits
}

/// Of a value below ten.
fn digit(value: u64) -> u8 {
    b'0' | u8::try_from(value).unwrap_or_default()
}

fn written(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A vector takes everything.
    let _infallible = out.write_fmt(text);
}

#[cfg(test)]
mod tests;
