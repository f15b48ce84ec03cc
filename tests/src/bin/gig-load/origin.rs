//! An origin that answers every request at once, without TLS, on a thread of its own.

use std::sync::mpsc::channel;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Its port; it ends with the program.
pub(crate) fn start() -> u16 {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
            let port = listener.local_addr().expect("its address").port();
            tell.send(port).expect("who asks");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream));
            }
        });
    });
    told.recv().expect("a port")
}

async fn converse(mut stream: TcpStream) {
    let mut read = Vec::with_capacity(4096);
    loop {
        while let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            read.drain(..end + 4);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        match stream.read_buf(&mut read).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
