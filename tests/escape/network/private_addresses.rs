//! Addresses that are not public: in every spelling, and behind names.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Way,
    denial::Refusal,
    http_origin::greet,
    network::{HOST, HOST_V6, Side, internet_address},
    raw_origin::RawOrigin,
    resolver::Data,
};

const NAME: &str = "rebind.example.com";

/// A service on the host's own loopback, as a database or a desktop application would be.
fn loopback(lab: &Lab) -> RawOrigin {
    service(lab, Side::Host, ([127, 0, 0, 1], 80).into())
}

/// Something that gives away what it has to whoever asks.
fn service(lab: &Lab, side: Side, at: SocketAddr) -> RawOrigin {
    RawOrigin::start(lab.network.listen(side, at), None, |conversation| {
        let _read = conversation.read(&mut [0; 4096])?;
        conversation
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nloot")
    })
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The name is allowed, its address is not.
fn behind_a_name(addresses: &[&str]) {
    let lab = Lab::new();
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| ip(text)).collect();
    lab.resolver.set(NAME, &addresses);
    let reached = answer_everywhere(&lab);
    refused_both_ways(&lab, &reached);
}

fn refused_both_ways(lab: &Lab, reached: &[RawOrigin]) {
    for way in Way::BOTH {
        let url = format!("http://{NAME}/");
        let run = lab
            .gig()
            .allow(NAME)
            .going(way)
            .run(["curl", "-sS", "-m", "60", "-i", &url]);
        private(&run, reached);
    }
}

/// The name is refused for its address: told, recorded, and nothing came to where it might lead.
fn private(run: &Finished, reached: &[RawOrigin]) {
    Refusal::new(DenyReason::PrivateAddress)
        .or(DenyReason::NeverOpenable)
        .of(NAME)
        .client_says("403")
        .unseen_by(reached)
        .check(run);
}

/// Something that answers at the host's loopback and at every private address of the internet side.
fn answer_everywhere(lab: &Lab) -> [RawOrigin; 2] {
    [Side::Host, Side::Internet].map(|side| service(lab, side, (Ipv6Addr::UNSPECIFIED, 80).into()))
}

macro_rules! refused_behind_a_name {
    ($($test:ident: $($address:literal),+;)*) => {$(
        #[test]
        fn $test() {
            behind_a_name(&[$($address),+]);
        }
    )*};
}

refused_behind_a_name! {
    a_name_of_the_loopback_is_refused: "127.0.0.1";
    a_name_of_another_loopback_address_is_refused: "127.8.9.10";
    a_name_of_the_unspecified_address_is_refused: "0.0.0.0";
    a_name_of_a_private_network_is_refused: "10.1.2.3";
    a_name_of_another_private_network_is_refused: "172.31.255.254";
    a_name_of_a_home_network_is_refused: "192.168.1.1";
    a_name_of_shared_space_is_refused: "100.64.0.1";
    a_name_of_the_metadata_service_is_refused: "169.254.169.254";
    a_name_of_a_link_local_address_is_refused: "169.254.1.1";
    a_name_of_a_benchmark_address_is_refused: "198.18.0.1";
    a_name_of_the_hosts_own_address_is_refused: "192.168.77.2";
    a_name_of_the_hubs_network_is_refused: "10.200.0.1";
}

#[test]
fn the_hosts_own_public_address_is_refused_behind_a_name() {
    let lab = Lab::new();
    let reached = answer_everywhere(&lab);
    // In no registry: only the host itself can tell that it is its own.
    lab.network
        .run(Side::Host, "ip addr add 12.34.56.78/32 dev lo");
    lab.resolver.set(NAME, &[ip("12.34.56.78")]);
    refused_both_ways(&lab, &reached);
}

#[test]
fn the_hosts_own_public_ipv6_address_is_refused_behind_a_name() {
    let lab = Lab::with_ipv6();
    let reached = answer_everywhere(&lab);
    lab.resolver.set(NAME, &[ip(&HOST_V6.to_string())]);
    let run = lab.gig().allow(NAME);
    let run = run.run([
        "curl",
        "-sS",
        "-m",
        "60",
        "-i",
        "http://rebind.example.com/",
    ]);
    private(&run, &reached);
}

#[test]
fn the_hosts_own_public_address_is_refused_by_number() {
    let lab = Lab::new();
    let reached = answer_everywhere(&lab);
    lab.network
        .run(Side::Host, "ip addr add 12.34.56.78/32 dev lo");
    // Named by a rule, as any address of the Internet may be: that opens no address of the host.
    let run = lab.gig().allow("12.34.56.78:80");
    let run = run.run(["curl", "-sS", "-m", "60", "-i", "http://12.34.56.78/"]);
    Refusal::new(DenyReason::PrivateAddress)
        .of("12.34.56.78")
        .client_says("403")
        .unseen_by(&reached[..])
        .nothing_leaves()
        .check(&run);
}

