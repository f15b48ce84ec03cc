//! Backups of an appliance: made while it serves, whole or not there, and put in force again.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, SystemTime},
};

use gig_tests::lab::postgres::Postgres;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::{Answer, Appliance, Ask, answer, command};

const WANTED: &str = "version: 1\negress:\n  - host: wanted.test\n";
/// Asks until it is ended: the record never rests.
const ASKER: &str = "while :; do curl -s -m 20 -o /dev/null http://wanted.test/; done";
const VALUE: &str = "value-in-the-backup-9Rk3";

/// A place for an appliance that is not there yet.
struct Elsewhere {
    folder: tempfile::TempDir,
    database: Option<String>,
}

impl Elsewhere {
    fn new(database: Option<String>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, database }
    }

    fn gig(&self, words: &[&str]) -> Answer {
        let mut command: Command = command(&self.folder, self.database.as_deref());
        command.args(words);
        answer(command, "")
    }

    fn restores(&self, file: &str) -> Answer {
        let restored = self.gig(&["restore", file]);
        assert_eq!(restored.status, 0, "{restored:?}");
        restored
    }

    fn start(self) -> Appliance {
        Appliance::start_on(self.folder, &[], self.database)
    }
}

impl Appliance {
    fn backs_up(&self, file: &str) {
        let made = self.gig(&["backup", file], "");
        assert_eq!(made.status, 0, "{made:?}");
    }

    fn backup_path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn document(&self, token: &str) -> Value {
        let reply = Ask::new("GET", "/api/v1/policies/web").token(token);
        reply.send(self).json()["document"].clone()
    }

    fn findings(&self, token: &str) -> String {
        let records = self.records(token, "event=admin&limit=100");
        records
            .iter()
            .map(|one| one["findings"].to_string())
            .collect()
    }
}

