//! Master keys that are missing, wrong, or change while others read.

use std::fs;

use super::*;

fn hex(digit: char) -> MasterKeySource {
    MasterKeySource::Variable {
        name: "GIG_MASTER_KEY",
        value: SecretBytes::from(digit.to_string().repeat(64).as_str()),
    }
}

fn fill(vault: &Vault) {
    vault
        .unlock(&SecretBytes::from("correct horse battery"))
        .unwrap();
    for n in 0..70 {
        put(vault, &format!("S{n}"), &format!("value {n}"));
    }
    let value = SecretBytes::from("the owner's");
    let new = NewVersion {
        custody: true,
        ..version(&value, 0)
    };
    vault
        .set(&name("CUSTODY"), &Definition::default(), &new)
        .unwrap();
}

fn all_there(vault: &Vault) {
    for n in 0..70 {
        assert_eq!(get(vault, &format!("S{n}")), Some(format!("value {n}")));
    }
    if !vault.is_unlocked() {
        vault
            .unlock(&SecretBytes::from("correct horse battery"))
            .unwrap();
    }
    assert_eq!(get(vault, "CUSTODY").as_deref(), Some("the owner's"));
}

#[test]
fn another_key_is_refused_with_both_ids() {
    let lab = Lab::new();
    put(&lab.try_open(hex('1')).unwrap(), "A", "value");
    let error = lab.try_open(hex('2')).unwrap_err();
    assert!(matches!(error, UseVaultError::WrongKey { .. }));
    assert!(error.to_string().contains("GIG_MASTER_KEY_FILE"), "{error}");
    assert!(lab.try_open(hex('1')).is_ok());
}

#[test]
fn a_lost_key_file_is_not_replaced_by_a_fresh_one() {
    let lab = Lab::new();
    put(&lab.open(), "A", "value");
    fs::remove_file(lab.path().join(FILE)).unwrap();
    let source = MasterKeySource::Default(lab.path().join(FILE));
    let error = lab.try_open(source).unwrap_err().to_string();
    assert!(error.contains("backup"), "{error}");
    assert!(!lab.path().join(FILE).exists());
}

/// Runs the change of keys to each of its steps, stops there as a killed process would, and lets
/// another process go on. `open` is how that process gets its key.
fn cut_off_everywhere(
    first: impl Fn(&Lab) -> Vault,
    new: impl Fn() -> Option<MasterKeySource>,
    again: impl Fn(&Lab, RotationStep) -> Vec<Vault>,
) {
    let mut steps = 0;
    loop {
        let lab = Lab::new();
        let vault = first(&lab);
        fill(&vault);
        let reader = first(&lab);
        all_there(&reader);
        let rotation = vault.rotate_master(new(), Duration::from_secs(60));
        let mut last = RotationStep::Overtaken;
        for _ in 0..steps {
            last = rotation.step().unwrap();
        }
        // Whoever read before goes on reading, and writing.
        all_there(&reader);
        put(&reader, "LATE", "from the old holder");
        drop(vault);
        for vault in again(&lab, last) {
            all_there(&vault);
            assert_eq!(get(&vault, "LATE").as_deref(), Some("from the old holder"));
            vault
                .rotate_master(new(), Duration::from_secs(60))
                .finish()
                .unwrap();
            all_there(&vault);
        }
        all_there(&reader);
        if last == RotationStep::Done {
            assert!(steps > 4, "{steps}");
            break;
        }
        steps += 1;
    }
}

#[test]
fn a_change_of_the_key_file_can_be_cut_off_anywhere() {
    cut_off_everywhere(Lab::open, || None, |lab, _| vec![lab.open()]);
}

#[test]
fn a_change_of_the_variable_can_be_cut_off_anywhere() {
    cut_off_everywhere(
        |lab| lab.try_open(hex('1')).unwrap(),
        || Some(hex('2')),
        |lab, last| {
            // While both keys are known either will do; afterwards the old one leads to the new one.
            let old = lab.try_open(hex('1')).unwrap();
            let begun = !matches!(last, RotationStep::Overtaken);
            let new = begun.then(|| lab.try_open(hex('2')).unwrap());
            [Some(old), new].into_iter().flatten().collect()
        },
    );
}