/// curl's answer from a name that is allowed, both ways.
fn fetch(lab: &Lab, way: Way) -> Finished {
    let subject = lab.gig().allow(NAME).going(way);
    subject.run([
        "curl",
        "-sS",
        "-m",
        "60",
        "-i",
        "http://rebind.example.com/",
    ])
}

#[test]
fn a_mixed_answer_leads_to_its_public_address_alone() {
    for way in Way::BOTH {
        let lab = Lab::new();
        let public = lab.http(NAME, greet);
        let own = loopback(&lab);
        let addresses = [ip("127.0.0.1"), public.raw().address().ip(), ip("10.0.0.1")];
        lab.resolver.set(NAME, &addresses);
        let run = fetch(&lab, way);
        Refusal::none()
            .client_says("hello from the origin")
            .unseen_by(&own)
            .check(&run);
        assert_eq!(public.requests().len(), 1, "{run}");
    }
}

#[test]
fn a_mixed_answer_whose_public_address_is_dead_leads_nowhere() {
    for way in Way::BOTH {
        let lab = Lab::new();
        let own = loopback(&lab);
        // Nobody listens there, and the host is told so at once.
        lab.resolver
            .set(NAME, &[ip("127.0.0.1"), internet_address(99)]);
        let run = fetch(&lab, way);
        Refusal::none()
            .client_says("502")
            .unseen_by(&own)
            .check(&run);
    }
}

#[test]
fn a_mixed_answer_with_a_metadata_service_is_refused_whole() {
    for way in Way::BOTH {
        let lab = Lab::new();
        let public = lab.http(NAME, greet);
        let metadata = service(&lab, Side::Internet, ([169, 254, 169, 254], 80).into());
        let addresses = [ip("169.254.169.254"), public.raw().address().ip()];
        lab.resolver.set(NAME, &addresses);
        let run = fetch(&lab, way);
        Refusal::new(DenyReason::NeverOpenable)
            .of(NAME)
            .client_says("403")
            .unseen_by(&metadata)
            .unseen_by(&public)
            .check(&run);
    }
}

/// The origin ends every connection, and no answer lives: each request takes a look-up of its own.
#[test]
fn an_answer_that_turns_private_is_refused_at_the_second_connection() {
    let lab = Lab::new();
    let origin = lab.http(NAME, |request, exchange| {
        exchange.body(request)?;
        exchange.send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi")?;
        Err(ErrorKind::ConnectionAborted.into())
    });
    let public = origin.raw().address().ip();
    let own = loopback(&lab);
    let answers = [public, ip("127.0.0.1")].map(|address| vec![Data::Address(address)]);
    lab.resolver.plan(NAME, answers.into());
    let script = "import urllib.request\n\
        for n in range(3):\n\
        \x20try: print(urllib.request.urlopen('http://rebind.example.com/', timeout=60).read())\n\
        \x20except Exception as e: print(e)";
    let run = lab.gig().allow(NAME).going(Way::Straight).python(script);
    let expected = "b'hi'\n".to_owned() + &"HTTP Error 403: Forbidden\n".repeat(2);
    Refusal::new(DenyReason::PrivateAddress)
        .of(NAME)
        .times(2)
        .client(|run| run.text() == expected)
        .unseen_by(&own)
        .check(&run);
    assert_eq!(origin.requests().len(), 1, "{run}");
    let lookups = lab.resolver.asked();
    let lookups = lookups.iter().filter(|(_, kind)| *kind == 1).count();
    assert!(lookups >= 3, "one for each connection: {run}");
}

#[test]
fn an_alias_to_a_private_address_is_refused() {
    aliased(&["inner.example.net"]);
}

#[test]
fn a_chain_of_aliases_to_a_private_address_is_refused() {
    aliased(&["a.example.net", "b.example.org", "inner.example.net"]);
}

/// The name leads over these to the host's loopback.
fn aliased(chain: &[&str]) {
    let lab = Lab::new();
    let mut from = NAME;
    for next in chain {
        lab.resolver
            .plan(from, vec![vec![Data::Alias((*next).into())]]);
        from = next;
    }
    lab.resolver.set(from, &[ip("127.0.0.1")]);
    let own = loopback(&lab);
    let run = fetch(&lab, Way::Straight);
    Refusal::new(DenyReason::PrivateAddress)
        .of(NAME)
        .unseen_by(&own)
        .client_says("403")
        .check(&run);
}

