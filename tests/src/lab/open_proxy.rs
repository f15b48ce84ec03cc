//! The counter-example: a proxy that asks nothing and lets everything through.
//!
//! Explicit proxy (CONNECT and absolute form) for the open subject, on the host side. Promises
//! nothing; that is what it is for.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use super::resolver::Resolver;

/// What a client finds its trusted roots by.
pub const TRUST_VARIABLES: [&str; 11] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

/// Connects from the host side.
pub type Dial = Arc<dyn Fn(SocketAddr) -> io::Result<TcpStream> + Send + Sync>;

/// Serves until the process ends.
pub fn start(listener: TcpListener, resolver: Resolver, dial: Dial) {
    each(listener, move |stream| serve(stream, &resolver, &dial));
}

/// Serves those who know the word, in base64 as `Proxy-Authorization` has it, and answers as proxies
/// do: 407 to others, 503 where it does not get to.
pub fn start_asking(listener: TcpListener, resolver: Resolver, dial: Dial, word: &'static str) {
    each(listener, move |mut stream| {
        let mut head = vec![0; 16 * 1024];
        let length = loop {
            let length = stream.peek(&mut head)?;
            if length == 0 || head[..length].windows(4).any(|end| end == b"\r\n\r\n") {
                break length;
            }
        };
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        let credentials = format!("\r\nProxy-Authorization: Basic {word}\r\n");
        if !head.contains(&credentials) {
            return stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        }
        let answer = stream.try_clone()?;
        let refusing: Dial = {
            let dial = Arc::clone(&dial);
            Arc::new(move |at| {
                dial(at).inspect_err(|_| {
                    // A client that is gone misses nothing.
                    let refusal = b"HTTP/1.1 503 Service Unavailable\r\n\r\n";
                    (&answer).write_all(refusal).ok();
                })
            })
        };
        serve(stream, &resolver, &refusing)
    });
}

fn each(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
) {
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
}

fn serve(client: TcpStream, resolver: &Resolver, dial: &Dial) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let connect = method == "CONNECT";
    let authority = target.strip_prefix("http://").unwrap_or(target);
    let (authority, path) = authority.split_once('/').unwrap_or((authority, ""));
    let address = locate(authority, if connect { 443 } else { 80 }, resolver)?;
    let mut origin = dial(address)?;
    let mut client = client;
    if connect {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    } else {
        origin.write_all(head.replacen(target, &format!("/{path}"), 1).as_bytes())?;
    }
    origin.write_all(reader.buffer())?;
    let (mut down, mut up) = (client.try_clone()?, origin.try_clone()?);
    thread::spawn(move || {
        let _broken = copy(&mut down, &mut up);
        up.shutdown(std::net::Shutdown::Write)
    });
    copy(&mut origin, &mut client)?;
    client.shutdown(std::net::Shutdown::Write)
}

fn copy(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length])?,
        }
    }
}

fn locate(authority: &str, port: u16, resolver: &Resolver) -> io::Result<SocketAddr> {
    if let Ok(address) = authority.parse() {
        return Ok(address);
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, text)) => (host, text.parse().map_err(io::Error::other)?),
        None => (authority, port),
    };
    let address = host
        .parse::<IpAddr>()
        .ok()
        .or_else(|| resolver.address_of(host));
    let address = address.ok_or_else(|| io::Error::other("no such name"))?;
    Ok(SocketAddr::new(address, port))
}
