//! Against the hosts file and against a name server of the test's own.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::{
    op::{Message, OpCode, ResponseCode},
    rr::{
        RData, Record,
        rdata::{A, AAAA},
    },
};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig};
use tokio::net::UdpSocket;

use super::*;

/// What the server does with questions for one family.
#[derive(Clone, Copy)]
enum Does {
    Answer(u32),
    Nothing,
    NoSuchName,
    Silence,
}

/// Answers until dropped; resolves through it.
async fn served(four: Does, six: Does) -> (Resolver, impl Future<Output = ()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    let server = async move {
        let mut buffer = [0; 2048];
        let mut asked: u8 = 0;
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let query = Message::from_vec(&buffer[..length]).unwrap();
            asked += 1;
            if let Some(reply) = reply(&query, (four, six), asked) {
                socket
                    .send_to(&reply.to_vec().unwrap(), from)
                    .await
                    .unwrap();
            }
        }
    };
    (through(at), server)
}

fn through(at: SocketAddr) -> Resolver {
    let mut connection = ConnectionConfig::udp();
    connection.port = at.port();
    let server = NameServerConfig::new(at.ip(), true, vec![connection]);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let mut options = ResolverOpts::default();
    options.attempts = 1;
    let deadline = Duration::from_secs(2);
    Resolver {
        deadline,
        current: Mutex::new(Current::with(config, options, deadline)),
    }
}

/// The last octet of an address counts the questions, so that a second look-up differs.
fn reply(query: &Message, (four, six): (Does, Does), asked: u8) -> Option<Message> {
    let question = &query.queries[0];
    let mut reply = Message::response(query.metadata.id, OpCode::Query);
    reply.add_query(question.clone());
    let (does, data) = match question.query_type() {
        RecordType::A => (four, RData::A(A(Ipv4Addr::new(192, 0, 2, asked)))),
        _ => (
            six,
            RData::AAAA(AAAA(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
        ),
    };
    match does {
        Does::Answer(ttl) => {
            reply.add_answer(Record::from_rdata(question.name().clone(), ttl, data));
        }
        Does::Nothing => {}
        Does::NoSuchName => reply.metadata.response_code = ResponseCode::NXDomain,
        Does::Silence => return None,
    }
    Some(reply)
}

async fn look_up(four: Does, six: Does) -> Result<Vec<IpAddr>, DenyReason> {
    let (resolver, server) = served(four, six).await;
    let name = Fqdn::parse("a.example").unwrap();
    tokio::select! {
        found = resolver.addresses(&name) => found.map_err(|error| error.reason),
        () = server => unreachable!("serves for ever"),
    }
}

#[tokio::test]
async fn both_families_are_found() {
    let found = look_up(Does::Answer(60), Does::Answer(60)).await.unwrap();
    assert_eq!(found.iter().filter(|ip| ip.is_ipv4()).count(), 1);
    assert_eq!(found.iter().filter(|ip| ip.is_ipv6()).count(), 1);
    assert_eq!(
        look_up(Does::Answer(60), Does::Nothing)
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        look_up(Does::Nothing, Does::Answer(60))
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_server_that_is_silent_about_six_is_not_waited_for() {
    let started = Duration::from_millis(1500);
    let found = timeout(started, look_up(Does::Answer(60), Does::Silence)).await;
    assert_eq!(found.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn names_without_address_and_silent_servers_are_told_apart() {
    let none = look_up(Does::NoSuchName, Does::NoSuchName).await;
    assert_eq!(none, Err(DenyReason::NameNotResolved));
    assert_eq!(
        look_up(Does::Nothing, Does::Nothing).await,
        Err(DenyReason::NameNotResolved)
    );
    assert_eq!(
        look_up(Does::Silence, Does::Silence).await,
        Err(DenyReason::ResolverTimeout)
    );
}

#[tokio::test]
async fn an_answer_is_kept_for_its_time_to_live_and_no_longer() {
    for (ttl, same) in [(60, true), (0, false)] {
        let (resolver, server) = served(Does::Answer(ttl), Does::Nothing).await;
        let name = Fqdn::parse("a.example").unwrap();
        let twice = async {
            let first = resolver.addresses(&name).await.unwrap();
            (first, resolver.addresses(&name).await.unwrap())
        };
        tokio::select! {
            (first, second) = twice => assert_eq!(first == second, same, "TTL {ttl}"),
            () = server => unreachable!("serves for ever"),
        }
    }
}

#[tokio::test]
async fn the_hosts_file_counts() {
    let resolver = Resolver::new(Duration::from_secs(3));
    let name = Fqdn::parse("localhost").unwrap();
    let addresses = resolver.addresses(&name).await.unwrap();
    assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
}
