//! The vault as a whole: versions, custody, keys that change, hands that tamper.

use std::{path::Path, time::Duration};

use super::*;
use crate::{clock::StoppedClock, master_key::FILE, store::sqlite::SqliteStore};

mod custody;
mod ends;
mod keys;
mod own;

pub(super) struct Lab {
    pub(super) dir: tempfile::TempDir,
    pub(super) clock: Arc<StoppedClock>,
}

/// Cheap guesses: what is shown here does not depend on their price.
pub(super) const CHEAP: Argon2Cost = Argon2Cost {
    memory: 64,
    passes: 1,
    lanes: 1,
};

impl Lab {
    pub(super) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            clock: Arc::new(StoppedClock::at(
                Timestamp::from_second(1_800_000_000).unwrap(),
            )),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn store(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.path().join("gig.db")).unwrap())
    }

    pub(super) fn try_open(&self, source: MasterKeySource) -> Result<Vault, UseVaultError> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        Vault::open(self.store(), source, clock).map(|vault| vault.with_cost(CHEAP))
    }

    pub(super) fn open(&self) -> Vault {
        self.try_open(MasterKeySource::Default(self.path().join(FILE)))
            .unwrap()
    }
}

pub(super) fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

pub(super) fn put(vault: &Vault, secret: &str, value: &str) -> u64 {
    let value = SecretBytes::from(value);
    vault
        .set(&name(secret), &Definition::default(), &version(&value, 0))
        .unwrap()
}

pub(super) fn version(value: &SecretBytes, grace: u64) -> NewVersion<'_> {
    NewVersion {
        value: Some(value),
        expires: None,
        grace: Duration::from_secs(grace),
        custody: false,
    }
}

/// The current value, as text.
pub(super) fn get(vault: &Vault, secret: &str) -> Option<String> {
    let view = vault.view().unwrap();
    let row = view.current(secret, vault.now())?;
    let value = vault.open_version(&view, row).unwrap();
    Some(String::from_utf8(value.expose().to_vec()).unwrap())
}

/// What the service gave in place of a version, as this process knows that.
fn supersede(vault: &Vault, secret: &str, version: u64) -> Option<u64> {
    let fresh = SecretBytes::from("from the service");
    let view = vault.view().unwrap();
    let row = view.versions(secret).find(|row| row.version == version);
    let own = RootId::of(row.unwrap());
    vault
        .supersede(&name(secret), (version, own), &fresh)
        .unwrap()
}

fn states(vault: &Vault, secret: &str) -> Vec<VersionState> {
    let listed = vault.listed(&name(secret)).unwrap();
    listed
        .versions
        .iter()
        .map(|version| version.state)
        .collect()
}

#[test]
fn a_value_survives_and_another_process_sees_its_change() {
    let lab = Lab::new();
    let one = lab.open();
    assert_eq!(one.key_file_made(), Some(lab.path().join(FILE).as_path()));
    assert_eq!(put(&one, "A", "first"), 1);
    let two = lab.open();
    assert_eq!(two.key_file_made(), None);
    assert_eq!(get(&two, "A").as_deref(), Some("first"));
    assert_eq!(put(&two, "A", "second"), 2);
    assert_eq!(get(&one, "A").as_deref(), Some("second"));
    assert_eq!(
        states(&one, "A"),
        [VersionState::Revoked, VersionState::Current]
    );
}

#[test]
fn the_old_version_stays_for_its_grace_time() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "first");
    let second = SecretBytes::from("second");
    vault.rotate(&name("A"), &version(&second, 600)).unwrap();
    assert_eq!(get(&vault, "A").as_deref(), Some("second"));
    assert_eq!(
        states(&vault, "A"),
        [VersionState::Grace, VersionState::Current]
    );
    lab.clock.advance(Duration::from_secs(600));
    assert_eq!(
        states(&vault, "A"),
        [VersionState::Expired, VersionState::Current]
    );
}

