//! Where a registry may send gig, and what gig takes along.

use gig_proxy::tls::roots::Roots;

use super::*;

fn registry(base: &str) -> Registry {
    Registry {
        fetch: NetworkFetch::new(Roots::none(), None),
        base: base.to_owned(),
        repository: "a/b".to_owned(),
        login: None,
        authorization: None,
    }
}

#[test]
fn a_registry_points_to_nothing_weaker_than_itself() {
    let led = |base: &str, url: &str| registry(base).refuse_weaker(url).is_ok();
    assert!(led("https://reg.example", "https://cdn.example/blob"));
    assert!(!led("https://reg.example", "http://cdn.example/blob"));
    assert!(!led("https://reg.example", "http://127.0.0.1/blob"));
    assert!(!led("https://reg.example", "file:///etc/passwd"));
    assert!(!led(
        "https://reg.example",
        "https://user:word@cdn.example/"
    ));
    assert!(led("http://127.0.0.1:5000", "http://127.0.0.1:5001/token"));
    assert!(!led("http://127.0.0.1:5000", "http://10.0.0.1/token"));
    assert!(led("http://reg.example", "http://reg.example/x"));
    assert!(!led("http://reg.example", "http://other.example/x"));
    assert!(!led("http://reg.example", "http://127.0.0.1/x"));
}

#[test]
fn the_origin_of_a_url_ends_before_its_path() {
    assert_eq!(
        origin("https://a.example:5000/v2/x"),
        "https://a.example:5000"
    );
    assert_eq!(origin("http://a.example"), "http://a.example");
}
