//! A plain CONNECT tunnel: the least that any proxy can cost. It opens no TLS, decides nothing and
//! records nothing; every name leads to the bench's origin.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional_with_sizes},
    net::{TcpListener, TcpStream},
};

use crate::outcome::{Outcome, doing};

/// Serves until killed.
pub(crate) async fn serve(port: u16) -> Outcome<()> {
    let listener = doing(TcpListener::bind(("127.0.0.1", port)).await, || {
        "bind the tunnel".into()
    })?;
    accept(listener).await
}

/// Serves a socket that was made elsewhere until killed.
pub(crate) async fn serve_on(listener: std::net::TcpListener) -> Outcome<()> {
    listener.set_nonblocking(true)?;
    accept(TcpListener::from_std(listener)?).await
}

async fn accept(listener: TcpListener) -> Outcome<()> {
    loop {
        let (client, _) = listener.accept().await?;
        // Connections end with the process, which the bench kills.
        tokio::spawn(async move { tunnel(client).await });
    }
}

async fn tunnel(mut client: TcpStream) -> Outcome<()> {
    client.set_nodelay(true)?;
    let mut head = Vec::with_capacity(512);
    while !head.ends_with(b"\r\n\r\n") {
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let text = String::from_utf8_lossy(&head);
    let port = text
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next())
        .and_then(|authority| authority.rsplit(':').next())
        .ok_or("not a CONNECT")?
        .parse::<u16>()?;
    let mut origin = TcpStream::connect(("127.0.0.1", port)).await?;
    origin.set_nodelay(true)?;
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await?;
    copy_bidirectional_with_sizes(&mut client, &mut origin, BUFFER, BUFFER).await?;
    Ok(())
}

/// Per direction. Large enough that bulk costs no more system calls than through its rivals.
const BUFFER: usize = 64 * 1024;
