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
    assert!(keeper.settle(LONG));
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 2");
    assert_eq!(lab.store.asked(), 2);
    // Its time is over, with nobody asking: whoever comes waits for another.
    lab.store.version.store(3, Ordering::SeqCst);
    lab.pass(100);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 3");
}

#[tokio::test]
async fn a_provider_that_fell_silent_holds_one_up_and_then_nobody_until_the_end() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    lab.store.status.store(0, Ordering::SeqCst);
    lab.pass(100);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    lab.store.gate.forget_permits(1000);
    lab.pass(10);
    let kv = name("KV");
    let mut asking = keeper.current(&kv);
    let secret = futures_poll(&mut asking).expect("it was silent a while ago");
    assert_eq!(text(&secret.unwrap()), "value 1");
    while lab.store.asked() < 3 {
        std::thread::yield_now();
    }
    // What is over is over, silent or not.
    lab.pass(400);
    let mut asking = keeper.current(&kv);
    assert!(futures_poll(&mut asking).is_none());
    lab.store.gate.add_permits(1000);
    assert!(asking.await.is_err());
}

#[tokio::test]
async fn a_provider_that_answers_again_is_waited_for_once_more() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    let answers = lab.store.status.swap(0, Ordering::SeqCst);
    lab.pass(100);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    lab.store.status.store(answers, Ordering::SeqCst);
    lab.store.version.store(2, Ordering::SeqCst);
    lab.pass(61);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 2");
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
    let definition = Definition::parse(&text_of).unwrap();
    let new = NewVersion {
        value: None,
        expires: None,
        grace: Duration::ZERO,
        custody: false,
    };
    lab.vault.set(&name("CMD"), &definition, &new).unwrap();
    let keeper = lab.keeper();
    assert_eq!(get(&keeper, "CMD").await.unwrap(), "value 1");
    std::fs::remove_file(&go).unwrap();
    lab.pass(85);
    let cmd = name("CMD");
    let mut asking = keeper.current(&cmd);
    let secret = futures_poll(&mut asking).expect("the command sleeps");
    assert_eq!(text(&secret.unwrap()), "value 1");
    assert!(
        !keeper.settle(Duration::from_millis(1)),
        "the command runs behind it"
    );
    let renewed = lab.dir.path().join("renewed");
    std::fs::write(&renewed, "value 2").unwrap();
    std::fs::rename(renewed, &go).unwrap();
    assert!(keeper.settle(LONG));
    assert_eq!(get(&keeper, "CMD").await.unwrap(), "value 2");
}
