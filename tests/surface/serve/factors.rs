//! Second factors over real connections: set up, asked for, spent once on every node, kept through changes
//! of keys, backups and restores.

use std::{
    cell::Cell,
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::hmac;
use gig_tests::lab::postgres::Postgres;
use serde_json::json;

use super::{Appliance, Ask, OWN_PASSWORD, PASSWORD, Reply, command};
use crate::answer;

/// What shows codes (RFC 6238), written here once more: the product's own is not asked.
struct Device {
    words: String,
    /// The step of the last code that it gave away.
    last: Cell<u64>,
}

impl Device {
    /// With the secret that a page shows.
    fn of(page: &str) -> Self {
        let words = between(page, "data-copy><code class=\"whole\">", "<");
        assert_eq!(words.len(), 32, "{words}");
        let last = Cell::new(0);
        Self { words, last }
    }

    fn seed(&self) -> Vec<u8> {
        let (mut seed, mut held, mut bits) = (Vec::new(), 0_u32, 0);
        for letter in self.words.bytes() {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                _ => letter - b'2' + 26,
            };
            held = held << 5 | u32::from(value);
            bits += 5;
            if bits >= 8 {
                bits -= 8;
                seed.push(u8::try_from(held >> bits & 0xff).expect("an octet"));
            }
        }
        seed
    }

    fn code(&self, step: u64) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.seed());
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let tag = tag.as_ref();
        let at = usize::from(tag[19] & 15);
        let four: [u8; 4] = tag[at..at + 4].try_into().expect("four");
        format!(
            "{:06}",
            (u32::from_be_bytes(four) & 0x7fff_ffff) % 1_000_000
        )
    }

    /// One that it has not shown before, as soon as there is one that is taken.
    fn next(&self) -> String {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
            let now = now.as_secs() / 30;
            let step = (self.last.get() + 1).max(now);
            // Clocks may be one step apart.
            if step <= now + 1 {
                self.last.set(step);
                return self.code(step);
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }

    /// The one that it gave away last.
    fn same(&self) -> String {
        self.code(self.last.get())
    }
}

fn between(text: &str, before: &str, after: &str) -> String {
    let rest = text.split_once(before);
    let found = rest.and_then(|(_, rest)| rest.split_once(after));
    found
        .unwrap_or_else(|| panic!("no {before}: {text}"))
        .0
        .to_owned()
}

const PAGE: &str = "/people/second-factor";

impl Appliance {
    fn send_factor(&self, cookie: &str, fields: &str) -> Reply {
        self.form(PAGE, fields).cookie(cookie).send(self)
    }

    /// Sets a factor up; the device, and the codes to write down.
    fn enrol(&self, cookie: &str, password: &str) -> (Device, Vec<String>) {
        let password = password.replace(' ', "+");
        let begun = self.send_factor(cookie, &format!("act=begin&password={password}"));
        assert_eq!(begun.status, 200, "{begun:?}");
        assert!(begun.body.contains("<svg class=\"qr\""), "{begun:?}");
        let device = Device::of(&begun.body);
        let draft = between(&begun.body, "name=\"draft\" value=\"", "\"");
        let wrong = format!("act=confirm&draft={draft}&code=000000");
        let wrong = self.send_factor(cookie, &wrong);
        assert_eq!(wrong.status, 400, "{wrong:?}");
        assert!(
            wrong.body.contains(&device.words),
            "it goes on with the same"
        );
        let made = format!("act=confirm&draft={draft}&code={}", device.next());
        let made = self.send_factor(cookie, &made);
        assert_eq!(made.status, 200, "{made:?}");
        let codes = made.body.split("<li><code>").skip(1);
        let codes = codes.map(|rest| rest.split('<').next().expect("a code").to_owned());
        let codes: Vec<String> = codes.collect();
        assert_eq!(codes.len(), 10, "{made:?}");
        let later = Ask::new("GET", PAGE).cookie(cookie).send(self);
        assert!(!later.body.contains(&codes[0]) && !later.body.contains(&device.words));
        (device, codes)
    }

    fn tries(&self, password: &str, code: &str) -> Reply {
        let password = password.replace(' ', "+");
        let fields = format!("name=ana&password={password}&code={code}");
        self.form("/sign-in", &fields).send(self)
    }

