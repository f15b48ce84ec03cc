//! The server on real sockets of the loopback interface, with one sandbox bound to 127.0.0.1.

use gig_audit::{MemoryLog, Recorder};
use gig_policy::Policy;
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::Name;

use super::*;

struct One(Option<Arc<Subject>>);

impl Identity for One {
    fn subject(&self, _source: Ipv4Addr) -> Option<Arc<Subject>> {
        self.0.clone()
    }
}

struct Running {
    udp: SocketAddr,
    tcp: SocketAddr,
    log: MemoryLog,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
    subject: Arc<Subject>,
}

/// As the hub hands them over.
fn sockets() -> (std::net::UdpSocket, std::net::TcpListener) {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    (udp, tcp)
}

fn start(known: bool) -> Running {
    let subject = Subject::new(
        SandboxId::new(uuid::Uuid::nil()),
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::LOCALHOST,
        Policy::deny_all("none"),
    );
    let (udp, tcp) = sockets();
    let (udp_at, tcp_at) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let (recorder, log) = Recorder::in_memory();
    let stop = CancellationToken::new();
    let identity = Arc::new(One(known.then(|| Arc::clone(&subject))));
    let server = Server::open(
        (udp, tcp),
        identity,
        (recorder.into(), Descriptors::of_process()),
        stop.clone(),
    )
    .unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test owns and awaits it")]
    let served = tokio::spawn(server.serve());
    Running {
        udp: udp_at,
        tcp: tcp_at,
        log,
        stop,
        served,
        subject,
    }
}

impl Running {
    async fn end(self) {
        self.stop.cancel();
        self.served.await.unwrap();
    }
}

fn query(name: &str, query_type: RecordType) -> Vec<u8> {
    let mut message = Message::new(5, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), query_type));
    message.to_vec().unwrap()
}

async fn ask(server: SocketAddr, bytes: &[u8]) -> Option<Message> {
    ask_within(Duration::from_secs(60), server, bytes).await
}

async fn ask_within(patience: Duration, server: SocketAddr, bytes: &[u8]) -> Option<Message> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(bytes, server).await.unwrap();
    let mut buffer = [0; 4096];
    let received = timeout(patience, socket.recv(&mut buffer)).await;
    let length = received.ok()?.unwrap();
    Some(Message::from_vec(&buffer[..length]).unwrap())
}

#[tokio::test]
async fn a_denied_name_does_not_exist_and_is_recorded() {
    let server = start(true);
    let reply = ask(server.udp, &query("evil.example.", RecordType::A))
        .await
        .unwrap();
    assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
    let records = server.log.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].entry.reason, Some(DenyReason::HostNotAllowed));
    assert_eq!(records[0].entry.method.as_deref(), Some("A"));
    server.end().await;
}

#[tokio::test]
async fn nobodys_questions_are_not_answered() {
    let server = start(false);
    let question = query("a.example.", RecordType::A);
    let answer = ask_within(Duration::from_millis(500), server.udp, &question).await;
    assert!(answer.is_none());
    assert!(server.log.records().is_empty());
    server.end().await;
}

#[tokio::test]
async fn localhost_and_stand_ins_are_answered_without_policy() {
    let server = start(true);
    let reply = ask(server.udp, &query("LocalHost.", RecordType::A))
        .await
        .unwrap();
    assert_eq!(reply.answers.len(), 1);
    let name = Fqdn::parse("a.example").unwrap();
    let [a, b, c, d] = server
        .subject
        .synthetic()
        .address_of(&name)
        .unwrap()
        .octets();
    let reverse = format!("{d}.{c}.{b}.{a}.in-addr.arpa.");
    let reply = ask(server.udp, &query(&reverse, RecordType::PTR))
        .await
        .unwrap();
    assert_eq!(reply.answers[0].data.to_string(), "a.example.");
    assert!(server.log.records().is_empty());
    server.end().await;
}

#[tokio::test]
async fn odd_kinds_are_refused_and_recorded() {
    let server = start(true);
    let reply = ask(server.udp, &query("a.example.", RecordType::ANY))
        .await
        .unwrap();
    assert_eq!(reply.metadata.response_code, ResponseCode::Refused);
    let reply = ask(server.udp, &query("a\\.b.example.", RecordType::TXT))
        .await
        .unwrap();
    assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
    let reasons: Vec<_> = server
        .log
        .records()
        .iter()
        .map(|r| r.entry.reason)
        .collect();
    let expected = [DenyReason::UnsupportedProtocol, DenyReason::MalformedName];
    assert_eq!(reasons, expected.map(Some));
    server.end().await;
}

