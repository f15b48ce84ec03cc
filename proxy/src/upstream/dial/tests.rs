//! From a permit to a connection, on loopback.

use std::sync::Arc;

use gig_policy::{Policy, PolicyBuilder, SandboxId, Verdict};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

fn subject(policy: Policy) -> Arc<Subject> {
    Subject::new(
        SandboxId::new(uuid::Uuid::nil()),
        [10, 200, 0, 2].into(),
        [10, 200, 0, 1].into(),
        policy,
    )
}

fn policy(allow: &str, private: Option<&str>) -> Policy {
    let mut builder = PolicyBuilder::new("test").allow(allow).unwrap();
    if let Some(private) = private {
        builder = builder.allow_private(private).unwrap();
    }
    builder.build().unwrap()
}

fn permit(policy: &Policy, host: &str, port: u16) -> ConnectPermit {
    let host = Host::parse(host).unwrap();
    match policy.decide_connect(&host, Port::new(port).unwrap(), None) {
        Verdict::Allow(permit) => permit,
        Verdict::Deny(denial) => panic!("{denial}"),
    }
}

fn dialer(overrides: &[String], proxy: Option<UpstreamProxy>, never: &[SocketAddr]) -> Dialer {
    Dialer::new(DialerSettings {
        overrides: overrides.iter().map(|o| o.parse().unwrap()).collect(),
        upstream_proxy: proxy,
        never_open: NeverOpen {
            listeners: never.to_vec(),
            hosts: vec![(Host::parse("gig.example").unwrap(), Port::new(443).unwrap())],
            ..NeverOpen::default()
        },
        deadlines: Deadlines::DEFAULT,
    })
}

async fn listening() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

#[tokio::test]
async fn a_name_goes_where_the_override_says_if_that_is_allowed() {
    let (_listener, at) = listening().await;
    let dialer = dialer(&[format!("a.example:443:{at}")], None, &[]);

    let open = policy("a.example", Some("127.0.0.0/8"));
    let dialed = dialer
        .dial(&subject(open.clone()), &permit(&open, "a.example", 443))
        .await;
    let dialed = dialed.unwrap();
    assert_eq!(
        (dialed.reached.address, dialed.reached.private()),
        (Some(at), Some(at.ip()))
    );

    let closed = policy("a.example", None);
    let refused = dialer
        .dial(&subject(closed.clone()), &permit(&closed, "a.example", 443))
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason, DenyReason::PrivateAddress);
    assert_eq!(refused.addr, Some(at));
}

#[tokio::test]
async fn our_own_listener_is_not_dialled_even_when_its_range_is_open() {
    let (_listener, at) = listening().await;
    let dialer = dialer(&[format!("a.example:443:{at}")], None, &[at]);
    let open = policy("a.example", Some("127.0.0.0/8"));
    let refused = dialer
        .dial(&subject(open.clone()), &permit(&open, "a.example", 443))
        .await;
    assert_eq!(refused.unwrap_err().reason, DenyReason::NeverOpenable);
}

#[tokio::test]
async fn what_is_gigs_own_by_name_is_not_dialled_and_no_proxy_is_asked_for_it() {
    let (listener, at) = listening().await;
    let proxy =
        UpstreamProxy::from_env(|name| (name == "HTTPS_PROXY").then(|| format!("http://{at}")));
    let proxied = dialer(&[], proxy.unwrap(), &[]);
    let direct = dialer(&[format!("gig.example:443:{at}")], None, &[]);
    let open = policy("gig.example", Some("127.0.0.0/8"));
    for dialer in [proxied, direct] {
        let permit = permit(&open, "gig.example", 443);
        let refused = dialer.dial(&subject(open.clone()), &permit).await;
        assert_eq!(refused.unwrap_err().reason, DenyReason::NeverOpenable);
    }
    let asked = timeout(std::time::Duration::ZERO, listener.accept()).await;
    assert!(asked.is_err(), "somebody came");
}

