//! Mixed answers, the core, our own, and what is only opened by name.

use proptest::prelude::*;

use super::*;

fn vetter(listeners: &[&str]) -> Vetter {
    let listeners = listeners.iter().map(|l| l.parse().unwrap()).collect();
    Vetter::new(NeverOpen {
        listeners,
        ..NeverOpen::default()
    })
}

fn vet(vetter: &Vetter, addresses: &[&str], allow: &[&str]) -> Result<Vec<String>, DenyReason> {
    let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
    let allow: Vec<IpNet> = allow.iter().map(|a| a.parse().unwrap()).collect();
    vetter
        .vet_for(&addresses, named(&allow))
        .map(|vetted| vetted.iter().map(|v| v.get().to_string()).collect())
        .map_err(|error| error.reason)
}

fn named(named: &[IpNet]) -> Open<'_> {
    Open {
        named,
        private_use: false,
    }
}

#[test]
fn where_another_node_listens_is_closed_whatever_a_policy_names() {
    let elsewhere = Elsewhere::default();
    let vetter = Vetter::new(NeverOpen {
        elsewhere: elsewhere.clone(),
        ..NeverOpen::default()
    });
    let node = "10.0.0.2:8080";
    let all = ["10.0.0.0/8"];
    assert!(vet(&vetter, &[node], &all).is_ok());
    elsewhere.set(vec![node.parse().unwrap()]);
    let closed = Err(DenyReason::NeverOpenable);
    for address in [node, "[::ffff:10.0.0.2]:8080"] {
        assert_eq!(vet(&vetter, &[address], &all), closed, "{address}");
    }
    assert_eq!(vet(&vetter, &[PUBLIC, node], &all), closed);
    assert!(vet(&vetter, &["10.0.0.2:443"], &all).is_ok());
    elsewhere.set(Vec::new());
    assert!(vet(&vetter, &[node], &all).is_ok());
}

const PUBLIC: &str = "93.184.215.14:443";

#[test]
fn private_addresses_are_left_out_of_a_mixed_answer() {
    let vetter = vetter(&[]);
    let mixed = vet(&vetter, &["10.0.0.1:443", PUBLIC, "[fd00::1]:443"], &[]);
    assert_eq!(mixed, Ok(vec![PUBLIC.to_owned()]));
    assert_eq!(
        vet(&vetter, &["10.0.0.1:443"], &[]),
        Err(DenyReason::PrivateAddress)
    );
    assert!(vet(&vetter, &["10.0.0.1:443"], &["10.0.0.0/8"]).is_ok());
}

#[test]
fn a_local_policy_reaches_private_ranges_and_no_public_address() {
    let policy = gig_policy::PolicyBuilder::new("local")
        .reach(Reach::Local)
        .allow("db.corp.example")
        .and_then(|builder| builder.allow("10.0.0.0/8"))
        .and_then(|builder| builder.allow("93.184.215.14"))
        .and_then(|builder| builder.allow_private("93.184.215.0/24"))
        .unwrap()
        .build()
        .unwrap();
    let permit = |host: &str| {
        let host = Host::parse(host).unwrap();
        match policy.decide_connect(&host, Port::HTTPS, None) {
            gig_policy::Verdict::Allow(permit) => permit,
            gig_policy::Verdict::Deny(denial) => panic!("{denial}"),
        }
    };
    let vetter = vetter(&[]);
    let vet = |addresses: &[&str], host: &str| {
        let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        vetter
            .vet(&addresses, &permit(host))
            .map(|vetted| {
                vetted
                    .iter()
                    .map(|v| v.get().to_string())
                    .collect::<Vec<_>>()
            })
            .map_err(|error| error.reason)
    };
    let host = "db.corp.example";
    assert_eq!(vet(&[PUBLIC], host), Err(DenyReason::PublicAddress));
    // Nor one that a rule names, by its number or as a range.
    let named = "93.184.215.14";
    assert_eq!(vet(&[PUBLIC], named), Err(DenyReason::PublicAddress));
    assert_eq!(
        vet(&[PUBLIC, "10.9.8.7:443"], host),
        Ok(vec!["10.9.8.7:443".to_owned()])
    );
    assert_eq!(
        vet(&["10.1.1.1:443"], "10.1.1.1"),
        Ok(vec!["10.1.1.1:443".to_owned()])
    );
    assert_eq!(
        vet(&["127.0.0.1:443"], host),
        Err(DenyReason::PrivateAddress)
    );
    assert_eq!(
        vet(&["169.254.169.254:443"], host),
        Err(DenyReason::NeverOpenable)
    );
}

#[test]
fn one_address_of_the_core_refuses_the_whole_answer() {
    let vetter = vetter(&[]);
    let refused = vet(
        &vetter,
        &[PUBLIC, "169.254.169.254:80"],
        &["169.254.0.0/16"],
    );
    assert_eq!(refused, Err(DenyReason::NeverOpenable));
}

#[test]
fn another_gigs_listener_stays_closed_as_long_as_it_is_announced() {
    let vetter = vetter(&[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let place = format!("127.0.0.1:{port}");
    let vet = || vet(&vetter, &[&place], &["127.0.0.0/8"]);
    assert_eq!(vet(), Ok(vec![place.clone()]));
    let everywhere = (Ipv4Addr::UNSPECIFIED, port).into();
    let announced = announced::Announced::listener(everywhere).unwrap();
    assert_eq!(vet(), Err(DenyReason::NeverOpenable));
    drop(announced);
    assert_eq!(vet(), Ok(vec![place.clone()]));
}

#[test]
fn loopback_needs_to_be_named_and_our_listeners_stay_closed() {
    let vetter = vetter(&["127.0.0.1:8080", "0.0.0.0:9090", "[::]:7070"]);
    let allow = &["127.0.0.0/8", "::1/128"];
    assert_eq!(
        vet(&vetter, &["127.0.0.1:5432"], &[]),
        Err(DenyReason::PrivateAddress)
    );
    assert!(vet(&vetter, &["127.0.0.1:5432"], allow).is_ok());
    for ours in [
        "127.0.0.1:8080",
        "127.0.0.1:9090",
        "127.7.7.7:9090",
        "[::ffff:127.0.0.1]:8080",
        "[::1]:7070",
    ] {
        assert_eq!(
            vet(&vetter, &[ours], allow),
            Err(DenyReason::NeverOpenable),
            "{ours}"
        );
    }
}

#[test]
fn an_address_that_the_host_has_is_its_own() {
    let vetter = vetter(&[]);
    assert!(vetter.is_own(Ipv4Addr::LOCALHOST.into()).unwrap());
    assert!(!vetter.is_own([93, 184, 215, 14].into()).unwrap());
    let foreign = Vetter {
        binds_foreign: true,
        never_open: NeverOpen::default(),
    };
    assert!(foreign.is_own(Ipv4Addr::LOCALHOST.into()).unwrap());
}

proptest! {
    #[test]
    fn nothing_special_is_ever_vetted_without_being_named(ip in any::<IpAddr>()) {
        let vetter = Vetter { never_open: NeverOpen::default(), binds_foreign: false };
        if let Ok(vetted) = vetter.vet_for(&[SocketAddr::new(ip, 443)], named(&[])) {
            for one in vetted {
                prop_assert!(admit(one.get().ip(), &[]).is_ok());
                prop_assert!(!one.is_private());
            }
        }
    }
}
