//! From a query's bytes to an answer's bytes. Sans-I/O; decides nothing but what is malformed.
//!
//! Whatever is not a plain question of one name in class IN is answered with the code that DNS has
//! for it, or not at all when even that would be guessing (no header, a response).

use std::net::{IpAddr, Ipv4Addr};

use gig_policy::{DenyReason, Fqdn};
use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, PTR, SOA, opt::EdnsOption},
    },
};

use super::synthetic;

/// What a datagram or message is.
#[derive(Debug)]
pub enum Parsed {
    /// Not a query, or nothing that could be answered.
    Nothing,
    /// A query that is answered with an error, whatever a policy says.
    Refused(Box<Refused>),
    /// One question.
    Question(Box<Question>),
}

/// A query that is none of what is answered here, and what a record tells of it.
#[derive(Debug)]
pub struct Refused {
    reply: Vec<u8>,
    /// [`DenyReason::MalformedRequest`] or [`DenyReason::UnsupportedProtocol`].
    pub reason: DenyReason,
    /// The first name that it asks for, as [`Question::text`] has it; empty where none can be read.
    pub name: String,
    /// Those of its other questions and of what else it holds.
    pub others: Vec<String>,
    /// The type of that question, as [`Question::type_word`] has it; empty where none can be read.
    pub type_word: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// One question, with what its answer must repeat.
#[derive(Debug)]
pub struct Question {
    id: u16,
    query: Query,
    recursion_desired: bool,
    checking_disabled: bool,
    /// The client's EDNS payload size, if it speaks EDNS (RFC 6891).
    payload: Option<u16>,
}

/// What to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This address, for as long as a stand-in holds.
    Address(Ipv4Addr),
    /// This name (PTR).
    Pointer(Fqdn),
    /// The name exists, and has nothing of the type asked for.
    Empty,
    /// The name does not exist, for this reason.
    Denied(DenyReason),
    /// The kind of question is never answered.
    Refused,
    /// Nothing can be answered now, for this reason.
    Failed(DenyReason),
}

/// Reads a message.
#[must_use]
pub fn parse(bytes: &[u8]) -> Parsed {
    let Ok(message) = Message::from_vec(bytes) else {
        return malformed(bytes);
    };
    let meta = &message.metadata;
    if meta.message_type != MessageType::Query {
        return Parsed::Nothing;
    }
    if meta.op_code != OpCode::Query {
        let why = "its opcode is not QUERY: updates and notices go to no server";
        return error(&message, (ResponseCode::NotImp, why));
    }
    let [query] = message.queries.as_slice() else {
        let why = "it does not hold one question";
        return error(&message, (ResponseCode::FormErr, why));
    };
    if !message.answers.is_empty() || !message.authorities.is_empty() {
        let why = "it holds answers beside its question";
        return error(&message, (ResponseCode::FormErr, why));
    }
    if message
        .edns
        .as_ref()
        .is_some_and(|edns| edns.version() != 0)
    {
        let why = "its version of EDNS is not 0";
        return error(&message, (ResponseCode::BADVERS, why));
    }
    Parsed::Question(Box::new(Question {
        id: meta.id,
        query: query.clone(),
        recursion_desired: meta.recursion_desired,
        checking_disabled: meta.checking_disabled,
        payload: message.edns.as_ref().map(Edns::max_payload),
    }))
}

/// RFC 1035 §4.1.1: a query whose header can be read is told that the rest cannot.
fn malformed(bytes: &[u8]) -> Parsed {
    match bytes {
        // QR clear; a response is never answered, or two servers could talk for ever.
        &[high, low, flags, _, _, _, _, _, _, _, _, _, ..] if flags & 0x80 == 0 => {
            let id = u16::from_be_bytes([high, low]);
            let opcode = OpCode::from_u8(flags >> 3);
            let reply = Message::error_msg(id, opcode, ResponseCode::FormErr);
            refused(&reply, &[], "it is no DNS message that can be read")
        }
        _ => Parsed::Nothing,
    }
}

