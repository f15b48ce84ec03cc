//! A slot's link is cut, and nothing of it comes any more.

use std::thread;
use std::time::{Duration, Instant};

use crate::Test;
use crate::lab::{self, eventually, shell};

pub(crate) const TESTS: &[Test] = &[(
    "cut_slot_stays_taken_and_soon_nothing_of_it_is_on_its_way",
    cut,
)];

fn cut() {
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let flood =
        "while :; do for n in 1 2 3 4; do echo q >/dev/udp/192.0.2.1/53; done; done 2>/dev/null";
    let flooding = shell(&hub, &lease, flood);
    listeners.dns_udp.set_nonblocking(true).unwrap();
    let questions = || {
        let received = (0..).map(|_| listeners.dns_udp.recv(&mut [0; 64]));
        received.take_while(Result::is_ok).count()
    };
    eventually("it floods", || questions() > 0);
    let begun = Instant::now();
    while !hub.cut(&lease).unwrap() {
        thread::sleep(Duration::from_millis(5));
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(flooding.end().status, 9);
    questions();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(questions(), 0);
    assert!(hub.cut(&lease).unwrap(), "asked for again");
    assert!(hub.lease().is_err(), "it stays taken");
    hub.release(lease).unwrap();
    let lease = hub.lease().unwrap();
    assert_eq!(shell(&hub, &lease, "true").end().status, 0);
}
