//! Passphrases that change, and changes that are told first.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::{
    store::{Alone, StoreError},
    vault::witness::{Announced, Doing, NotWitnessed, Witness},
};

const OLD: &str = "correct horse battery";
const NEW: &str = "staple these five words";

/// A store whose next commits fail when it is told so, as if the process had ended there.
#[derive(Debug)]
struct Failing {
    inner: Arc<SqliteStore>,
    fails: AtomicBool,
    commits: Mutex<Vec<usize>>,
}

impl Store for Failing {
    fn generation(&self) -> Result<u64, StoreError> {
        self.inner.generation()
    }

    fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.inner.snapshot()
    }

    fn commit(&self, generation: u64, changes: &[Change]) -> Result<(), CommitError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(CommitError::Store(StoreError {
                action: "write",
                place: "here".to_owned(),
                why: "it was told to fail".to_owned(),
            }));
        }
        self.commits.lock().push(changes.len());
        self.inner.commit(generation, changes)
    }

    fn alone(&self, name: &SecretName) -> Result<Option<Alone>, StoreError> {
        self.inner.alone(name)
    }
}

fn words(text: &str) -> SecretBytes {
    SecretBytes::from(text)
}

fn put_in_custody(vault: &Vault, secret: &str, value: &str) -> Result<u64, UseVaultError> {
    let value = SecretBytes::from(value);
    let new = NewVersion {
        custody: true,
        ..version(&value, 60)
    };
    vault.set(&name(secret), &Definition::default(), &new)
}

/// A vault with two secrets in custody, one of them with an old version, and one that is not.
fn filled(lab: &Lab) -> Vault {
    let vault = lab.open();
    vault.unlock(&words(OLD)).unwrap();
    put_in_custody(&vault, "A", "first").unwrap();
    put_in_custody(&vault, "A", "second").unwrap();
    put_in_custody(&vault, "B", "other").unwrap();
    put(&vault, "C", "plain");
    vault
}

/// Whether a passphrase opens everything, in a process that just started.
fn opens(lab: &Lab, passphrase: &str) -> bool {
    let vault = lab.open();
    match vault.unlock(&words(passphrase)) {
        Err(UseVaultError::WrongPassphrase) => return false,
        unlocked => unlocked.unwrap(),
    }
    let view = vault.view().unwrap();
    for row in view.all_versions() {
        vault.open_version(&view, row).unwrap();
    }
    assert_eq!(get(&vault, "A").as_deref(), Some("second"));
    assert_eq!(get(&vault, "C").as_deref(), Some("plain"));
    true
}

#[test]
fn what_goes_into_custody_is_not_remembered_outside() {
    let lab = Lab::new();
    let vault = filled(&lab);
    put(&vault, "C", "plain once more");
    assert_eq!(put_in_custody(&vault, "C", "plain").unwrap(), 3);
    let view = vault.view().unwrap();
    let rows: Vec<_> = view
        .versions("C")
        .map(|row| (row.version, row.custody))
        .collect();
    assert_eq!(rows, [(3, true)]);
    assert!(vault.listed(&name("C")).unwrap().custody);
    // Whoever takes it out says so, and it is listed as what it is.
    put(&vault, "C", "out");
    assert!(!vault.listed(&name("C")).unwrap().custody);
}

#[test]
fn another_passphrase_opens_everything_and_the_old_one_nothing() {
    let lab = Lab::new();
    let vault = filled(&lab);
    let wrong = vault.change_passphrase(&words("not the passphrase"), &words(NEW));
    assert!(matches!(wrong, Err(UseVaultError::WrongPassphrase)));
    let weak = vault.change_passphrase(&words(OLD), &words("short"));
    assert!(matches!(weak, Err(UseVaultError::WeakPassphrase { .. })));
    assert!(opens(&lab, OLD) && !opens(&lab, NEW));
    let before = vault.view().unwrap();
    assert_eq!(
        vault.change_passphrase(&words(OLD), &words(NEW)).unwrap(),
        3
    );
    assert!(opens(&lab, NEW) && !opens(&lab, OLD));
    // Values are not sealed anew, and what was not in custody is as it was.
    let after = vault.view().unwrap();
    for (old, new) in before.all_versions().zip(after.all_versions()) {
        assert_eq!(old.value, new.value);
        assert_eq!(old.wrapped == new.wrapped, !old.custody);
    }
    // The one who changed it goes on.
    put_in_custody(&vault, "B", "newer").unwrap();
    assert!(opens(&lab, NEW));
}