fn error(message: &Message, (code, why): (ResponseCode, &'static str)) -> Parsed {
    let mut reply = Message::error_msg(message.metadata.id, message.metadata.op_code, code);
    reply.metadata.recursion_desired = message.metadata.recursion_desired;
    if let [query] = message.queries.as_slice() {
        reply.add_query(query.clone());
    }
    if message.edns.is_some() {
        let mut edns = own_edns();
        edns.set_rcode_high(code.high());
        reply.set_edns(edns);
    }
    let mut read = refused(&reply, &message.queries, why);
    if let Parsed::Refused(refused) = &mut read {
        let records = message.answers.iter().chain(&message.authorities);
        refused
            .others
            .extend(records.map(|record| text(&record.name)));
    }
    read
}

fn refused(reply: &Message, queries: &[Query], why: &'static str) -> Parsed {
    let Ok(bytes) = reply.to_vec() else {
        return Parsed::Nothing;
    };
    let reason = match reply.metadata.response_code {
        ResponseCode::FormErr => DenyReason::MalformedRequest,
        _ => DenyReason::UnsupportedProtocol,
    };
    Parsed::Refused(Box::new(Refused {
        reply: bytes,
        reason,
        name: queries.first().map_or_else(String::new, name_text),
        others: queries.iter().skip(1).map(name_text).collect(),
        type_word: queries.first().map_or_else(String::new, type_word),
        why,
    }))
}

fn name_text(query: &Query) -> String {
    text(query.name())
}

/// Without the trailing dot, odd octets escaped (RFC 4343 §2.1).
fn text(name: &Name) -> String {
    let mut text = name.to_ascii();
    if text.len() > 1 && text.ends_with('.') {
        text.pop();
    }
    text
}

/// As zone files write it, with the class before it where that is not IN; by number where it has no name
/// (RFC 3597 §5).
fn type_word(query: &Query) -> String {
    let kind = match query.query_type() {
        RecordType::Unknown(number) => format!("TYPE{number}"),
        known => known.to_string(),
    };
    match query.query_class() {
        DNSClass::IN => kind,
        DNSClass::Unknown(number) => format!("CLASS{number} {kind}"),
        class => format!("{class} {kind}"),
    }
}

impl Refused {
    /// The answer's bytes.
    #[must_use]
    pub fn reply(&self) -> &[u8] {
        &self.reply
    }
}

impl Question {
    /// The name as it was sent, without the trailing dot, odd octets escaped (RFC 4343 §2.1).
    #[must_use]
    pub fn text(&self) -> String {
        name_text(&self.query)
    }

    /// The type asked for in a word, behind the class where that is not IN: `A`, `TYPE65280`, `CH TXT`.
    #[must_use]
    pub fn type_word(&self) -> String {
        type_word(&self.query)
    }

    /// The type asked for.
    #[must_use]
    pub fn query_type(&self) -> RecordType {
        self.query.query_type()
    }

    /// Whether it is of a kind that is answered at all: class IN, a type that names data.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.query.query_class() == DNSClass::IN
            && !matches!(
                self.query_type(),
                RecordType::ANY
                    | RecordType::AXFR
                    | RecordType::IXFR
                    | RecordType::OPT
                    | RecordType::TSIG
                    | RecordType::ZERO
            )
    }

    /// The address that a reverse look-up (`in-addr.arpa`) asks about.
    #[must_use]
    pub fn reverse(&self) -> Option<Ipv4Addr> {
        if self.query_type() != RecordType::PTR {
            return None;
        }
        let text = self.text().to_ascii_lowercase();
        let octets = text.strip_suffix(".in-addr.arpa")?;
        let IpAddr::V4(backwards) = octets.parse().ok()? else {
            return None;
        };
        let [a, b, c, d] = backwards.octets();
        Some(Ipv4Addr::new(d, c, b, a))
    }

    /// The answer's bytes, of at most `limit` octets and what the client takes; truncated otherwise.
    #[must_use]
    pub fn reply(&self, answer: &Answer, limit: Transport) -> Vec<u8> {
        let message = self.message(answer);
        let most = match limit {
            Transport::Tcp => usize::from(u16::MAX),
            // RFC 6891 §6.2.5: less than 512 means 512.
            Transport::Udp => usize::from(self.payload.unwrap_or(512).clamp(512, PAYLOAD)),
        };
        match message.to_vec() {
            Ok(bytes) if bytes.len() <= most => bytes,
            _ => message.truncate().to_vec().unwrap_or_default(),
        }
    }

    fn message(&self, answer: &Answer) -> Message {
        let mut reply = Message::response(self.id, OpCode::Query);
        reply.metadata.recursion_desired = self.recursion_desired;
        reply.metadata.checking_disabled = self.checking_disabled;
        reply.metadata.recursion_available = true;
        reply.add_query(self.query.clone());
        let owner = self.query.name().clone();
        let mut told = None;
        match answer {
            Answer::Address(address) => {
                let data = RData::A(A(*address));
                reply.add_answer(Record::from_rdata(owner, synthetic::TTL, data));
            }
            Answer::Pointer(name) => {
                if let Ok(name) = Name::from_ascii(format!("{name}.")) {
                    let data = RData::PTR(PTR(name));
                    reply.add_answer(Record::from_rdata(owner, synthetic::TTL, data));
                }
            }
            Answer::Empty => {
                reply.add_authority(start_of_authority(synthetic::TTL));
            }
            Answer::Denied(reason) => {
                reply.metadata.response_code = ResponseCode::NXDomain;
                reply.add_authority(start_of_authority(DENIED_TTL));
                told = Some(*reason);
            }
            Answer::Refused => reply.metadata.response_code = ResponseCode::Refused,
            Answer::Failed(reason) => {
                reply.metadata.response_code = ResponseCode::ServFail;
                told = Some(*reason);
            }
        }
        if self.payload.is_some() {
            let mut edns = own_edns();
            if let Some(reason) = told {
                edns.options_mut().insert(extended_error(reason));
            }
            reply.set_edns(edns);
        }
        reply
    }
}

/// How an answer travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In one datagram.
    Udp,
    /// Behind a length.
    Tcp,
}

/// RFC 8914 §2: INFO-CODE and EXTRA-TEXT; the text is the reason's stable word.
fn extended_error(reason: DenyReason) -> EdnsOption {
    let mut data = reason.extended_dns_error().to_be_bytes().to_vec();
    data.extend(reason.as_str().as_bytes());
    EdnsOption::Unknown(EXTENDED_DNS_ERROR, data)
}

/// RFC 2308 §3: says how long a negative answer may be cached. Owned by the root, which is above
/// every name, so that nothing is claimed about where a zone begins.
fn start_of_authority(negative_ttl: u32) -> Record {
    let soa = SOA::new(
        Name::root(),
        Name::root(),
        1,
        3600,
        600,
        86400,
        negative_ttl,
    );
    Record::from_rdata(Name::root(), negative_ttl, RData::SOA(soa))
}

fn own_edns() -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(PAYLOAD);
    edns
}

/// DNS Flag Day 2020: fits every path without fragments.
const PAYLOAD: u16 = 1232;
/// A denied name may be allowed any moment, and the program then wants to know soon.
const DENIED_TTL: u32 = 5;
/// RFC 8914 §5.1.
const EXTENDED_DNS_ERROR: u16 = 15;

#[cfg(test)]
mod tests;
