//! The ClientHello: what is made of it does not depend on how it was cut into pieces.

use gig_proxy::client_hello::{Assembly, MAX_HELLO, Progress, Sni};

/// The first octet says where the rest is cut.
pub fn run(data: &[u8]) {
    let Some((&cut, hello)) = data.split_first() else {
        return;
    };
    let whole = Assembly::default().advance(hello);
    let mut pieces = Assembly::default();
    let step = usize::from(cut).max(1);
    let mut last = Progress::NeedMore;
    let mut end = step.min(hello.len());
    loop {
        last = match last {
            Progress::NeedMore => pieces.advance(hello.get(..end).unwrap_or_default()),
            decided => decided,
        };
        if end >= hello.len() {
            break;
        }
        end = (end + step).min(hello.len());
    }
    // Cut off early a hello may have been refused or taken before the rest was there to disagree.
    if matches!(last, Progress::NeedMore) || matches!(whole, Progress::NeedMore) {
        assert_eq!(last, whole);
    }
    if let Progress::Hello(facts) = whole {
        assert!(hello.len() <= 6 * MAX_HELLO);
        if let Sni::Name(name) = &facts.sni {
            let again = gig_policy::Fqdn::parse(name.as_str());
            assert_eq!(again.as_ref(), Ok(name));
        }
    }
}
