//! What is due for renewal holds nobody up while it is good.

use super::*;

#[tokio::test]
async fn nobody_waits_for_a_renewal_while_the_old_value_is_good() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    lab.store.gate.forget_permits(1000);
    lab.store.version.store(2, Ordering::SeqCst);
    lab.pass(80);
    // Ready at once, whoever comes; and the key store is asked once.
    let kv = name("KV");
    for _ in 0..20 {
        let mut asking = keeper.current(&kv);
        let secret = futures_poll(&mut asking).expect("it holds nobody up");
        assert_eq!(text(&secret.unwrap()), "value 1");
    }
    while lab.store.asked() < 2 {
        std::thread::yield_now();
    }
    lab.store.gate.add_permits(1000);
    assert!(keeper.landed(LONG));
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 2");
    assert_eq!(lab.store.asked(), 2);
}

#[tokio::test]
async fn a_silent_provider_holds_nobody_up_until_five_times_the_values_time() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    lab.store.gate.forget_permits(1000);
    let kv = name("KV");
    // Nobody came while it was due; its time is over, and the provider takes what it is asked and says nothing.
    for _ in 0..4 {
        lab.pass(101);
        for _ in 0..5 {
            let mut asking = keeper.current(&kv);
            let secret = futures_poll(&mut asking).expect("there is an old value");
            assert_eq!(text(&secret.unwrap()), "value 1");
        }
    }
    lab.pass(95);
    let mut asking = keeper.current(&kv);
    let last = futures_poll(&mut asking).expect("a second is left");
    assert_eq!(text(&last.unwrap()), "value 1");
    // What is over is over, silent or not.
    lab.pass(1);
    lab.store.status.store(0, Ordering::SeqCst);
    let mut asking = keeper.current(&kv);
    assert!(futures_poll(&mut asking).is_none());
    lab.store.gate.add_permits(1000);
    assert!(asking.await.is_err());
    assert_eq!(lab.store.asked(), 2, "one asks for all");
}

#[tokio::test]
async fn a_value_whose_time_is_over_is_renewed_behind_who_comes_first() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    lab.store.version.store(2, Ordering::SeqCst);
    lab.pass(499);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    assert!(keeper.landed(LONG));
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 2");
    // One that was silent is asked again, and one that refuses ends it.
    let answers = lab.store.status.swap(0, Ordering::SeqCst);
    lab.pass(100);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 2");
    assert!(keeper.landed(LONG));
    lab.store.status.store(answers, Ordering::SeqCst);
    lab.store.version.store(3, Ordering::SeqCst);
    lab.pass(10);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 2");
    assert!(keeper.landed(LONG));
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 3");
    lab.store.status.store(403, Ordering::SeqCst);
    lab.pass(200);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 3");
    assert!(keeper.landed(LONG));
    assert!(get(&keeper, "KV").await.is_err());
}

#[tokio::test]
async fn a_silent_provider_holds_no_end_up() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    lab.store.gate.forget_permits(1000);
    lab.pass(90);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    while lab.store.asked() < 2 {
        std::thread::yield_now();
    }
    assert!(keeper.settle(LONG), "it was asked in vain, and is left");
}

#[tokio::test]
async fn what_is_wrong_with_what_a_provider_gave_is_told_of_it() {
    let lab = Lab::new();
    let file = lab.dir.path().join("token");
    std::fs::write(&file, "no pair").unwrap();
    let text = format!(
        "kind: basic\nprovider: {{file: {{path: '{}'}}}}",
        file.display()
    );
    lab.defined("PAIR", &text);
    let why = get(&lab.keeper(), "PAIR").await.unwrap_err().to_string();
    assert!(why.contains("cannot be had from file now"), "{why}");
}

#[tokio::test]
async fn what_a_host_refused_is_not_at_hand_while_another_is_fetched() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    lab.store.gate.forget_permits(1000);
    lab.store.version.store(2, Ordering::SeqCst);
    let kv = name("KV");
    keeper.refused(&kv);
    let mut first = keeper.current(&kv);
    assert!(futures_poll(&mut first).is_none());
    // Nor for who comes next.
    assert!(keeper.at_hand(&kv).is_none());
    let mut second = keeper.current(&kv);
    assert!(futures_poll(&mut second).is_none());
    lab.store.gate.add_permits(1000);
    assert_eq!(text(&first.await.unwrap()), "value 2");
    assert_eq!(text(&second.await.unwrap()), "value 2");
    assert_eq!(lab.store.asked(), 2);
}

#[tokio::test]
async fn a_command_that_takes_its_time_holds_nobody_up_while_its_value_is_good() {
    let lab = Lab::new();
    let go = lab.dir.path().join("go");
    std::fs::write(&go, "value 1").unwrap();
    let wait = format!(
        "while ! [ -e {0} ]; do sleep 0.05; done; cat {0}",
        go.display()
    );
    let text_of = format!(
        "provider: {{command: {{program: /bin/sh, args: ['-c', '{wait}'], pass: [PATH], \
         timeout: 600, ttl: 100}}}}"
    );
    lab.defined("CMD", &text_of);
    let keeper = lab.keeper();
    assert_eq!(get(&keeper, "CMD").await.unwrap(), "value 1");
    std::fs::remove_file(&go).unwrap();
    lab.pass(85);
    let cmd = name("CMD");
    let mut asking = keeper.current(&cmd);
    let secret = futures_poll(&mut asking).expect("the command sleeps");
    assert_eq!(text(&secret.unwrap()), "value 1");
    assert!(
        !keeper.landed(Duration::from_millis(1)),
        "the command runs behind it"
    );
    let renewed = lab.dir.path().join("renewed");
    std::fs::write(&renewed, "value 2").unwrap();
    std::fs::rename(renewed, &go).unwrap();
    assert!(keeper.landed(LONG));
    assert_eq!(get(&keeper, "CMD").await.unwrap(), "value 2");
}