#[test]
fn a_redirect_to_a_private_address_is_not_followed_out() {
    let forbidden = [
        ("http://192.168.77.2/", Side::Host, "192.168.77.2:80"),
        ("http://10.1.2.3/", Side::Internet, "10.1.2.3:80"),
        (
            "http://169.254.169.254/latest/",
            Side::Internet,
            "169.254.169.254:80",
        ),
    ];
    for (location, side, at) in forbidden {
        let lab = Lab::new();
        let private = service(&lab, side, at.parse().expect("an address"));
        let answer = format!(
            "HTTP/1.1 302 Found\r\nlocation: {location}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        let _from = lab.http(NAME, move |_, exchange| exchange.send(&answer));
        let url = "http://rebind.example.com/";
        let run = lab
            .gig()
            .allow(NAME)
            .run(["curl", "-sSL", "-m", "60", "-i", url]);
        Refusal::new(DenyReason::IpNotAllowed)
            .or(DenyReason::NeverOpenable)
            .client_says("HTTP/1.1 403")
            .unseen_by(&private)
            .check(&run);
    }
}

/// Spellings of 127.0.0.1 that some parser somewhere takes for an address.
const SPELLINGS: [&str; 10] = [
    "127.0.0.1",
    "127.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0x7f.0.0.1",
    "127.0.0.1.",
    "localhost",
    "0",
    "[::ffff:127.0.0.1]",
];

#[test]
fn no_spelling_of_the_loopback_passes_the_explicit_proxy() {
    let lab = Lab::new();
    let own = loopback(&lab);
    let script = format!(
        "for host in {SPELLINGS:?}:\n\
         \x20s = proxy(); s.sendall(get(f'http://{{host}}/', host)); print(host, until(s, '\\r\\n').split('\\r\\n')[0])\n\
         \x20s, status = tunnel(f'{{host}}:80'); print(host, status); s.close()"
    );
    let run = lab.gig().allow("api.example.com").wire(&script);
    let refused = |line: &str| ["400", "403"].iter().any(|status| line.contains(status));
    Refusal::new(DenyReason::IpNotAllowed)
        .or(DenyReason::HostNotAllowed)
        .or(DenyReason::MalformedRequest)
        .times(2 * SPELLINGS.len())
        .client(|run| {
            run.text().lines().count() == 2 * SPELLINGS.len() && run.text().lines().all(refused)
        })
        .unseen_by(&own)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn the_hosts_address_is_refused_by_number() {
    let lab = Lab::new();
    let at = SocketAddr::new(HOST.into(), 8000);
    let own = RawOrigin::start(lab.network.listen(Side::Host, at), None, |c| c.drain());
    let script = "def go():\n s = connect('192.168.77.2', 8000); s.sendall(get('/', '192.168.77.2')); return until(s, '\\r\\n\\r\\n')\nattempt(go)";
    let run = lab.gig().allow("api.example.com").wire(script);
    Refusal::new(DenyReason::IpNotAllowed)
        .client_says("got: HTTP/1.1 403")
        .unseen_by(&own)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn the_metadata_service_stays_closed_whatever_is_allowed() {
    let lab = Lab::new();
    let metadata = lab.tcp("169.254.169.254:80".parse().expect("an address"), |c| {
        c.drain()
    });
    lab.resolver
        .set("metadata.example.com", &[ip("169.254.169.254")]);
    for url in [
        "http://169.254.169.254/latest/meta-data/",
        "http://metadata.example.com/",
    ] {
        let run = lab
            .gig()
            .option(["--observe"])
            .run(["curl", "-sS", "-m", "60", "-i", url]);
        let refusal = Refusal::new(DenyReason::NeverOpenable).or(DenyReason::PrivateAddress);
        refusal.unseen_by(&metadata).client_says("403").check(&run);
    }
}

#[test]
fn observe_mode_opens_no_private_address() {
    let lab = Lab::new();
    lab.resolver.set(NAME, &[ip("127.0.0.1")]);
    let own = loopback(&lab);
    let run = lab.gig().option(["--observe"]).run([
        "curl",
        "-sS",
        "-m",
        "10",
        "-i",
        "http://rebind.example.com/",
    ]);
    Refusal::new(DenyReason::PrivateAddress)
        .of(NAME)
        .unseen_by(&own)
        .client_says("403")
        .check(&run);
}

#[test]
fn addresses_that_embed_ipv4_are_vetted_for_what_they_embed() {
    for text in [
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:0:7f00:1::",
        "fd00::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "100::1",
        "::",
    ] {
        let lab = Lab::with_ipv6();
        lab.resolver.set(NAME, &[ip(text)]);
        let reached = answer_everywhere(&lab);
        let url = "http://rebind.example.com/";
        let run = lab
            .gig()
            .allow(NAME)
            .run(["curl", "-sS", "-m", "60", "-i", url]);
        private(&run, &reached);
    }
}
