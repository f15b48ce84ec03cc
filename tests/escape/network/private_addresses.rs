//! Addresses that are not public: in every spelling, and behind names.

use std::net::{IpAddr, SocketAddr};

use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Way,
    denial::Refusal,
    http_origin::greet,
    network::{HOST, Side},
    raw_origin::RawOrigin,
    resolver::Data,
};

const NAME: &str = "rebind.example.com";

/// A service on the host's own loopback, as a database or a desktop application would be.
fn loopback(lab: &Lab) -> RawOrigin {
    let at = SocketAddr::from(([127, 0, 0, 1], 80));
    RawOrigin::start(lab.network.listen(Side::Host, at), None, |conversation| {
        conversation.drain()
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
    for way in Way::BOTH {
        let url = format!("http://{NAME}/");
        let run = lab
            .gig()
            .allow(NAME)
            .going(way)
            .run(["curl", "-sS", "-m", "60", "-i", &url]);
        let octets: u64 = reached.iter().map(RawOrigin::wire_octets).sum();
        assert!(octets == 0, "ESCAPED: {octets} octets; {run}");
        let refusal = Refusal::new(DenyReason::PrivateAddress).or(DenyReason::NeverOpenable);
        refusal
            .of(NAME)
            .beside_allowed_traffic()
            .client_says("403")
            .check(&run);
    }
}

/// Something that answers at the host's loopback and at every private address of the internet side.
fn answer_everywhere(lab: &Lab) -> Vec<RawOrigin> {
    let hello = |conversation: &mut gig_tests::lab::raw_origin::Conversation| {
        use std::io::{Read, Write};
        let _read = conversation.read(&mut [0; 4096])?;
        conversation
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nloot")
    };
    let host = lab.network.listen(Side::Host, ([0, 0, 0, 0], 80).into());
    let internet = lab
        .network
        .listen(Side::Internet, ([0, 0, 0, 0], 80).into());
    vec![
        RawOrigin::start(host, None, hello),
        RawOrigin::start(internet, None, hello),
    ]
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
fn mixed_answers_never_reach_the_private_one() {
    let lab = Lab::new();
    lab.resolver.set(NAME, &[ip("127.0.0.1"), ip("10.0.0.1")]);
    let reached = answer_everywhere(&lab);
    for _ in 0..3 {
        let run =
            lab.gig()
                .allow(NAME)
                .run(["curl", "-sS", "-m", "60", "http://rebind.example.com/"]);
        let octets: u64 = reached.iter().map(RawOrigin::wire_octets).sum();
        assert!(octets == 0, "ESCAPED: {octets} octets; {run}");
    }
}

#[test]
fn an_answer_that_turns_private_is_refused_at_the_second_connection() {
    let lab = Lab::new();
    let origin = lab.http(NAME, greet);
    let public = origin.raw().address().ip();
    let own = loopback(&lab);
    lab.resolver.plan(
        NAME,
        vec![
            vec![Data::Address(public)],
            vec![Data::Address(ip("127.0.0.1"))],
        ],
    );
    let script = "import urllib.request\n\
        for n in range(4):\n\
        \x20try: print(urllib.request.urlopen('http://rebind.example.com/', timeout=20).read())\n\
        \x20except Exception as e: print('refused', e)";
    let run = lab.gig().allow(NAME).going(Way::Straight).python(script);
    let octets = own.wire_octets();
    assert!(octets == 0, "ESCAPED: {octets} octets; {run}");
}

#[test]
fn an_alias_to_a_private_address_is_refused() {
    let lab = Lab::new();
    lab.resolver
        .plan(NAME, vec![vec![Data::Alias("inner.example.net".into())]]);
    lab.resolver.set("inner.example.net", &[ip("127.0.0.1")]);
    let own = loopback(&lab);
    let run = lab.gig().allow(NAME).going(Way::Straight).run([
        "curl",
        "-sS",
        "-m",
        "10",
        "-i",
        "http://rebind.example.com/",
    ]);
    let refusal = Refusal::new(DenyReason::PrivateAddress).of(NAME);
    refusal.unseen_by(&own).client_says("403").check(&run);
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
         \x20s = proxy(); s.sendall(get(f'http://{{host}}/', host)); print(host, rest(s, 2).split('\\r\\n')[0])\n\
         \x20s, status = tunnel(f'{{host}}:80'); print(host, status); s.close()"
    );
    let run = lab.gig().allow("api.example.com").wire(&script);
    let octets = own.wire_octets();
    assert!(
        octets == 0 && own.seen().is_empty(),
        "ESCAPED: {octets} octets; {run}"
    );
    assert!(
        !run.text().contains(" 200"),
        "ESCAPED: the client was answered; {run}"
    );
    assert!(
        run.open || run.audit.refused_anything(),
        "nothing recorded; {run}"
    );
}

#[test]
fn the_hosts_address_is_refused_by_number() {
    let lab = Lab::new();
    let at = SocketAddr::new(HOST.into(), 8000);
    let own = RawOrigin::start(lab.network.listen(Side::Host, at), None, |c| c.drain());
    let script = "def go():\n s = connect('192.168.77.2', 8000); s.sendall(get('/', '192.168.77.2')); return rest(s)\nattempt(go)";
    let run = lab.gig().allow("api.example.com").wire(script);
    let refusal = Refusal::new(DenyReason::IpNotAllowed).or(DenyReason::PrivateAddress);
    refusal
        .or(DenyReason::HostNotAllowed)
        .unseen_by(&own)
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

fn v6(text: &str) -> Finished {
    let lab = Lab::with_ipv6();
    lab.resolver.set(NAME, &[ip(text)]);
    let url = "http://rebind.example.com/";
    lab.gig()
        .allow(NAME)
        .run(["curl", "-sS", "-m", "60", "-i", url])
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
        let run = v6(text);
        let refusal = Refusal::new(DenyReason::PrivateAddress).or(DenyReason::NeverOpenable);
        refusal
            .of(NAME)
            .beside_allowed_traffic()
            .client_says("403")
            .check(&run);
    }
}
