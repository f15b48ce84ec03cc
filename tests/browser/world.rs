//! What sandboxes of these tests reach instead of the Internet: this machine's own HTTP proxy, which
//! answers for every name itself and remembers what it was asked.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// The other side.
pub struct World {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("its address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = Arc::clone(&heard);
                thread::spawn(move || answer(&stream, &heard));
            }
        });
        Self { address, asked }
    }

    /// Method and path of each request, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("what was asked").clone()
    }
}

/// A tunnel is granted; every request inside is answered.
fn answer(mut stream: &TcpStream, heard: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        for _rest in lines.by_ref().take_while(|line| !line.is_empty()) {}
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let reply = if method == "CONNECT" {
            "HTTP/1.1 200 OK\r\n\r\n"
        } else {
            let mut heard = heard.lock().expect("what was asked");
            heard.push(format!("{method} {path}"));
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
        };
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}
