//! An origin that reports exactly what it saw: connections, octets, names, nothing interpreted.
//!
//! Promises: octets are counted as they come off the wire, before TLS, so that "zero" means zero; the
//! report is complete as soon as the peer's connection is closed. What is answered is up to the
//! conversation that a test hands in.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What one connection brought.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Who connected.
    pub peer: Option<IpAddr>,
    /// Octets off the wire, TLS records included.
    pub wire_octets: u64,
    /// The application's octets: the first mebibyte of them.
    pub received: Vec<u8>,
    /// How many of the application's octets there were.
    pub received_octets: u64,
    /// The name in the ClientHello.
    pub sni: Option<String>,
    /// The application protocol that was agreed on.
    pub alpn: Option<String>,
    /// Whether the TLS handshake, where there is one, came to its end.
    pub established: bool,
    /// Whether the connection has ended.
    pub closed: bool,
}

impl Seen {
    /// The application's octets as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }
}

/// A listening origin; it stops accepting when the process ends.
#[derive(Debug, Clone)]
pub struct RawOrigin {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl RawOrigin {
    /// Accepts on `listener`; each connection is handed to `converse` on a thread of its own.
    ///
    /// # Panics
    /// When no thread can be made.
    #[must_use]
    pub fn start(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        converse: impl Fn(&mut Conversation) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("its address");
        let origin = Self {
            address,
            seen: Arc::default(),
        };
        let (seen, converse) = (Arc::clone(&origin.seen), Arc::new(converse));
        let accept = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, converse, tls) = (Arc::clone(&seen), Arc::clone(&converse), tls.clone());
                thread::spawn(move || hold(stream, &seen, tls, &*converse));
            }
        };
        thread::Builder::new()
            .name("origin".into())
            .spawn(accept)
            .expect("a thread");
        origin
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything seen so far, one entry a connection.
    ///
    /// # Panics
    /// When a conversation has panicked while it was being noted.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("the report").clone()
    }

    /// The same, when every connection has come to its end at the origin, too, or ten seconds are over.
    ///
    /// # Panics
    /// As [`Self::seen`].
    #[must_use]
    pub fn heard_out(&self) -> Vec<Seen> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let seen = self.seen();
            if seen.iter().all(|seen| seen.closed) || Instant::now() > until {
                return seen;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Octets off the wire, over all connections.
    #[must_use]
    pub fn wire_octets(&self) -> u64 {
        self.seen().iter().map(|seen| seen.wire_octets).sum()
    }

    /// The application's octets of all connections, as text.
    #[must_use]
    pub fn text(&self) -> String {
        self.seen().iter().map(Seen::text).collect()
    }
}

/// One connection, as the origin's side speaks it; reading and writing are the application's.
pub struct Conversation {
    stream: Stream,
    note: Note,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").finish_non_exhaustive()
    }
}

impl Conversation {
    /// The application protocol that was agreed on.
    #[must_use]
    pub fn alpn(&self) -> Option<String> {
        self.note.with(|seen| seen.alpn.clone())
    }

    /// Reads until the peer ends its side; what came is in the report.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn drain(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }

    /// Ends our side, leaving the other open.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(wire) => wire.stream.shutdown(std::net::Shutdown::Write),
            Stream::Tls(tls) => {
                tls.conn.send_close_notify();
                tls.flush()
            }
        }
    }

    /// How long a read may wait from now on.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn patience(&self, wait: Duration) -> io::Result<()> {
        let wire = match &self.stream {
            Stream::Plain(wire) => wire,
            Stream::Tls(tls) => &tls.sock,
        };
        wire.stream.set_read_timeout(Some(wait))
    }
}

impl Read for Conversation {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &mut self.stream {
            Stream::Plain(wire) => wire.read(buffer)?,
            Stream::Tls(tls) => match tls.read(buffer) {
                // No close_notify: an end all the same, as far as an origin is concerned.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => 0,
                other => other?,
            },
        };
        self.note.with(|seen| {
            seen.received_octets += length as u64;
            let room = KEPT.saturating_sub(seen.received.len());
            seen.received.extend(&buffer[..length.min(room)]);
        });
        Ok(length)
    }
}

impl Write for Conversation {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(wire) => wire.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(wire) => wire.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}

enum Stream {
    Plain(Wire),
    Tls(Box<StreamOwned<ServerConnection, Wire>>),
}

/// The socket, counting.
struct Wire {
    stream: TcpStream,
    note: Note,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(buffer)?;
        self.note.with(|seen| seen.wire_octets += length as u64);
        Ok(length)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A connection's line in the report.
#[derive(Clone)]
struct Note {
    all: Arc<Mutex<Vec<Seen>>>,
    index: usize,
}

impl Note {
    fn with<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let mut all = self.all.lock().expect("the report");
        change(&mut all[self.index])
    }
}

fn hold(
    stream: TcpStream,
    all: &Arc<Mutex<Vec<Seen>>>,
    tls: Option<Arc<ServerConfig>>,
    converse: &(dyn Fn(&mut Conversation) -> io::Result<()> + Send + Sync),
) {
    let peer = stream.peer_addr().ok().map(|peer| peer.ip());
    let index = {
        let mut all = all.lock().expect("the report");
        all.push(Seen {
            peer,
            ..Seen::default()
        });
        all.len() - 1
    };
    let note = Note {
        all: Arc::clone(all),
        index,
    };
    // A broken connection is in the report; the test judges it there.
    let _broken = open(stream, tls, &note).and_then(|mut conversation| converse(&mut conversation));
    note.with(|seen| seen.closed = true);
}

fn open(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    note: &Note,
) -> io::Result<Conversation> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let wire = Wire {
        stream,
        note: note.clone(),
    };
    let Some(config) = tls else {
        note.with(|seen| seen.established = true);
        return Ok(Conversation {
            stream: Stream::Plain(wire),
            note: note.clone(),
        });
    };
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut tls = StreamOwned::new(connection, wire);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    note.with(|seen| {
        seen.sni = tls.conn.server_name().map(str::to_owned);
        seen.alpn = tls
            .conn
            .alpn_protocol()
            .map(|name| String::from_utf8_lossy(name).into());
        seen.established = true;
    });
    Ok(Conversation {
        stream: Stream::Tls(Box::new(tls)),
        note: note.clone(),
    })
}

const KEPT: usize = 1 << 20;