#[test]
fn a_version_keeps_the_longest_of_the_graces_it_was_promised() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "first");
    let rotate = |value: &str, grace| {
        let value = SecretBytes::from(value);
        vault.rotate(&name("A"), &version(&value, grace)).unwrap();
    };
    rotate("second", 600);
    lab.clock.advance(Duration::from_secs(100));
    rotate("third", 10);
    lab.clock.advance(Duration::from_secs(10));
    let (grace, expired, current) = (
        VersionState::Grace,
        VersionState::Expired,
        VersionState::Current,
    );
    assert_eq!(states(&vault, "A"), [grace, expired, current]);
    // A longer one is a promise, too, and what has ended stays so.
    rotate("fourth", 1000);
    lab.clock.advance(Duration::from_secs(999));
    assert_eq!(states(&vault, "A"), [grace, expired, grace, current]);
    // No grace time ends all of them, as where a value is in wrong hands.
    rotate("fifth", 0);
    let revoked = VersionState::Revoked;
    let all = [revoked, expired, revoked, revoked, current];
    assert_eq!(states(&vault, "A"), all);
}

#[test]
fn what_a_service_gives_ends_the_value_that_it_takes_the_place_of_and_no_other() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "first");
    let second = SecretBytes::from("second");
    vault.rotate(&name("A"), &version(&second, 600)).unwrap();
    assert_eq!(supersede(&vault, "A", 2), Some(3));
    let (grace, revoked, current) = (
        VersionState::Grace,
        VersionState::Revoked,
        VersionState::Current,
    );
    assert_eq!(states(&vault, "A"), [grace, revoked, current]);
}

#[test]
fn a_version_ends_when_it_expires() {
    let lab = Lab::new();
    let vault = lab.open();
    let value = SecretBytes::from("short lived");
    let new = NewVersion {
        expires: Some(Duration::from_secs(60)),
        ..version(&value, 0)
    };
    vault.set(&name("A"), &Definition::default(), &new).unwrap();
    assert!(get(&vault, "A").is_some());
    lab.clock.advance(Duration::from_secs(60));
    assert_eq!(get(&vault, "A"), None);
}

#[test]
fn a_removed_secret_is_remembered_until_it_is_forgotten() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "first");
    put(&vault, "A", "second");
    assert_eq!(
        vault.remove(&name("A"), None, false).unwrap(),
        Removed { versions: 1 }
    );
    assert_eq!(get(&vault, "A"), None);
    assert_eq!(vault.view().unwrap().all_versions().count(), 2);
    assert!(matches!(
        vault.remove(&name("A"), None, false),
        Err(UseVaultError::Unknown { .. })
    ));
    // A new one of this name counts on: no version number means two values.
    assert_eq!(put(&vault, "A", "third"), 3);
    vault.remove(&name("A"), None, true).unwrap();
    assert_eq!(vault.view().unwrap().all_versions().count(), 0);
}

#[test]
fn the_number_of_a_forgotten_version_is_not_given_again() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "first");
    put(&vault, "A", "second");
    vault.remove(&name("A"), Some(2), true).unwrap();
    assert_eq!(put(&vault, "A", "third"), 3);
    // Nor when none is left, in another process, after a change of keys.
    for version in [1, 3] {
        vault.remove(&name("A"), Some(version), true).unwrap();
    }
    vault.rotate_master(None, Duration::ZERO).finish().unwrap();
    let other = lab.open();
    let fourth = SecretBytes::from("fourth");
    assert_eq!(other.rotate(&name("A"), &version(&fourth, 0)).unwrap(), 4);
    other.remove(&name("A"), None, false).unwrap();
    other.remove(&name("A"), Some(4), true).unwrap();
    assert_eq!(put(&other, "A", "fifth"), 5);
}

#[test]
fn a_vault_of_an_earlier_gig_is_read_and_counts_on() {
    let lab = Lab::new();
    put(&lab.open(), "A", "first");
    // As its tables were then.
    let database = rusqlite::Connection::open(lab.path().join("gig.db")).unwrap();
    let earlier = "ALTER TABLE secrets DROP COLUMN given; \
                   DELETE FROM refinery_schema_history WHERE version = 2;";
    database.execute_batch(earlier).unwrap();
    let vault = lab.open();
    assert_eq!(get(&vault, "A").as_deref(), Some("first"));
    vault.remove(&name("A"), Some(1), true).unwrap();
    assert_eq!(put(&vault, "A", "second"), 2);
}

#[test]
fn one_version_can_be_revoked() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "first");
    let second = SecretBytes::from("second");
    vault.rotate(&name("A"), &version(&second, 600)).unwrap();
    vault.remove(&name("A"), Some(2), false).unwrap();
    // The one before is in its grace time, and serves no more; nor where this one is forgotten.
    assert_eq!(get(&vault, "A"), None);
    vault.remove(&name("A"), Some(2), true).unwrap();
    assert_eq!(get(&vault, "A"), None);
    assert_eq!(put(&vault, "A", "third"), 3);
    let never = vault.remove(&name("A"), Some(7), false).unwrap_err();
    assert!(matches!(never, UseVaultError::NoVersion { version: 7, .. }));
}

