//! Nobody holds the door for others.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{door::UNREAD_WITHIN, *};
use crate::app::tests::Lab;

#[test]
fn one_network_has_some_of_the_places_and_gives_them_back() {
    let front: IpAddr = "192.0.2.200".parse().unwrap();
    let lab = Lab::behind(Some("https://gig.example"), &[front]);
    let crowds = Crowds::new(&lab.app);
    let from = |text: &str| Peer::Network((text.parse::<IpAddr>().unwrap(), 1).into());
    let mut here: Vec<_> = (0..MOST_OF_ONE)
        .map(|_| crowds.enter(&from("192.0.2.1")).unwrap())
        .collect();
    assert!(crowds.enter(&from("192.0.2.1")).is_err());
    assert!(crowds.enter(&from("::ffff:192.0.2.1")).is_err());
    assert!(crowds.enter(&from("192.0.2.2")).unwrap().is_some());
    drop(here.pop());
    here.push(crowds.enter(&from("192.0.2.1")).unwrap());
    let neighbours: Vec<_> = (0..MOST_OF_ONE)
        .map(|n| crowds.enter(&from(&format!("2001:db8::{n:x}"))).unwrap())
        .collect();
    assert!(crowds.enter(&from("2001:db8::ffff")).is_err());
    drop((here, neighbours));
    assert!(crowds.counts.is_empty());
    for free in ["127.0.0.1", "::1", "192.0.2.200"] {
        for _ in 0..=MOST_OF_ONE {
            assert!(crowds.enter(&from(free)).unwrap().is_none(), "{free}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_connection_lives_for_ever() {
    let (client, server) = tokio::io::duplex(1024);
    let router = Router::new().route("/", axum::routing::get(async || "here"));
    let peer = Peer::Unknown;
    let server: Box<dyn Stream> = Box::new(server);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .serve_connection(
            TokioIo::new(server),
            TowerToHyperService::new(Named { router, peer }),
        )
        .with_upgrades();
    let living = live(connection, CancellationToken::new());
    let lives = tokio::time::timeout(2 * LIFE, living);
    let (mut reading, mut writing) = tokio::io::split(client);
    let asks = async {
        writing
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        // Until it is closed, which nobody asked for.
        reading.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let (lived, answer) = tokio::join!(lives, asks);
    assert!(lived.is_ok(), "it ended by itself");
    assert!(String::from_utf8(answer).unwrap().ends_with("here"));
}

#[tokio::test]
async fn who_reads_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test is the peer")]
    let client = TcpStream::connect(address);
    let (client, accepted) = tokio::join!(client, Listener::accept_tcp(&listener));
    assert!(client.is_ok());
    let kept = rustix::net::sockopt::tcp_user_timeout(&accepted.unwrap().0).unwrap();
    assert_eq!(kept, UNREAD_WITHIN);
}