    #[track_caller]
    fn refuses(&self, password: &str, code: &str) {
        let refused = self.tries(password, code);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(
            refused
                .body
                .contains("the name, the password or the code is not right")
        );
        assert!(!refused.head.contains("set-cookie"), "{refused:?}");
    }

    #[track_caller]
    fn takes(&self, password: &str, code: &str) -> String {
        let taken = self.tries(password, code);
        assert_eq!(taken.status, 303, "{taken:?}");
        taken.cookie()
    }
}

/// Whoever came by the password alone is out, and to begin anew is no way to try passwords and codes.
fn assert_others_are_out(appliance: &Appliance, cookie: &str, stranger: &str) {
    let seen = |cookie: &str| {
        let ask = Ask::new("GET", "/people").cookie(cookie);
        ask.send(appliance).status
    };
    assert_eq!((seen(cookie), seen(stranger)), (200, 303));
    for password in [PASSWORD, "wrong wrong wrong"] {
        let password = password.replace(' ', "+");
        let fields = format!("act=begin&password={password}&code=aaaa-aaaa-aaaa-aaaa");
        assert_eq!(appliance.send_factor(cookie, &fields).status, 409);
    }
}

#[test]
fn a_second_factor_is_set_up_asked_for_and_removed_and_no_code_serves_twice() {
    let server = Postgres::start();
    for database in [None, Some(server.url("postgres"))] {
        let folder = tempfile::tempdir().expect("a folder");
        let appliance = Appliance::start_on(folder, &[], database);
        let cookie = appliance.first_admin();
        let auditor = appliance.token("auditor");
        let guess = appliance.send_factor(&cookie, "act=begin&password=wrong+wrong+wrong");
        assert_eq!(guess.status, 403, "{guess:?}");
        let stranger = appliance.takes(PASSWORD, "");
        let (device, codes) = appliance.enrol(&cookie, PASSWORD);
        // Neither a wrong password nor the first of all is a trouble of the vault's.
        let said = appliance.said();
        assert!(!said.contains("seals for gig itself"), "{said}");

        assert_others_are_out(&appliance, &cookie, &stranger);
        appliance.refuses(PASSWORD, "");
        // That which set it up.
        appliance.refuses(PASSWORD, &device.same());
        let signed_in = appliance.takes(PASSWORD, &device.next());
        appliance.refuses(PASSWORD, &device.same());
        appliance.takes(PASSWORD, &codes[3].to_uppercase());
        appliance.refuses(PASSWORD, &codes[3]);
        let people = Ask::new("GET", "/people")
            .cookie(&signed_in)
            .send(&appliance);
        for words in [
            "password and code",
            "password and recovery code",
            "second factor",
        ] {
            assert!(people.body.contains(words), "{words}: {people:?}");
        }
        let left = Ask::new("GET", PAGE).cookie(&signed_in).send(&appliance);
        assert!(left.body.contains("9 recovery codes are left"), "{left:?}");

        // A password of one's own is changed with a code, and so is the factor removed.
        let [old, new] = [PASSWORD, OWN_PASSWORD].map(|one| one.replace(' ', "+"));
        let fields = format!("current={old}&password={new}&again={new}");
        let change = |code: &str| {
            let fields = format!("{fields}&code={code}");
            let form = appliance.form("/people/password", &fields);
            form.cookie(&signed_in).send(&appliance)
        };
        assert_eq!(change("").status, 403);
        assert_eq!(change(&codes[0]).status, 303);
        let again = appliance.takes(OWN_PASSWORD, &codes[1]);
        let remove = |password: &str, code: &str| {
            let fields = format!("act=remove&password={password}&code={code}");
            appliance.send_factor(&again, &fields).status
        };
        assert_eq!((remove(&new, ""), remove(&old, &codes[2])), (403, 403));
        // Nor does an answer say which of the two is wrong.
        for password in [&old, &new] {
            let fields = format!("act=remove&password={password}&code=aaaa-aaaa-aaaa-aaaa");
            let answer = appliance.send_factor(&again, &fields);
            let told = "the password or the code is not right";
            assert!(
                answer.status == 403 && answer.body.contains(told),
                "{answer:?}"
            );
        }
        assert_eq!(remove(&new, &codes[2]), 303);
        appliance.takes(OWN_PASSWORD, "");

        let told = |event: &str| {
            let found = appliance.records(&auditor, &format!("event={event}&limit=100"));
            found
                .iter()
                .map(|one| one["findings"].to_string())
                .collect::<String>()
        };
        let (people, visits) = (told("admin"), told("auth"));
        for words in [
            "ana enrolled a second factor, 10 recovery",
            "ana has no second factor",
        ] {
            assert!(people.contains(words), "{words}: {people}");
        }
        for words in [
            "signed in with a code",
            "signed in with a recovery code",
            "sign-in refused",
        ] {
            assert!(visits.contains(words), "{words}: {visits}");
        }
        assert_nowhere(&appliance, &device);
    }
}