#[tokio::test]
async fn what_is_gigs_own_by_name_is_closed_by_its_addresses() {
    let (listener, at) = listening().await;
    let dialer = dialer(
        &[
            format!("gig.example:443:{at}"),
            format!("other.example:443:{at}"),
        ],
        None,
        &[],
    );
    let egress = |rule: &str| {
        let text = format!("version: 1\negress:\n  - {{{rule}, allow_private: [127.0.0.0/8]}}\n");
        Policy::compile(&text, "test").unwrap()
    };
    let port = at.port();
    for (rule, host, port) in [
        (format!("ip: 127.0.0.1, ports: [{port}]"), "127.0.0.1", port),
        (
            format!("ip: 127.0.0.1, ports: [{port}], protocol: tcp"),
            "127.0.0.1",
            port,
        ),
        (
            "host: other.example, ports: [443], protocol: tcp".to_owned(),
            "other.example",
            443,
        ),
        (
            "host: other.example, ports: [443], tls: passthrough".to_owned(),
            "other.example",
            443,
        ),
    ] {
        let policy = egress(&rule);
        let refused = dialer
            .dial(&subject(policy.clone()), &permit(&policy, host, port))
            .await;
        assert_eq!(
            refused.unwrap_err().reason,
            DenyReason::NeverOpenable,
            "{rule}"
        );
    }
    let asked = timeout(std::time::Duration::ZERO, listener.accept()).await;
    assert!(asked.is_err(), "somebody came");
    // Another site behind the same front, each of whose requests names it.
    let policy = egress("host: other.example, ports: [443]");
    let dialed = dialer
        .dial(
            &subject(policy.clone()),
            &permit(&policy, "other.example", 443),
        )
        .await;
    assert_eq!(dialed.unwrap().reached.address, Some(at));
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_refusal() {
    let (listener, at) = listening().await;
    drop(listener);
    let dialer = dialer(&[format!("a.example:443:{at}")], None, &[]);
    let open = policy("a.example", Some("127.0.0.0/8"));
    let refused = dialer
        .dial(&subject(open.clone()), &permit(&open, "a.example", 443))
        .await;
    assert_eq!(refused.unwrap_err().reason, DenyReason::ConnectionRefused);
}

/// A proxy that makes one tunnel to nowhere and says which was asked for.
async fn one_tunnel(listener: TcpListener) -> String {
    answering(&listener, "200 OK").await
}

/// Answers one request, and says which it was.
async fn answering(listener: &TcpListener, status: &str) -> String {
    let (mut peer, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        peer.read_buf(&mut request).await.unwrap();
    }
    let answer = format!("HTTP/1.1 {status}\r\n\r\n");
    peer.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(request)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned()
}

const DUAL_STACK: [&str; 3] = [
    "a.example:443:[2606:2800:220:1::1]",
    "a.example:443:[2606:2800:220:1::2]",
    "a.example:443:93.184.215.14",
];

/// Dials a host of both families by a proxy that gives these answers; what the proxy was asked for.
async fn by_proxy(answers: &[&str]) -> (Result<Dialed, DialError>, Vec<String>) {
    let (listener, at) = listening().await;
    let dialer = dialer(&DUAL_STACK.map(str::to_owned), proxy_at(at, "here"), &[]);
    let open = policy("a.example", None);
    let (subject, permit) = (subject(open.clone()), permit(&open, "a.example", 443));
    let asked = async {
        let mut asked = Vec::new();
        for answer in answers {
            asked.push(answering(&listener, answer).await);
        }
        asked
    };
    let both = async { tokio::join!(dialer.dial(&subject, &permit), asked) };
    let ended = timeout(std::time::Duration::from_secs(120), both).await;
    ended.expect("as many questions as answers")
}

#[tokio::test]
async fn a_proxy_without_ipv6_is_asked_for_the_next_address() {
    let (dialed, asked) = by_proxy(&["503 Service Unavailable", "200 OK"]).await;
    assert_eq!(asked[0], "CONNECT [2606:2800:220:1::1]:443 HTTP/1.1");
    assert_eq!(asked[1], "CONNECT 93.184.215.14:443 HTTP/1.1");
    assert_eq!(
        dialed.unwrap().reached.address.unwrap().to_string(),
        "93.184.215.14:443"
    );
}

#[tokio::test]
async fn a_proxy_that_gets_to_no_address_is_asked_for_each_once() {
    let no = "504 Gateway Timeout";
    let (dialed, asked) = by_proxy(&[no, no, no]).await;
    assert_eq!(asked.len(), 3);
    let refused = dialed.unwrap_err();
    assert_eq!(refused.reason, DenyReason::ConnectionTimeout);
    assert_eq!(
        refused.addr.unwrap().to_string(),
        "[2606:2800:220:1::2]:443"
    );
}

#[tokio::test]
async fn a_proxy_that_wants_credentials_is_asked_once() {
    let (dialed, _) = by_proxy(&["407 Proxy Authentication Required"]).await;
    assert_eq!(
        dialed.unwrap_err().reason,
        DenyReason::DestinationUnavailable
    );
}

#[tokio::test]
async fn a_proxy_that_is_gone_is_told_as_that_and_not_as_the_origins_fault() {
    let (listener, at) = listening().await;
    drop(listener);
    let dialer = dialer(&DUAL_STACK.map(str::to_owned), proxy_at(at, "here"), &[]);
    let open = policy("a.example", None);
    let permitted = permit(&open, "a.example", 443);
    let refused = dialer.dial(&subject(open), &permitted).await.unwrap_err();
    assert_eq!(refused.reason, DenyReason::DestinationUnavailable);
    assert_eq!(refused.by_proxy, Some(ProxyFault::Unreached));
    // The proxy's address is none that the program asked for.
    assert_eq!(refused.addr, None);
    assert!(refused.why.contains(&at.to_string()), "{}", refused.why);
}

fn proxy_at(at: SocketAddr, names: &str) -> Option<UpstreamProxy> {
    UpstreamProxy::from_env(|variable| match variable {
        "HTTPS_PROXY" => Some(format!("http://{at}")),
        "GIG_UPSTREAM_PROXY_NAMES" => Some(names.to_owned()),
        _ => None,
    })
    .unwrap()
}

#[tokio::test]
async fn the_hosts_proxy_is_asked_for_the_vetted_address() {
    let (listener, at) = listening().await;
    let override_ = "a.example:443:93.184.215.14".to_owned();
    let dialer = dialer(&[override_], proxy_at(at, "here"), &[]);
    let open = policy("a.example", None);
    let (subject, permit) = (subject(open.clone()), permit(&open, "a.example", 443));
    let (dialed, asked) = tokio::join!(dialer.dial(&subject, &permit), one_tunnel(listener));
    assert_eq!(asked, "CONNECT 93.184.215.14:443 HTTP/1.1");
    assert_eq!(
        dialed.unwrap().reached.address.unwrap().to_string(),
        "93.184.215.14:443"
    );
}

#[tokio::test]
async fn a_proxy_that_resolves_is_asked_for_the_name_and_never_for_a_private_address() {
    let (listener, at) = listening().await;
    let dialer = dialer(&[], proxy_at(at, "proxy"), &[]);
    let open = policy("a.example", None);
    let permitted = permit(&open, "a.example", 443);
    let someone = subject(open);
    let (dialed, asked) = tokio::join!(dialer.dial(&someone, &permitted), one_tunnel(listener));
    assert_eq!(asked, "CONNECT a.example:443 HTTP/1.1");
    let dialed = dialed.unwrap();
    // The proxy's own address is not the origin's: nobody is told so.
    assert_eq!(
        (dialed.reached.address, dialed.reached.private()),
        (None, None)
    );

    let open = policy("tcp:10.0.0.1:443", None);
    let permitted = permit(&open, "10.0.0.1", 443);
    let refused = dialer.dial(&subject(open), &permitted).await.unwrap_err();
    assert_eq!(refused.reason, DenyReason::PrivateAddress);
}

/// What it would dial is seen by nobody here.
#[tokio::test]
async fn a_proxy_that_resolves_is_asked_for_no_metadata_service() {
    let (_listener, at) = listening().await;
    let dialer = dialer(&[], proxy_at(at, "proxy"), &[]);
    let named = policy("metadata.google.internal", None);
    let permit = permit(&named, "metadata.google.internal", 443);
    let refused = dialer.dial(&subject(named), &permit).await.unwrap_err();
    assert_eq!(refused.reason, DenyReason::NeverOpenable);
}

/// The proxy may run on this host: for it these are this host, too, with gig's own doors.
#[tokio::test]
async fn a_proxy_that_resolves_is_asked_for_no_name_of_this_host() {
    let (listener, at) = listening().await;
    let (_own, console) = listening().await;
    let dialer = dialer(&[], proxy_at(at, "proxy"), &[console]);
    let nodename = rustix::system::uname()
        .nodename()
        .to_str()
        .unwrap()
        .to_ascii_lowercase();
    let why = async |host: &str, private: Option<&str>| {
        let open = policy(&format!("tcp:{host}:{}", console.port()), private);
        let permit = permit(&open, host, console.port());
        dialer
            .dial(&subject(open), &permit)
            .await
            .unwrap_err()
            .reason
    };
    for host in [
        "localhost",
        "a.localhost",
        "a.localhost.localdomain",
        "LocalHost",
        &nodename,
    ] {
        assert_eq!(why(host, None).await, DenyReason::PrivateAddress, "{host}");
        let open = Some("127.0.0.0/8");
        assert_eq!(why(host, open).await, DenyReason::NeverOpenable, "{host}");
    }
    let asked = timeout(std::time::Duration::ZERO, listener.accept()).await;
    assert!(asked.is_err(), "the proxy was asked");
}

#[tokio::test]
async fn loopback_goes_past_the_hosts_proxy() {
    let (_origin, origin_at) = listening().await;
    let (_proxy, proxy_addr) = listening().await;
    let override_ = format!("a.example:443:{origin_at}");
    let dialer = dialer(&[override_], proxy_at(proxy_addr, "proxy"), &[]);
    let open = policy("a.example", Some("127.0.0.0/8"));
    let dialed = dialer
        .dial(&subject(open.clone()), &permit(&open, "a.example", 443))
        .await;
    assert_eq!(dialed.unwrap().stream.peer_addr().unwrap(), origin_at);
}