#[test]
fn a_backup_that_was_made_while_it_served_brings_everything_back_but_sessions() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    appliance.policy(&token, WANTED);
    appliance.server("asker", ASKER);
    let set = appliance.gig(&["secret", "set", "TOKEN"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    let sandbox = appliance.run("asker");
    let about = format!("sandbox={sandbox}&limit=1");
    appliance.until("it asks", |one| !one.records(&token, &about).is_empty());
    // Each is of one moment, whatever is written meanwhile.
    for name in ["first", "second", "third"] {
        appliance.backs_up(&appliance.backup_path(name));
    }
    let file = appliance.backup_path("third");
    let again = appliance.gig(&["backup", &file], "");
    assert!(
        again.status == 125 && again.errors.contains("already"),
        "{again:?}"
    );
    let octets = fs::read(&file).expect("the backup");
    let holds = |what: &[u8]| octets.windows(what.len()).any(|part| part == what);
    let key = fs::read_to_string(appliance.path("master.key")).expect("the master key");
    assert!(!holds(VALUE.as_bytes()) && !holds(key.trim().as_bytes()));
    // Nothing of it is packed away from this search: a secret's name and a server's script are found.
    assert!(holds(b"TOKEN") && holds(ASKER.as_bytes()));
    // What happens later is in none.
    let removed = appliance.gig(&["server", "rm", "asker"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    let refused = appliance.gig(&["restore", &file, "--replace"], "");
    assert!(
        refused.status == 125 && refused.errors.contains("serves"),
        "{refused:?}"
    );

    let elsewhere = Elsewhere::new(None);
    let restored = elsewhere.restores(&file);
    let told = "the secrets cannot be opened with the key that is here";
    assert!(restored.output.contains(told), "{restored:?}");
    let key_file = elsewhere.folder.path().join("gig/master.key");
    let listed = elsewhere.gig(&["secret", "ls"]);
    assert!(
        listed.status == 125 && listed.errors.contains("bring it back"),
        "{listed:?}"
    );
    fs::copy(appliance.path("master.key"), key_file).expect("bring the key back");
    let listed = elsewhere.gig(&["secret", "ls"]);
    assert!(
        listed.status == 0 && listed.output.contains("TOKEN"),
        "{listed:?}"
    );
    let restored = elsewhere.start();
    let me = Ask::new("GET", "/api/v1/me")
        .cookie(&cookie)
        .send(&restored);
    assert_eq!(me.status, 401, "{me:?}");
    restored.sign_in("ana", super::PASSWORD);
    assert_eq!(restored.document(&token), json!(WANTED));
    let servers = Ask::new("GET", "/api/v1/servers")
        .token(&token)
        .send(&restored);
    assert!(servers.body.contains("asker"), "{servers:?}");
    let findings = restored.findings(&token);
    for word in ["backup made to", "restored from the backup", "set-up done"] {
        assert!(findings.contains(word), "{word}: {findings}");
    }
    assert!(!restored.records(&token, &about).is_empty());
    let whole = restored.gig(&["audit", "verify", &restored.record()], "");
    assert_eq!(whole.status, 0, "{whole:?}");
}

#[test]
fn nothing_is_written_over_and_nothing_half_is_put_in_force() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    appliance.policy(&token, WANTED);
    let file = appliance.backup_path("backup");
    appliance.backs_up(&file);
    let octets = fs::read(&file).expect("the backup");
    let cut = appliance.backup_path("cut");
    fs::write(&cut, &octets[..octets.len() / 2]).expect("cut it off");

    let elsewhere = Elsewhere::new(None);
    let refused = elsewhere.gig(&["restore", &cut]);
    assert_eq!(refused.status, 125, "{refused:?}");
    let left = |folder: &Elsewhere| {
        let entries = fs::read_dir(folder.folder.path().join("gig")).expect("its directory");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("a name")
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(left(&elsewhere), ["serve.lock"]);
    elsewhere.restores(&file);
    // Some other appliance's.
    let user = elsewhere.gig(&["token", "add", "later", "--role", "viewer"]);
    assert_eq!(user.status, 0, "{user:?}");
    let refused = elsewhere.gig(&["restore", &file]);
    assert!(
        refused.status == 125 && refused.errors.contains("--replace"),
        "{refused:?}"
    );
    let tokens = elsewhere.gig(&["token", "ls"]).output;
    assert!(tokens.contains("later"), "{tokens}");
    let replaced = elsewhere.gig(&["restore", &file, "--replace"]);
    assert_eq!(replaced.status, 0, "{replaced:?}");
    let tokens = elsewhere.gig(&["token", "ls"]).output;
    assert!(
        tokens.contains("for-admin") && !tokens.contains("later"),
        "{tokens}"
    );
    let aside = left(&elsewhere);
    let aside = aside.iter().find(|name| name.starts_with("replaced-"));
    let aside = aside.expect("what stood there");
    let old = elsewhere
        .folder
        .path()
        .join("gig")
        .join(aside)
        .join("gig.db");
    assert!(old.exists());
    // What went on since has numbers that are not given again.
    for version in 1..=2 {
        let later = format!("{WANTED}# behind {version}\n");
        let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
        let put = put.header("If-Match", &format!("\"{version}\""));
        let put = put.json(&json!({ "document": later })).send(&appliance);
        assert_eq!(put.status, 200, "{put:?}");
    }
    let later = appliance.backup_path("later");
    appliance.backs_up(&later);
    let replaced = elsewhere.gig(&["restore", &later, "--replace"]);
    assert!(
        replaced.status == 0 && !replaced.output.contains("saved again"),
        "{replaced:?}"
    );
    let replaced = elsewhere.gig(&["restore", &file, "--replace"]);
    let told = "saved again under a number that no version had: web version 1 as 4";
    assert!(replaced.output.contains(told), "{replaced:?}");
    let restored = elsewhere.start();
    assert!(restored.findings(&token).contains(told));
    let policy = Ask::new("GET", "/api/v1/policies/web").token(&token);
    assert_eq!(policy.send(&restored).json()["version"], 4);
    let cookie = restored.first_admin();
    let page = Ask::new("GET", "/policies/web/versions/4").cookie(&cookie);
    let page = page.send(&restored);
    assert_eq!(page.status, 200, "{page:?}");
}

/// Something that is in the way of one part stops it when another is in its place already.
#[test]
fn half_of_an_appliance_serves_nobody_until_a_restore_comes_to_its_end() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    appliance.policy(&token, WANTED);
    let file = appliance.backup_path("backup");
    appliance.backs_up(&file);
    let elsewhere = Elsewhere::new(None);
    let dir = elsewhere.folder.path().join("gig");
    fs::create_dir_all(dir.join(".gig-restore-killed/inner")).expect("what was left");
    fs::write(dir.join("audit"), "in the way").expect("a file");
    let stopped = elsewhere.gig(&["restore", &file]);
    assert_eq!(stopped.status, 125, "{stopped:?}");
    assert!(dir.join("gig.db").exists(), "it came that far");
    assert!(!dir.join(".gig-restore-killed").exists(), "swept");
    for words in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["token", "add", "t", "--role", "admin"],
        &["backup", &appliance.backup_path("half")],
    ] {
        let refused = elsewhere.gig(words);
        let why = "did not come to its end";
        assert!(
            refused.status == 125 && refused.errors.contains(why),
            "{words:?}: {refused:?}"
        );
    }
    fs::remove_file(dir.join("audit")).expect("out of the way");
    let restored = elsewhere.gig(&["restore", &file, "--replace"]);
    assert_eq!(restored.status, 0, "{restored:?}");
    assert!(!dir.join("restoring").exists());
    assert_eq!(elsewhere.start().document(&token), json!(WANTED));
}

/// What a backup that was killed leaves is whole databases.
#[test]
fn what_killed_backups_had_copied_is_removed_and_what_is_being_copied_is_not() {
    let appliance = Appliance::start();
    let place = tempfile::tempdir().expect("a folder");
    let left = |folder: PathBuf, minutes: u64| {
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("gig.db"), "hashes").expect("a file");
        let ago = SystemTime::now() - Duration::from_secs(60 * minutes);
        let open = fs::File::open(&folder).expect("the folder");
        open.set_modified(ago).expect("its time");
        (folder, open)
    };
    let (old, _) = left(place.path().join(".gig-backup-old"), 1_500);
    let (fresh, _) = left(place.path().join(".gig-backup-fresh"), 0);
    let (held, lock) = left(place.path().join(".gig-backup-held"), 1_500);
    let (other, _) = left(place.path().join("gig-backup-of-monday"), 1_500);
    flock(&lock, FlockOperation::LockExclusive).expect("held");
    let file = place.path().join("backup");
    appliance.backs_up(file.to_str().expect("UTF-8"));
    assert!(!old.exists(), "removed");
    assert!(fresh.exists() && held.exists() && other.exists());
    drop(lock);
    let again = place.path().join("again");
    appliance.backs_up(again.to_str().expect("UTF-8"));
    assert!(!held.exists() && fresh.exists());
    // One that went to a stream had them in the data directory.
    let (own, _) = left(appliance.path(".gig-backup-own"), 1_500);
    let _appliance = appliance.kill_and_start_again();
    assert!(!own.exists(), "removed by who serves next");
}

