//! HTTP/1.1 as a load generator needs it: a request that is always the same, an answer that is
//! counted by its Content-Length.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::{bearer, outcome::Outcome, stream::Opener};

/// One connection with one request that is sent again and again.
pub(crate) struct Exchange {
    stream: TlsStream<TcpStream>,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

impl Exchange {
    /// Sends nothing yet.
    pub(crate) fn new(stream: TlsStream<TcpStream>, request: Vec<u8>) -> Self {
        Self {
            stream,
            request,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Sends the request and reads its whole answer.
    pub(crate) async fn once(&mut self) -> Outcome<()> {
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        let (head, length) = self.head().await?;
        while (self.buffer.len() - head) as u64 != length {
            self.more().await?;
        }
        Ok(())
    }

    /// Sends `head` and reads the head of the answer; gives the length of the body, and how much of
    /// it has come already.
    pub(crate) async fn begin(&mut self) -> Outcome<(u64, u64)> {
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        self.answer().await
    }

    /// Reads the head of the answer: length of the body, and how much of it has come already.
    pub(crate) async fn answer(&mut self) -> Outcome<(u64, u64)> {
        self.buffer.clear();
        let (head, length) = self.head().await?;
        Ok((length, (self.buffer.len() - head) as u64))
    }

    /// The connection, for bodies.
    pub(crate) fn stream(&mut self) -> &mut TlsStream<TcpStream> {
        &mut self.stream
    }

    /// Sends the request's head alone.
    pub(crate) async fn send_head(&mut self) -> Outcome<()> {
        Ok(self.stream.write_all(&self.request).await?)
    }

    async fn head(&mut self) -> Outcome<(usize, u64)> {
        loop {
            self.more().await?;
            if let Some(found) = parse(&self.buffer)? {
                return Ok(found);
            }
        }
    }

    async fn more(&mut self) -> Outcome<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the connection was closed before the answer was complete".into()),
            _ => Ok(()),
        }
    }
}

/// Length of the head and of the body, once the head is complete.
fn parse(bytes: &[u8]) -> Outcome<Option<(usize, u64)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    if head.split(' ').nth(1) != Some("200") {
        return Err(format!("the answer is not 200 OK: {head}").into());
    }
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .ok_or("the answer has no Content-Length")?;
    Ok(Some((end + 4, length.1.trim().parse()?)))
}

/// A GET of `path` on the opener's host.
pub(crate) fn request_for(opener: &Opener, path: &str) -> Vec<u8> {
    opener.request_as(opener.host(), path)
}

impl Opener {
    /// A GET of `path` on another host at the same port.
    pub(crate) fn request_as(&self, host: &str, path: &str) -> Vec<u8> {
        self.get(host, path, "")
    }

    /// A GET with a credential.
    pub(crate) fn bearing(&self) -> Vec<u8> {
        let field = format!("Authorization: Bearer {}\r\n", bearer::token());
        self.get(self.host(), bearer::PATH, &field)
    }

    fn get(&self, host: &str, path: &str, fields: &str) -> Vec<u8> {
        let port = self.port();
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: gig-bench\r\nAccept: */*\r\n{fields}\r\n"
        )
        .into_bytes()
    }
}
