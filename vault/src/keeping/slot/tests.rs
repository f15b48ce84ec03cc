//! What is watched for, and for how long.

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

/// What is known when so many were handed out, one a minute, each good for `lives` minutes.
fn renewed(times: i64, lives: Option<i64>, length: usize) -> State {
    let mut state = State::default();
    for number in 0..times {
        let value = SecretBytes::new(format!("{number:0length$}").into_bytes());
        state.remember((1, Some(0)), &value, true);
        let front = state.known.front_mut().unwrap();
        front.lives = lives.map(|lives| at(60 * (number + lives)));
        state.forget(&"T".parse().unwrap(), at(60 * number));
    }
    state
}

#[test]
fn a_value_is_watched_for_while_a_host_may_take_it() {
    // An hour, and five minutes for slow clocks.
    assert_eq!(renewed(200, Some(60), 40).known.len(), 65);
    // None is good any more: the latest are watched for all the same.
    assert_eq!(renewed(200, Some(0), 40).known.len(), LATEST);
    for lives in [Some(100_000), None] {
        let state = renewed(1000, lives, 40);
        assert_eq!(state.known.len(), MOST);
        // The newest are there.
        let oldest = state.known.back().unwrap().value.expose().to_vec();
        assert_eq!(oldest, format!("{:040}", 1000 - MOST).into_bytes());
    }
    let long = renewed(100, None, 60_000);
    assert_eq!(long.known.len(), MOST_OCTETS / 60_000);
}

#[test]
fn what_ends_first_goes_first() {
    let mut state = renewed(i64::try_from(MOST).unwrap() - 1, None, 40);
    let short = SecretBytes::from("a token that ends within the minute");
    state.known.push_back(Known {
        version: 1,
        part: Some(0),
        value: Arc::new(short.duplicate()),
        current: false,
        stands: false,
        lives: Some(at(100_000)),
    });
    state.remember((1, Some(0)), &SecretBytes::from("the newest"), true);
    state.forget(&"T".parse().unwrap(), at(0));
    assert_eq!(state.known.len(), MOST);
    assert!(state.known.iter().all(|known| *known.value != short));
}