#[tokio::test]
async fn what_cannot_be_answered_at_all_is_recorded_with_what_is_wrong_with_it() {
    let server = start(true);
    let mut update = Message::new(5, MessageType::Query, OpCode::Update);
    update.add_query(Query::query(
        Name::from_ascii("zone.example.").unwrap(),
        RecordType::SOA,
    ));
    let mut two = Message::from_vec(&query("a.example.", RecordType::A)).unwrap();
    two.add_query(two.queries[0].clone());
    let mut newer = Message::from_vec(&query("b.example.", RecordType::Unknown(65280))).unwrap();
    let mut edns = hickory_proto::op::Edns::new();
    edns.set_version(1);
    newer.set_edns(edns);
    let cut = query("c.example.", RecordType::A)[..20].to_vec();
    let asked = [&update, &two, &newer].map(|message| message.to_vec().unwrap());
    for bytes in asked.iter().chain([&cut]) {
        assert!(ask(server.udp, bytes).await.is_some());
    }
    let records = server.log.records();
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            let entry = &record.entry;
            let why = gig_audit::why_of(&entry.findings).unwrap();
            let words = (entry.host.as_deref(), entry.method.as_deref());
            (words, entry.reason.unwrap(), why)
        })
        .collect();
    let (malformed, unsupported) = (
        DenyReason::MalformedRequest,
        DenyReason::UnsupportedProtocol,
    );
    let of = |name, kind| (Some(name), Some(kind));
    assert_eq!(
        told,
        [
            (
                of("zone.example", "SOA"),
                unsupported,
                "its opcode is not QUERY: updates and notices go to no server"
            ),
            (
                of("a.example", "A"),
                malformed,
                "it does not hold one question"
            ),
            (
                of("b.example", "TYPE65280"),
                unsupported,
                "its version of EDNS is not 0"
            ),
            (
                (None, None),
                malformed,
                "it is no DNS message that can be read"
            ),
        ]
    );
    server.end().await;
}

#[tokio::test]
async fn several_questions_go_over_one_connection() {
    let server = start(true);
    #[expect(clippy::disallowed_methods, reason = "a test on loopback")]
    let std = std::net::TcpStream::connect(server.tcp).unwrap();
    std.set_nonblocking(true).unwrap();
    let mut stream = TcpStream::from_std(std).unwrap();
    for name in ["a.example.", "b.example."] {
        let bytes = query(name, RecordType::A);
        stream
            .write_u16(u16::try_from(bytes.len()).unwrap())
            .await
            .unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut reply = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut reply).await.unwrap();
        let reply = Message::from_vec(&reply).unwrap();
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
    }
    assert_eq!(server.subject.connections(), 1);
    server.subject.close().await;
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    server.end().await;
}

#[tokio::test]
async fn a_flood_is_dropped_and_counted() {
    let server = start(true);
    while server.subject.budget().name().is_some() {}
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for i in 0..100 {
        let bytes = query(&format!("n{i}.example."), RecordType::A);
        socket.send_to(&bytes, server.udp).await.unwrap();
    }
    sleep(Duration::from_millis(200)).await;
    let log = server.log.clone();
    server.end().await;
    let records = log.records();
    assert!(records.len() < 90, "{} records", records.len());
    let dropped = records
        .iter()
        .find(|r| r.entry.reason == Some(DenyReason::RequestRate));
    assert!(dropped.unwrap().entry.findings[0].starts_with("dropped:"));
}

#[tokio::test]
async fn a_name_asked_for_again_and_again_is_always_answered() {
    let server = start(true);
    let policy = gig_policy::PolicyBuilder::new("p").allow("a.example");
    server.subject.set_policy(policy.unwrap().build().unwrap());
    let first = query("a.example.", RecordType::A);
    // More than may be recorded at once, in less time than it takes to earn as many.
    for _ in 0..3_000 {
        let reply = ask(server.udp, &first).await.unwrap();
        assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    }
    let log = server.log.clone();
    server.end().await;
    let reasons = log.records().into_iter().map(|record| record.entry.reason);
    assert!(reasons.flatten().next().is_none(), "nothing was dropped");
}

#[tokio::test]
async fn without_a_record_there_is_no_answer_but_failure() {
    let server = start(true);
    server.log.fail(true);
    let reply = ask(server.udp, &query("a.example.", RecordType::A))
        .await
        .unwrap();
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
    server.end().await;
}

#[tokio::test]
async fn an_allowed_name_gets_a_stand_in_and_nothing_else() {
    let server = start(true);
    let policy = gig_policy::PolicyBuilder::new("p")
        .allow("*.example.com")
        .unwrap();
    server.subject.set_policy(policy.build().unwrap());
    let reply = ask(server.udp, &query("API.example.com.", RecordType::A))
        .await
        .unwrap();
    let again = ask(server.udp, &query("api.example.com.", RecordType::A))
        .await
        .unwrap();
    assert_eq!(reply.answers[0].data, again.answers[0].data);
    let address: Ipv4Addr = reply.answers[0].data.to_string().parse().unwrap();
    let name = Fqdn::parse("api.example.com").unwrap();
    assert_eq!(server.subject.synthetic().name_of(address), Some(name));
    for query_type in [
        RecordType::AAAA,
        RecordType::HTTPS,
        RecordType::TXT,
        RecordType::NULL,
    ] {
        let reply = ask(server.udp, &query("api.example.com.", query_type))
            .await
            .unwrap();
        assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
        assert!(reply.answers.is_empty(), "{query_type}");
    }
    let apex = ask(server.udp, &query("example.com.", RecordType::A))
        .await
        .unwrap();
    assert_eq!(apex.metadata.response_code, ResponseCode::NXDomain);
    server.end().await;
}

