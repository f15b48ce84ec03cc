//! From a denied record to the rule, in a document of JSON, past an address that is not public, and into a floor.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::json;

use super::{Appliance, Ask};

/// Answers everything, and counts that.
pub(super) fn origin() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("its address").port();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut some = [0; 4096];
            if stream.read(&mut some).is_ok_and(|octets| octets > 0) {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _gone = stream.write_all(answer.as_bytes());
            }
        }
    });
    (port, seen)
}

/// Text as a page shows it.
fn plain(text: &str) -> String {
    let marks = [
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
    ];
    let text = marks
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&#38;", "&").replace("&amp;", "&")
}

impl Appliance {
    fn page(&self, cookie: &str, path: &str) -> String {
        let page = Ask::new("GET", path).cookie(cookie).send(self);
        assert_eq!(page.status, 200, "{page:?}");
        page.body
    }

    /// The newest denial of a kind, once there is one: its page.
    fn denied(&self, cookie: &str, token: &str, kind: &str) -> String {
        let query = format!("verdict=deny&{kind}&limit=1");
        self.until(kind, |one| !one.records(token, &query).is_empty());
        let id = self.records(token, &query)[0]["id"].clone();
        self.page(cookie, &format!("/audit/{}", id.as_str().expect("an id")))
    }

    /// What the first offer of a record's page leads to, saved as it is: the document.
    fn click_twice(&self, cookie: &str, record: &str, policy: &str) -> String {
        let begin = format!("href=\"/policies/{policy}/edit?record=");
        let link = record
            .split(&begin)
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let link = plain(link.unwrap_or_else(|| panic!("no offer: {record}")));
        let editor = self.page(cookie, &format!("/policies/{policy}/edit?record={link}"));
        let between = |from: &str, to: &str| {
            let rest = editor.split(from).nth(1).expect("the field");
            plain(rest.split(to).next().expect("its end"))
        };
        let document = between("autocomplete=\"off\">\n", "</textarea>");
        let version = between("name=\"version\" value=\"", "\"");
        let encoded: String = document
            .bytes()
            .map(|octet| format!("%{octet:02X}"))
            .collect();
        // What it changes was shown, where it concerns all servers.
        let seen = match editor.contains("name=\"seen\"") {
            true => format!("&seen={}", between("name=\"seen\" value=\"", "\"")),
            false => String::new(),
        };
        let fields = format!("version={version}&act=save&document={encoded}{seen}");
        let path = format!("/policies/{policy}/edit");
        let saved = self.form(&path, &fields);
        let saved = saved.cookie(cookie).send(self);
        assert_eq!(saved.status, 303, "{document}: {saved:?}");
        document
    }
}

#[test]
fn json_private_addresses_and_floors_are_two_clicks_away() {
    let (port, seen) = origin();
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let ben = appliance.member(&cookie, "ben", "editor");
    let put = |name: &str, document: &str| {
        let path = format!("/api/v1/policies/{name}");
        let put = Ask::new("PUT", &path).token(&token);
        let put = put
            .header("If-None-Match", "*")
            .json(&json!({ "document": document }));
        assert_eq!(put.send(&appliance).status, 201, "{document}");
    };
    put(
        "web",
        &format!(
            "{{\"version\": 1, \"egress\": [{{\"ip\": \"127.0.0.1\", \"ports\": [{port}], \"protocol\": \"http\"}}]}}"
        ),
    );
    let script = format!(
        "export NO_PROXY= no_proxy=; while :; do curl -s -m 20 -o /dev/null -x \"$HTTPS_PROXY\" http://127.0.0.1:{port}/x; sleep 0.2; done"
    );
    let words = [
        "server", "add", "asker", "--policy", "web", "--", "/bin/sh", "-c", &script,
    ];
    assert_eq!(appliance.gig(&words, "").status, 0);
    let sandbox = appliance.run("asker");
    // A rule names it; where it is stands in its way.
    let record = appliance.denied(&ben, &token, "reason=private_address");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    let document = appliance.click_twice(&ben, &record, "web");
    assert!(
        document.contains("\"allow_private\": [\"127.0.0.1/32\"]"),
        "{document}"
    );
    assert!(
        serde_json::from_str::<serde_json::Value>(&document).is_ok(),
        "{document}"
    );
    appliance.until("it passes", |_| seen.load(Ordering::SeqCst) > 0);

    // A floor that opens something else alone.
    put(
        "ground",
        "version: 1\negress: [{ip: 127.0.0.1, ports: [1], protocol: http, allow_private: [127.0.0.1/32]}]\n",
    );
    let floor = appliance.form("/policies/ground/floor", "server=&profile=&act=set");
    assert_eq!(floor.cookie(&cookie).send(&appliance).status, 303);
    let before = appliance.denied(&cookie, &token, "policy=ground");
    assert!(
        before.contains("The floor <a href=\"/policies/ground\">ground</a> denies it now"),
        "{before}"
    );
    let theirs = appliance.denied(&ben, &token, "policy=ground");
    assert!(
        theirs.contains("Whoever may set floors can open it there.")
            && !theirs.contains("/edit?record="),
        "{theirs}"
    );
    let stopped = seen.load(Ordering::SeqCst);
    let document = appliance.click_twice(&cookie, &before, "ground");
    assert!(
        document.contains("egress: [{ip: 127.0.0.1, ports: [1]"),
        "{document}"
    );
    appliance.until("it passes again", |_| {
        seen.load(Ordering::SeqCst) > stopped + 1
    });
    let stop = format!("/api/v1/sandboxes/{sandbox}");
    let stop = Ask::new("DELETE", &stop).token(&token).send(&appliance);
    assert_eq!(stop.status, 202, "{stop:?}");
}