#[test]
fn after_the_grace_time_the_old_key_opens_nothing() {
    let lab = Lab::new();
    let vault = lab.try_open(hex('1')).unwrap();
    fill(&vault);
    vault
        .rotate_master(Some(hex('2')), Duration::from_secs(60))
        .finish()
        .unwrap();
    all_there(&lab.try_open(hex('1')).unwrap());
    lab.clock.advance(Duration::from_secs(59));
    all_there(&lab.try_open(hex('1')).unwrap());
    // Nobody has to do anything for it.
    lab.clock.advance(Duration::from_secs(1));
    assert!(matches!(
        lab.try_open(hex('1')),
        Err(UseVaultError::WrongKey { .. })
    ));
    let after = lab.try_open(hex('2')).unwrap();
    all_there(&after);
    let view = after.view().unwrap();
    assert_eq!(view.snapshot.keys.len(), 1);
    assert!(
        view.all_versions()
            .all(|row| row.key == view.snapshot.keys[0].id)
    );
}

/// The keys of the lab that open the vault.
fn opening(lab: &Lab) -> String {
    let opens = |digit: &char| lab.try_open(hex(*digit)).is_ok();
    "12345".chars().filter(opens).collect()
}

#[test]
fn every_change_takes_effect_within_the_grace_time_of_the_one_before() {
    let lab = Lab::new();
    let vault = lab.try_open(hex('1')).unwrap();
    fill(&vault);
    let mut known = vec![vault.master_key_id().unwrap()];
    // Past ends one after the other; a shorter time is a shorter time for all before it.
    for (digit, grace, opened) in [('2', 100, "12"), ('3', 100, "123"), ('4', 30, "1234")] {
        let grace = Duration::from_secs(grace);
        let rotation = vault.rotate_master(Some(hex(digit)), grace);
        rotation.finish().unwrap();
        let key = vault.master_key_id().unwrap();
        assert!(!known.contains(&key), "{digit}: it is another key");
        known.push(key);
        assert_eq!(opening(&lab), opened);
        all_there(&lab.try_open(hex('1')).unwrap());
        lab.clock.advance(Duration::from_secs(10));
    }
    lab.clock.advance(Duration::from_secs(20));
    assert_eq!(opening(&lab), "4");
    // Back to one that was used before, and on to another without a grace time for anybody.
    for (digit, grace, opened) in [('1', 100, "14"), ('5', 0, "5")] {
        let grace = Duration::from_secs(grace);
        let rotation = vault.rotate_master(Some(hex(digit)), grace);
        rotation.finish().unwrap();
        assert_eq!(opening(&lab), opened);
    }
    all_there(&lab.try_open(hex('5')).unwrap());
    assert_eq!(vault.view().unwrap().snapshot.keys.len(), 1);
}

#[test]
fn a_fresh_key_file_is_made_by_every_change() {
    let lab = Lab::new();
    let vault = lab.open();
    fill(&vault);
    let mut known = vec![vault.master_key_id().unwrap()];
    for grace in [100, 100, 0, 0] {
        let rotation = vault.rotate_master(None, Duration::from_secs(grace));
        rotation.finish().unwrap();
        let key = lab.open().master_key_id().unwrap();
        assert!(!known.contains(&key));
        known.push(key);
        all_there(&lab.open());
    }
}

#[test]
fn a_change_of_a_variable_needs_the_new_key() {
    let lab = Lab::new();
    let vault = lab.try_open(hex('1')).unwrap();
    let refused = vault.rotate_master(None, Duration::ZERO).finish();
    assert!(matches!(refused, Err(RotateMasterError::NoNewKey)));
    vault
        .rotate_master(Some(hex('2')), Duration::ZERO)
        .step()
        .unwrap();
    let other = vault.rotate_master(Some(hex('3')), Duration::ZERO).step();
    assert!(matches!(other, Err(RotateMasterError::OtherBegun { .. })));
}