/// What a device knows is in no file of gig's, but for sealed.
fn assert_nowhere(appliance: &Appliance, device: &Device) {
    let seed = device.seed();
    let mut folders = vec![appliance.folder.path().to_owned()];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let kind = entry.file_type().expect("its kind");
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let octets = fs::read(entry.path()).expect("a file");
                let has = |what: &[u8]| octets.windows(what.len()).any(|some| some == what);
                assert!(!has(&seed) && !has(device.words.as_bytes()), "{entry:?}");
                looked += 1;
            }
        }
    }
    assert!(looked > 2, "{looked} files");
    assert!(!appliance.said().contains(&device.words));
}

#[test]
fn a_lost_device_is_helped_by_another_admin_or_the_owner_and_by_nobody_else() {
    let appliance = Appliance::start();
    let ana = appliance.first_admin();
    let (_device, _) = appliance.enrol(&ana, PASSWORD);
    let ben = appliance.member(&ana, "ben", "admin");
    let cem = appliance.member(&ana, "cem", "editor");
    let path = "/api/v1/users/ana/second-factor";
    let origin = format!("http://{}", appliance.address);
    let remove = |cookie: &str| {
        let ask = Ask::new("DELETE", path).cookie(cookie);
        ask.header("Origin", &origin).send(&appliance).status
    };
    // Not even their own, without password and code.
    assert_eq!((remove(&cem), remove(&ana)), (403, 403));
    assert_eq!((remove(&ben), remove(&ben)), (204, 404));
    let ana = appliance.takes(PASSWORD, "");
    let (_device, _) = appliance.enrol(&ana, PASSWORD);

    let rule = appliance.form("/people/password", &{
        let [old, new] = [PASSWORD, OWN_PASSWORD].map(|one| one.replace(' ', "+"));
        format!("current={old}&password={new}&again={new}")
    });
    assert_eq!(rule.cookie(&ana).send(&appliance).status, 403, "no code");
    let on = appliance.gig(&["policy", "two-person", "on"], "");
    assert_eq!(on.status, 0, "{on:?}");
    assert_eq!(remove(&ben), 409, "two people change policies");
    let removed = appliance.gig(&["user", "factor", "ana", "--remove"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    appliance.takes(PASSWORD, "");
    let token = appliance.token("auditor");
    let told = appliance.records(&token, "event=admin&limit=20");
    let told = told.iter().map(|one| one["findings"].to_string());
    let told: Vec<String> = told
        .filter(|words| words.contains("no second factor"))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("two-person rule passed"), "{told:?}");
}

#[test]
fn a_role_that_asks_for_a_factor_shows_nothing_else_before() {
    let appliance = Appliance::start();
    let ana = appliance.first_admin();
    let origin = format!("http://{}", appliance.address);
    let rule = "/api/v1/second-factor-rule";
    let put = |roles: &[&str]| {
        let ask = Ask::new("PUT", rule).cookie(&ana).header("Origin", &origin);
        ask.json(&json!({"roles": roles})).send(&appliance)
    };
    assert_eq!(put(&["king"]).status, 422);
    assert_eq!(
        put(&["admin", "editor"]).json(),
        json!({"roles": ["editor", "admin"]})
    );
    // At once, whoever they are.
    let page = Ask::new("GET", "/policies").cookie(&ana).send(&appliance);
    assert_eq!((page.status, page.location()), (303, PAGE), "{page:?}");
    let api = Ask::new("GET", "/api/v1/me").cookie(&ana).send(&appliance);
    assert_eq!(api.status, 403, "{api:?}");
    assert!(
        api.body.contains("urn:gig:problem:second_factor"),
        "{api:?}"
    );
    assert_eq!(put(&[]).status, 403);
    let own = Ask::new("GET", PAGE).cookie(&ana).send(&appliance);
    assert!(
        own.body.contains("Your role needs a second factor"),
        "{own:?}"
    );
    // A program's token is its own proof.
    let token = appliance.token("viewer");
    let me = Ask::new("GET", "/api/v1/me").token(&token).send(&appliance);
    assert_eq!(me.status, 200, "{me:?}");
    appliance.enrol(&ana, PASSWORD);
    let page = Ask::new("GET", "/policies").cookie(&ana).send(&appliance);
    assert_eq!(page.status, 200, "{page:?}");
    let listed = appliance.gig(&["user", "ls"], "");
    assert!(listed.output.contains("admin, second factor"), "{listed:?}");
    let none = appliance.gig(&["user", "ask-factor", "none"], "");
    assert_eq!(none.status, 0, "{none:?}");
    let now = Ask::new("GET", rule).cookie(&ana).send(&appliance);
    assert_eq!(now.json(), json!({"roles": []}));
}

#[test]
fn a_code_serves_once_on_all_nodes_and_a_node_with_another_key_lets_nobody_in() {
    let server = Postgres::start();
    let node = |key: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let url = server.url("postgres");
        let key = [("GIG_MASTER_KEY", key)];
        Appliance::start_with(folder, &[], Some(url), &key)
    };
    let (key, other) = ("1".repeat(64), "2".repeat(64));
    let (one, two) = (node(&key), node(&key));
    let cookie = two.first_admin();
    let (device, codes) = two.enrol(&cookie, PASSWORD);
    one.takes(PASSWORD, &device.next());
    two.refuses(PASSWORD, &device.same());
    two.takes(PASSWORD, &codes[0]);
    one.refuses(PASSWORD, &codes[0]);
    let stranger = node(&other);
    for code in ["", codes[1].as_str()] {
        let refused = stranger.tries(PASSWORD, code);
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.body.contains("master key"), "{refused:?}");
        assert!(!refused.head.contains("set-cookie"), "{refused:?}");
    }
    // It was not used up by that.
    one.takes(PASSWORD, &codes[1]);
}

