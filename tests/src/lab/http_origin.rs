//! An HTTP/1.1 origin whose every octet a test decides.
//!
//! For what a real server does not do on command: slow events, trailers, interim answers, refused
//! upgrades. Promises: requests are kept as they were sent. Real servers (nginx, grpcio…) stand
//! beside it; this one proves no compatibility.

use std::{
    io::{self, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use rustls::ServerConfig;

use super::raw_origin::{Conversation, RawOrigin};

/// One request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The method token.
    pub method: String,
    /// The target, as sent.
    pub target: String,
    /// Header fields in order, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body: the first mebibyte.
    pub body: Vec<u8>,
    /// How long the body was.
    pub body_octets: u64,
    /// Trailer fields.
    pub trailers: Vec<(String, String)>,
}

impl Request {
    /// A field's value.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Reads requests off a conversation and sends what the handler wants.
#[derive(Debug)]
pub struct Exchange<'a> {
    conversation: &'a mut Conversation,
    buffer: Vec<u8>,
}

impl Exchange<'_> {
    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.conversation.write_all(bytes.as_ref())?;
        self.conversation.flush()
    }

    /// A whole answer with a text body.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn answer(&mut self, status: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        self.send(format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    /// The connection underneath, with what was read ahead lost to it.
    pub const fn raw(&mut self) -> &mut Conversation {
        self.conversation
    }

    /// Reads the rest of a request's body into it. Handlers call this when they are ready for it.
    ///
    /// # Errors
    /// When the body is malformed or the connection breaks.
    pub fn body(&mut self, request: &mut Request) -> io::Result<()> {
        if request.field("transfer-encoding").is_some() {
            return self.chunks(request);
        }
        let length = request
            .field("content-length")
            .and_then(|text| text.parse().ok());
        self.take(length.unwrap_or(0), request)
    }

    fn chunks(&mut self, request: &mut Request) -> io::Result<()> {
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                break;
            }
            self.take(size, request)?;
            self.line()?;
        }
        request.trailers = self.field_lines()?;
        Ok(())
    }

    fn head(&mut self) -> io::Result<Option<Request>> {
        if self.buffer.is_empty() {
            match self.fill() {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                filled => filled?,
            }
        }
        // As servers do who are greeted in TLS where they speak none.
        if self.buffer.first() == Some(&TLS_HANDSHAKE) {
            self.answer("400 Bad Request", "no TLS here\n")?;
            return Ok(None);
        }
        let line = match self.line() {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            line => line?,
        };
        let mut words = line.split(' ').map(str::to_owned);
        let method = words.next().unwrap_or_default();
        let target = words.next().unwrap_or_default();
        Ok(Some(Request {
            method,
            target,
            fields: self.field_lines()?,
            ..Request::default()
        }))
    }

    fn field_lines(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Ok(line);
            }
            self.fill()?;
        }
    }

    fn take(&mut self, mut length: u64, request: &mut Request) -> io::Result<()> {
        while length > 0 {
            if self.buffer.is_empty() {
                self.fill()?;
            }
            let part = usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(self.buffer.len());
            let room = (1_usize << 20).saturating_sub(request.body.len()).min(part);
            request.body.extend(&self.buffer[..room]);
            self.buffer.drain(..part);
            request.body_octets += part as u64;
            length -= part as u64;
        }
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; 256 * 1024];
        match self.conversation.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                self.buffer.extend(&chunk[..length]);
                Ok(())
            }
        }
    }
}

/// What a connection in TLS begins with.
const TLS_HANDSHAKE: u8 = 0x16;

/// A scripted origin.
#[derive(Debug, Clone)]
pub struct HttpOrigin {
    raw: RawOrigin,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl HttpOrigin {
    /// Serves on `listener`; `handle` answers each request and may read its body first.
    ///
    /// # Panics
    /// When no thread can be made.
    #[must_use]
    pub fn start(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        handle: impl Fn(&mut Request, &mut Exchange<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let kept = Arc::clone(&requests);
        let raw = RawOrigin::start(listener, tls, move |conversation| {
            let mut exchange = Exchange {
                conversation,
                buffer: Vec::new(),
            };
            while let Some(mut request) = exchange.head()? {
                let outcome = handle(&mut request, &mut exchange);
                kept.lock().expect("the report").push(request);
                outcome?;
            }
            Ok(())
        });
        Self { raw, requests }
    }

    /// What came, request by request.
    ///
    /// # Panics
    /// When a handler has panicked while a request was being noted.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("the report").clone()
    }

    /// What came, octet by octet.
    #[must_use]
    pub const fn raw(&self) -> &RawOrigin {
        &self.raw
    }
}

/// Answers `200 hello` and the body's length, whatever is asked.
///
/// # Errors
/// When the connection breaks.
pub fn greet(request: &mut Request, exchange: &mut Exchange<'_>) -> io::Result<()> {
    exchange.body(request)?;
    exchange.answer("200 OK", "hello from the origin\n")
}