#[test]
fn a_fleets_database_goes_into_a_backup_and_into_another_database() {
    let server = Postgres::start();
    server.sql("postgres", "CREATE DATABASE second");
    let folder = tempfile::tempdir().expect("a folder");
    let fleet = Appliance::start_on(folder, &[], Some(server.url("postgres")));
    let token = fleet.token("admin");
    fleet.policy(&token, WANTED);
    let set = fleet.gig(&["secret", "set", "TOKEN"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    let file = fleet.backup_path("backup");
    fleet.backs_up(&file);
    // To a database of the appliance's own, and to one of a fleet.
    for database in [None, Some(server.url("second"))] {
        let elsewhere = Elsewhere::new(database.clone());
        elsewhere.restores(&file);
        let record = match database {
            None => elsewhere.folder.path().join("gig/audit/record.db"),
            Some(_) => "postgres:".into(),
        };
        let record = &*record.to_string_lossy();
        // The fleet's record is in it, and proves as much.
        let whole = elsewhere.gig(&["audit", "verify", record]);
        assert_eq!(whole.status, 0, "{whole:?}");
        let found = elsewhere.gig(&["audit", "search", record, "--event", "policy.change"]);
        assert!(found.output.contains("policy=web"), "{found:?}");
        // And so is its vault; in one place only.
        let key = elsewhere.folder.path().join("gig/master.key");
        fs::copy(fleet.path("master.key"), key).expect("bring the key back");
        let listed = elsewhere.gig(&["secret", "ls"]);
        assert!(
            listed.output.contains("TOKEN") && !listed.errors.contains("not used"),
            "{listed:?}"
        );
        assert_eq!(elsewhere.start().document(&token), json!(WANTED));
    }
    let occupied = Elsewhere::new(Some(server.url("postgres")));
    let refused = occupied.gig(&["restore", &file]);
    assert!(
        refused.status == 125 && refused.errors.contains("already"),
        "{refused:?}"
    );
    assert_eq!(fleet.document(&token), json!(WANTED));
    // Where it is to be, what it replaces is put aside, sealed as it was.
    let replaced = occupied.gig(&["restore", &file, "--replace"]);
    assert_eq!(replaced.status, 0, "{replaced:?}");
    let folder = occupied.folder.path().join("gig");
    let kept = fs::read_dir(folder).expect("its directory").any(|entry| {
        let entry = entry.expect("an entry").path();
        entry.join("vault-of-the-fleet.db").exists()
    });
    assert!(kept, "{replaced:?}");
    let listed = fleet.gig(&["secret", "ls"], "");
    assert!(listed.output.contains("TOKEN"), "{listed:?}");
}