#[test]
fn ended_versions_are_remembered_up_to_a_bound() {
    let lab = Lab::new();
    let vault = lab.open();
    for n in 0..40 {
        put(&vault, "A", &format!("value {n}"));
    }
    let view = vault.view().unwrap();
    let kept: Vec<u64> = view.versions("A").map(|row| row.version).collect();
    assert_eq!(kept.last(), Some(&40));
    assert!(kept.len() <= 18, "{kept:?}");
}

#[test]
fn a_service_can_replace_the_newest_value_only() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "first");
    assert_eq!(supersede(&vault, "A", 1), Some(2));
    assert_eq!(supersede(&vault, "A", 1), None);
    assert_eq!(get(&vault, "A").as_deref(), Some("from the service"));
    // Also where the value that it began with is forgotten while the service is asked.
    let view = vault.view().unwrap();
    let own = RootId::of(view.versions("A").next_back().unwrap());
    vault.remove(&name("A"), Some(1), true).unwrap();
    let next = SecretBytes::from("the next one");
    let stored = vault.supersede(&name("A"), (2, own), &next).unwrap();
    assert_eq!(stored, Some(3));
    assert_eq!(get(&vault, "A").as_deref(), Some("the next one"));
}

#[test]
fn what_a_service_gives_in_place_of_an_ended_value_has_ended_too() {
    let lab = Lab::new();
    let vault = lab.open();
    // Revoked while the service was asked; the one before is in its grace time, and stays so.
    put(&vault, "A", "first");
    let second = SecretBytes::from("second");
    vault.rotate(&name("A"), &version(&second, 600)).unwrap();
    vault.remove(&name("A"), Some(2), false).unwrap();
    assert_eq!(supersede(&vault, "A", 2), Some(3));
    assert_eq!(get(&vault, "A"), None);
    let view = vault.view().unwrap();
    let row = view.versions("A").next_back().unwrap();
    assert!(row.version == 3 && row.revoked.is_some(), "{row:?}");
    // It is watched for.
    let kept = vault.open_version(&view, row).unwrap();
    assert_eq!(kept.expose(), b"from the service");
    // All of it.
    put(&vault, "B", "first");
    vault.remove(&name("B"), None, false).unwrap();
    assert_eq!(supersede(&vault, "B", 1), Some(2));
    assert_eq!(get(&vault, "B"), None);
    let view = vault.view().unwrap();
    assert!(view.versions("B").all(|row| row.revoked.is_some()));
}

#[test]
fn a_value_that_its_service_replaces_is_stored_here_or_not_at_all() {
    let lab = Lab::new();
    let vault = lab.open();
    let text = "{kind: {oauth2_refresh_token: {endpoint: {token_url: 'https://id.example/token'}, \
                client: {client_id: app, authentication: none}}}, provider: {environment: {}}}";
    let set = |text: &str, value: Option<&SecretBytes>| {
        let new = NewVersion {
            value,
            expires: None,
            grace: Duration::ZERO,
            custody: false,
        };
        vault.set(&name("A"), &Definition::parse(text).unwrap(), &new)
    };
    let refused = set(text, None).unwrap_err().to_string();
    assert!(refused.contains("leave provider out"), "{refused}");
    let embedded = text.replace("{environment: {}}", "embedded");
    set(&embedded, Some(&SecretBytes::from("refresh"))).unwrap();
    // Others may have theirs elsewhere.
    let other = text.replace("oauth2_refresh_token", "oauth2_client_credentials");
    let other = other.replace(", authentication: none", "");
    set(&other, None).unwrap();
}

#[test]
fn values_have_a_bound_and_a_kind() {
    let lab = Lab::new();
    let vault = lab.open();
    let set = |value: Vec<u8>, text: &str| {
        let definition = Definition::parse(text).unwrap();
        vault.set(
            &name("A"),
            &definition,
            &version(&SecretBytes::new(value), 0),
        )
    };
    assert!(set(vec![0; 64 * 1024], "{}").is_ok());
    assert!(matches!(
        set(vec![0; 64 * 1024 + 1], "{}"),
        Err(UseVaultError::Large { .. })
    ));
    assert!(matches!(set(vec![], "{}"), Err(UseVaultError::Kind(_))));
    assert!(matches!(
        set(b"no colon".to_vec(), "kind: basic"),
        Err(UseVaultError::Kind(_))
    ));
    assert!(Definition::parse("kind: nonsense").is_err());
    let unknown = Definition::parse("kind: static\nsurprise: 1")
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("surprise") && unknown.contains("line 2"),
        "{unknown}"
    );
}