#[test]
fn a_change_of_passphrases_is_one_commit_and_fails_as_a_whole() {
    let lab = Lab::new();
    drop(filled(&lab));
    let store = Arc::new(Failing {
        inner: lab.store(),
        fails: AtomicBool::new(true),
        commits: Mutex::default(),
    });
    let source = MasterKeySource::Default(lab.path().join(FILE));
    let vault = Vault::open(Arc::clone(&store) as _, source, lab.clock.clone()).unwrap();
    let vault = vault.with_cost(CHEAP);
    let failed = vault.change_passphrase(&words(OLD), &words(NEW));
    assert!(matches!(failed, Err(UseVaultError::Store(_))));
    assert!(opens(&lab, OLD) && !opens(&lab, NEW));
    store.fails.store(false, Ordering::SeqCst);
    vault.change_passphrase(&words(OLD), &words(NEW)).unwrap();
    // Three versions and the passphrase's own row.
    assert_eq!(*store.commits.lock(), [4]);
    assert!(opens(&lab, NEW) && !opens(&lab, OLD));
}

#[test]
fn who_unlocked_before_a_change_of_passphrases_opens_and_seals_nothing_more() {
    let lab = Lab::new();
    let before = filled(&lab);
    lab.open()
        .change_passphrase(&words(OLD), &words(NEW))
        .unwrap();
    let view = before.view().unwrap();
    let row = view.current("A", before.now()).unwrap();
    let opened = before.open_version(&view, row);
    assert!(matches!(
        opened,
        Err(UseVaultError::PassphraseChanged { .. })
    ));
    let put = put_in_custody(&before, "A", "under the old one");
    assert!(matches!(put, Err(UseVaultError::PassphraseChanged { .. })));
    assert_eq!(get(&before, "C").as_deref(), Some("plain"));
    before.unlock(&words(NEW)).unwrap();
    assert_eq!(get(&before, "A").as_deref(), Some("second"));
}

#[test]
fn without_custody_there_is_no_passphrase_to_change() {
    let lab = Lab::new();
    let changed = lab.open().change_passphrase(&words(OLD), &words(NEW));
    assert!(matches!(changed, Err(UseVaultError::NoCustody)));
}

#[test]
fn passphrase_and_master_key_change_one_after_the_other() {
    let lab = Lab::new();
    let vault = filled(&lab);
    vault.rotate_master(None, Duration::ZERO).finish().unwrap();
    vault.change_passphrase(&words(OLD), &words(NEW)).unwrap();
    vault.rotate_master(None, Duration::ZERO).finish().unwrap();
    assert!(opens(&lab, NEW) && !opens(&lab, OLD));
}

/// Writes down what it is told, and refuses when it is full.
#[derive(Debug, Default)]
struct Notebook {
    told: Mutex<Vec<(String, Doing, Option<u64>)>>,
    full: AtomicBool,
}

impl Witness for Notebook {
    fn announce(&self, change: &Announced) -> Result<(), NotWitnessed> {
        if self.full.load(Ordering::SeqCst) {
            let name = Arc::clone(&change.name);
            return Err(NotWitnessed {
                name,
                why: "full".to_owned(),
            });
        }
        let told = (change.name.to_string(), change.doing, change.version);
        self.told.lock().push(told);
        Ok(())
    }
}

#[test]
fn a_change_is_told_before_it_is_made_and_not_made_when_it_cannot_be_told() {
    let lab = Lab::new();
    let notebook = Arc::new(Notebook::default());
    let vault = lab.open().witnessed(Arc::clone(&notebook) as _);
    put(&vault, "A", "first");
    let second = SecretBytes::from("second");
    vault.rotate(&name("A"), &version(&second, 0)).unwrap();
    notebook.full.store(true, Ordering::SeqCst);
    let third = SecretBytes::from("third");
    let refused = vault.rotate(&name("A"), &version(&third, 0));
    assert!(matches!(refused, Err(UseVaultError::Witness(_))));
    let refused = vault.remove(&name("A"), None, true);
    assert!(matches!(refused, Err(UseVaultError::Witness(_))));
    assert_eq!(get(&vault, "A").as_deref(), Some("second"));
    notebook.full.store(false, Ordering::SeqCst);
    vault.remove(&name("A"), Some(2), false).unwrap();
    vault.remove(&name("A"), None, true).unwrap();
    let a = || "A".to_owned();
    let told = [
        (a(), Doing::Set, Some(1)),
        (a(), Doing::Rotate, Some(2)),
        (a(), Doing::Revoke, Some(2)),
        (a(), Doing::Forget, None),
    ];
    assert_eq!(*notebook.told.lock(), told);
}