/// Whoever has the address at the moment.
struct Turns(Mutex<Arc<Subject>>);

impl Identity for Turns {
    fn subject(&self, _source: Ipv4Addr) -> Option<Arc<Subject>> {
        Some(Arc::clone(&self.0.lock()))
    }
}

#[tokio::test]
async fn what_waits_is_its_senders_when_the_address_changes_owners() {
    let subject = |id| {
        Subject::new(
            SandboxId::new(uuid::Uuid::from_u128(id)),
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::LOCALHOST,
            Policy::deny_all("none"),
        )
    };
    let (first, second) = (subject(1), subject(2));
    let (udp, tcp) = sockets();
    let (udp_at, tcp_at) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let (recorder, log) = Recorder::in_memory();
    let stop = CancellationToken::new();
    let identity = Arc::new(Turns(Mutex::new(Arc::clone(&first))));
    let theirs = Arc::clone(&identity) as Arc<dyn Identity>;
    let server = Server::open(
        (udp, tcp),
        theirs,
        (recorder.into(), Descriptors::of_process()),
        stop.clone(),
    )
    .unwrap();

    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    for number in 0..200 {
        let question = query(&format!("n{number}.example."), RecordType::A);
        socket.send_to(&question, udp_at).unwrap();
    }
    #[expect(clippy::disallowed_methods, reason = "a test on loopback")]
    let std = std::net::TcpStream::connect(tcp_at).unwrap();
    std.set_nonblocking(true).unwrap();
    let mut stream = TcpStream::from_std(std).unwrap();
    let question = query("tcp.example.", RecordType::A);
    let length = u16::try_from(question.len()).unwrap();
    stream.write_u16(length).await.unwrap();
    stream.write_all(&question).await.unwrap();

    first.close().await;
    server.empty().await;
    *identity.0.lock() = Arc::clone(&second);
    #[expect(clippy::disallowed_methods, reason = "the test owns and awaits it")]
    let served = tokio::spawn(server.serve());
    assert_eq!(stream.read(&mut [0; 512]).await.unwrap_or(0), 0);
    ask(udp_at, &query("own.example.", RecordType::A))
        .await
        .unwrap();
    // Who has the address now reads no answer that was not for it.
    assert!(socket.recv(&mut [0; 512]).is_err());
    stop.cancel();
    served.await.unwrap();
    let records = log.records();
    let of = |subject: &Subject| {
        let of = |record: &&gig_audit::Record| record.entry.sandbox == Some(subject.id());
        records.iter().filter(of).count()
    };
    assert_eq!(of(&second), 1, "{records:#?}");
    assert!(of(&first) >= 200);
}

#[tokio::test]
async fn dropped_questions_that_cannot_be_recorded_are_counted_on() {
    let subject = Subject::new(
        SandboxId::new(uuid::Uuid::nil()),
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::LOCALHOST,
        Policy::deny_all("none"),
    );
    let (recorder, log) = Recorder::in_memory();
    let identity = Arc::new(One(Some(Arc::clone(&subject))));
    let parts = (recorder.into(), Descriptors::of_process());
    let server = Server::open(sockets(), identity, parts, CancellationToken::new()).unwrap();
    let drop_one = |reason: DenyReason| server.count_dropped(Arc::clone(&subject), reason);
    drop_one(DenyReason::RequestRate);
    drop_one(DenyReason::RequestRate);
    log.fail(true);
    server.record_counts().await;
    drop_one(DenyReason::RequestRate);
    drop_one(DenyReason::ConnectionLimit);
    server.record_counts().await;
    log.fail(false);
    server.record_counts().await;
    let records = log.records();
    let mut told: Vec<_> = records
        .iter()
        .flat_map(|record| {
            record
                .entry
                .findings
                .iter()
                .map(|text| (record.entry.reason, &**text))
        })
        .filter(|(_, text)| text.starts_with("dropped"))
        .collect();
    told.sort_by_key(|(_, text)| *text);
    let expected = [
        (Some(DenyReason::ConnectionLimit), "dropped:1"),
        (Some(DenyReason::RequestRate), "dropped:3"),
    ];
    assert_eq!(told, expected);
    server.record_counts().await;
    assert_eq!(log.records().len(), records.len());
}