#[test]
fn custody_takes_the_passphrase() {
    let lab = Lab::new();
    let vault = lab.open();
    let value = SecretBytes::from("the owner's");
    let new = NewVersion {
        custody: true,
        ..version(&value, 0)
    };
    let set = |vault: &Vault| vault.set(&name("A"), &Definition::default(), &new);
    assert!(matches!(set(&vault), Err(UseVaultError::Locked { .. })));
    let short = vault.unlock(&SecretBytes::from("short"));
    assert!(matches!(short, Err(UseVaultError::WeakPassphrase { .. })));
    vault
        .unlock(&SecretBytes::from("correct horse battery"))
        .unwrap();
    set(&vault).unwrap();
    assert_eq!(get(&vault, "A").as_deref(), Some("the owner's"));

    let locked = lab.open();
    assert!(locked.has_custody().unwrap() && !locked.is_unlocked());
    let view = locked.view().unwrap();
    let row = view.current("A", locked.now()).unwrap();
    assert!(matches!(
        locked.open_version(&view, row),
        Err(UseVaultError::Locked { .. })
    ));
    let wrong = locked.unlock(&SecretBytes::from("correct horse batterY"));
    assert!(matches!(wrong, Err(UseVaultError::WrongPassphrase)));
    locked
        .unlock(&SecretBytes::from("correct horse battery"))
        .unwrap();
    assert_eq!(get(&locked, "A").as_deref(), Some("the owner's"));
}

#[test]
fn processes_that_set_at_once_lose_nothing() {
    let lab = Lab::new();
    lab.open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let vault = lab.open();
            scope.spawn(move || {
                for n in 0..5 {
                    put(&vault, "SHARED", &format!("{thread} {n}"));
                    put(&vault, &format!("OWN_{thread}"), &format!("{n}"));
                }
            });
        }
    });
    let vault = lab.open();
    let view = vault.view().unwrap();
    let newest = view.versions("SHARED").next_back().unwrap();
    assert_eq!(newest.version, 20);
    assert_eq!(vault.list().unwrap().len(), 5);
    assert_eq!(
        view.versions("SHARED")
            .filter(|row| row.is_usable(vault.now()))
            .count(),
        1
    );
}

/// Whoever can write the database, but has no key, can neither move a value nor change what it is.
#[test]
fn an_edited_database_is_found_out() {
    let lab = Lab::new();
    let vault = lab.open();
    put(&vault, "A", "value of a");
    put(&vault, "B", "value of b");
    put(&vault, "A", "newer");
    let edits = [
        "UPDATE secret_versions SET name = 'B', version = 9 WHERE name = 'A' AND version = 1",
        "UPDATE secret_versions SET revoked = NULL WHERE name = 'A' AND version = 1",
        "UPDATE secret_versions SET expires = 1 WHERE name = 'A' AND version = 2",
        "UPDATE secret_versions SET value = (SELECT value FROM secret_versions WHERE name = 'B') \
         WHERE name = 'A' AND version = 2",
    ];
    for edit in edits {
        let copy = Lab {
            dir: tempfile::tempdir().unwrap(),
            clock: lab.clock.clone(),
        };
        let database = copy.path().join("gig.db");
        let from = rusqlite::Connection::open(lab.path().join("gig.db")).unwrap();
        from.execute("VACUUM INTO ?", [database.to_str().unwrap()])
            .unwrap();
        std::fs::set_permissions(
            &database,
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
        std::fs::copy(lab.path().join(FILE), copy.path().join(FILE)).unwrap();
        let changed = rusqlite::Connection::open(&database)
            .unwrap()
            .execute(edit, [])
            .unwrap();
        assert_eq!(changed, 1, "{edit}");
        let vault = copy.open();
        let view = vault.view().unwrap();
        let refused = view
            .all_versions()
            .filter(|row| {
                matches!(
                    vault.open_version(&view, row),
                    Err(UseVaultError::Tampered { .. })
                )
            })
            .count();
        assert_eq!(refused, 1, "{edit}");
    }
}