#[test]
fn a_factor_outlives_another_master_key_and_a_restore() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let (device, codes) = appliance.enrol(&cookie, PASSWORD);
    let listed = appliance.gig(&["secret", "ls"], "");
    assert!(!listed.output.contains("second factors"), "{listed:?}");
    let rotated = appliance.gig(&["secret", "rotate", "--master", "--grace", "0s"], "");
    assert_eq!(rotated.status, 0, "{rotated:?}");
    appliance.takes(PASSWORD, &device.next());
    let file = appliance.folder.path().join("backup").display().to_string();
    let made = appliance.gig(&["backup", &file], "");
    assert_eq!(made.status, 0, "{made:?}");

    let restored = |with_key: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut restore = command(&folder, None);
        restore.args(["restore", &file]);
        let done = answer(restore, "");
        assert_eq!(done.status, 0, "{done:?}");
        if with_key {
            let key = folder.path().join("gig/master.key");
            fs::copy(appliance.path("master.key"), key).expect("the key");
        }
        Appliance::start_in(folder, &[])
    };
    let whole = restored(true);
    // Used codes are used there, too.
    whole.refuses(PASSWORD, &device.same());
    whole.takes(PASSWORD, &codes[0]);
    let keyless = restored(false);
    assert_eq!(keyless.tries(PASSWORD, &codes[0]).status, 503);
    assert!(
        !keyless.path("master.key").exists(),
        "no other key was made"
    );
    let removed = keyless.gig(&["user", "factor", "ana", "--remove"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    keyless.takes(PASSWORD, "");
}
