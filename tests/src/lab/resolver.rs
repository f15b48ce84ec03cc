//! The Internet's name server: answers what a test planned and remembers what was asked.
//!
//! Promises: every question is counted, also those it has no answer for; an answer may change from
//! one question to the next (rebinding), has a TTL of zero, and may hold anything a hostile zone
//! would hold. Leaves to others: caching, recursion, DNSSEC.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, Mutex},
    thread,
};

/// One record in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A or AAAA.
    Address(IpAddr),
    /// CNAME to another planned name, whose records follow in the same answer.
    Alias(String),
}

/// The server; its thread ends with the process.
#[derive(Debug, Clone)]
pub struct Resolver {
    shared: Arc<Mutex<Zone>>,
}

#[derive(Debug, Default)]
struct Zone {
    /// The answers of a name in turn; the last one stays.
    names: HashMap<String, Vec<Vec<Data>>>,
    asked: Vec<(String, u16)>,
}

impl Resolver {
    /// Answers on `socket` from now on.
    ///
    /// # Panics
    /// When no thread can be made.
    #[must_use]
    pub fn start(socket: UdpSocket) -> Self {
        let resolver = Self {
            shared: Arc::default(),
        };
        let serving = resolver.clone();
        thread::Builder::new()
            .name("resolver".into())
            .spawn(move || serving.serve(&socket))
            .expect("a thread");
        resolver
    }

    /// From now on `name` has these addresses.
    pub fn set(&self, name: &str, addresses: &[IpAddr]) {
        self.plan(
            name,
            vec![addresses.iter().copied().map(Data::Address).collect()],
        );
    }

    /// From now on `name` has these answers in turn; the last one stays.
    ///
    /// # Panics
    /// When a serving thread has panicked.
    pub fn plan(&self, name: &str, answers: Vec<Vec<Data>>) {
        let mut zone = self.shared.lock().expect("the zone");
        zone.names.insert(name.to_ascii_lowercase(), answers);
    }

    /// The address that a plain look-up would find now, without counting as a question.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<IpAddr> {
        let zone = self.shared.lock().ok()?;
        let answer = zone.names.get(&name.to_ascii_lowercase())?.first()?;
        answer.iter().find_map(|data| match data {
            Data::Address(address) => Some(*address),
            Data::Alias(_) => None,
        })
    }

    /// Every name asked for so far, in order, with its query type.
    ///
    /// # Panics
    /// When a serving thread has panicked.
    #[must_use]
    pub fn asked(&self) -> Vec<(String, u16)> {
        self.shared.lock().expect("the zone").asked.clone()
    }

    fn serve(&self, socket: &UdpSocket) {
        let mut buffer = [0_u8; 4096];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            if let Some(answer) = self.answer(&buffer[..length]) {
                let _peer_gone: Result<usize, _> = socket.send_to(&answer, peer as SocketAddr);
            }
        }
    }

    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, end) = read_name(query)?;
        let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
        let question = query.get(12..end + 4)?;
        let mut zone = self.shared.lock().ok()?;
        zone.asked.push((name.clone(), kind));
        let mut records = Vec::new();
        let known = zone.collect(&name, kind, &mut records);
        let code = if known { 0 } else { 3 };
        let count = u16::try_from(records.len()).ok()?;
        let mut answer = query.get(..2)?.to_vec();
        answer.extend([0x81, 0x80 | code, 0, 1]);
        answer.extend(count.to_be_bytes());
        answer.extend([0; 4]);
        answer.extend(question);
        answer.extend(records.concat());
        Some(answer)
    }
}

impl Zone {
    fn collect(&mut self, name: &str, kind: u16, records: &mut Vec<Vec<u8>>) -> bool {
        let Some(answers) = self.names.get_mut(name) else {
            return false;
        };
        let answer = match answers.len() {
            0 => return true,
            1 => answers[0].clone(),
            // A client asks for A and AAAA; only the question that has an answer uses it up.
            _ if kind == 1 => answers.remove(0),
            _ => answers[0].clone(),
        };
        for data in answer {
            match data {
                Data::Address(IpAddr::V4(a)) if kind == 1 => {
                    records.push(record(name, 1, &a.octets()));
                }
                Data::Address(IpAddr::V6(a)) if kind == 28 => {
                    records.push(record(name, 28, &a.octets()));
                }
                Data::Address(_) => {}
                Data::Alias(target) => {
                    records.push(record(name, 5, &encode_name(&target)));
                    self.collect(&target, kind, records);
                }
            }
        }
        true
    }
}

fn record(name: &str, kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("short data");
    let mut bytes = encode_name(name);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 0, 0]);
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}

fn encode_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.trim_end_matches('.').split('.') {
        bytes.push(u8::try_from(label.len()).expect("a short label"));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn read_name(message: &[u8]) -> Option<(String, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join(".").to_ascii_lowercase(), at));
        }
        labels.push(String::from_utf8_lossy(message.get(at..at + length)?).into_owned());
        at += length;
    }
}
