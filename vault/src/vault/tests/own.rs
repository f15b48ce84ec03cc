//! What gig seals with keys of its own: bound to its context, kept through changes of keys, nobody's secret.

use super::*;

fn seal(vault: &Vault, text: &str) -> Vec<u8> {
    let plain = SecretBytes::from(text);
    vault.seal_own("factors", &plain, &["ana", "1"]).unwrap()
}

fn opened(vault: &Vault, sealed: &[u8], context: &[&str]) -> Option<String> {
    let plain = vault.open_own("factors", sealed, context).ok()?;
    Some(String::from_utf8(plain.expose().to_vec()).unwrap())
}

#[test]
fn what_gig_seals_opens_in_its_place_alone_and_is_nobodys_secret() {
    let lab = Lab::new();
    let vault = lab.open();
    let sealed = seal(&vault, "a seed");
    let other = lab.open();
    assert_eq!(
        opened(&other, &sealed, &["ana", "1"]).as_deref(),
        Some("a seed")
    );
    for context in [&["ben", "1"][..], &["ana", "2"], &["ana1", ""], &["ana"]] {
        assert_eq!(opened(&vault, &sealed, context), None, "{context:?}");
    }
    let elsewhere = vault.open_own("others", &sealed, &["ana", "1"]);
    assert!(matches!(elsewhere, Err(UseVaultError::Unknown { .. })));
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert_eq!(opened(&vault, &changed, &["ana", "1"]), None, "octet {at}");
    }
    // No list shows the key, no name leads to it, nothing takes it for a value.
    assert!(vault.list().unwrap().is_empty());
    let view = vault.view().unwrap();
    assert!(!view.has(&name("factors")) && view.secret("factors").unwrap().is_none());
    assert_eq!(
        (
            view.versions("factors").count(),
            view.all_versions().count()
        ),
        (0, 0)
    );
    assert!(view.current("factors", vault.now()).is_none());
}

#[test]
fn what_gig_sealed_opens_at_every_step_of_a_change_of_keys_and_after_it() {
    let lab = Lab::new();
    let vault = lab.open();
    let sealed = seal(&vault, "a seed");
    let held = lab.open();
    let rotation = vault.rotate_master(None, Duration::ZERO);
    loop {
        let step = rotation.step().unwrap();
        for vault in [&vault, &held, &lab.open()] {
            let found = opened(vault, &sealed, &["ana", "1"]);
            assert_eq!(found.as_deref(), Some("a seed"), "{step:?}");
        }
        if step == RotationStep::Done {
            break;
        }
    }
    // Nothing of it is left under the former key.
    let view = vault.view().unwrap();
    let current = view.keyring.current().id();
    assert!(view.snapshot.versions.iter().all(|row| row.key == *current));
    assert_eq!(view.snapshot.versions.len(), 1);
}
