//! What is rehearsed is what happens: the same request, rehearsed and sent, comes out the same.

use super::*;
use crate::credential::rehearsal::Rehearsal;
use gig_policy::{Host, Port};

/// A request in pieces, to be rehearsed and to be sent.
struct Case {
    method: &'static str,
    target: String,
    fields: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
}

impl Case {
    fn get(target: &str, fields: &[(&'static str, &str)]) -> Self {
        Self {
            method: "GET",
            target: target.to_owned(),
            fields: fields.iter().map(|(n, v)| (*n, (*v).to_owned())).collect(),
            body: None,
        }
    }

    fn post(kind: &str, body: &str) -> Self {
        Self {
            method: "POST",
            body: Some(body.as_bytes().to_vec()),
            ..Self::get("/with/body", &[("content-type", kind)])
        }
    }

    /// The same, coded.
    fn gzipped(self) -> Self {
        let body = self.body.as_deref().map(coded::gzip);
        let mut fields = self.fields;
        fields.push(("content-encoding", "gzip".to_owned()));
        Self {
            body,
            fields,
            ..self
        }
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::builder().method(self.method).uri(&self.target);
        for (name, value) in &self.fields {
            request = request.header(*name, value);
        }
        let body = self.body.clone();
        request.body(body.map_or_else(empty, full)).unwrap()
    }

    async fn rehearsed(&self, world: &World, host: &str) -> Result<Rehearsal, DenyReason> {
        let mut rehearsal = Rehearsal::new(self.method, ("https", host), &self.target).unwrap();
        for (name, value) in &self.fields {
            rehearsal.field(&format!("{name}: {value}")).unwrap();
        }
        rehearsal.body.clone_from(&self.body);
        let policy = world.lab.subject.policy();
        let host = Host::parse(host).unwrap();
        let permit = rehearsal.decided(&policy, &host, Port::HTTPS);
        let permit = permit.map_err(|refused| refused.reason)?;
        let wallet = world.lab.subject.wallet().unwrap();
        let readied = rehearsal.ready(wallet, &permit).await;
        readied.map_err(|refused| refused.reason)?;
        Ok(rehearsal)
    }
}

fn cases(sentinel: &str) -> Vec<Case> {
    let basic = STANDARD.encode(format!("user:{sentinel}"));
    vec![
        Case::get("/with/a", &[("x-key", sentinel)]),
        Case::get(
            "/with/a",
            &[("authorization", &format!("Bearer {sentinel}"))],
        ),
        Case::get("/with/a", &[("authorization", &format!("Basic {basic}"))]),
        Case::get("/with/a", &[("cookie", &format!("a=b; sid={sentinel}"))]),
        Case::get(&format!("/with/a?key={sentinel}&b=1"), &[]),
        Case::get(&format!("/with/{sentinel}/a"), &[]),
        Case::post("application/json", &format!("{{\"k\":\"{sentinel}\"}}")),
        Case::post(
            "application/x-www-form-urlencoded",
            &format!("k={sentinel}"),
        ),
        Case::post("application/octet-stream", &format!("k={sentinel}")),
        Case::get("/without/a", &[("x-key", sentinel)]),
        Case::get("/with/a", &[("x-key", "nothing")]),
    ]
}

#[tokio::test]
async fn what_is_rehearsed_is_what_happens() {
    for host in ["api.test", "narrow.test", "other.test"] {
        // So short that it comes back as it is: the echo shows what the origin got.
        let world = World::new(host, "v+ l/e=").await;
        for case in cases(&world.sentinel) {
            let rehearsed = case.rehearsed(&world, host).await;
            let before = world.origin.seen.requests().len();
            let answer = world.send(host, case.request()).await;
            let name = format!("{host} {} {:?}", case.target, case.fields);
            match rehearsed {
                Ok(rehearsal) => {
                    let seen = world.seen();
                    assert_eq!(seen.uri.to_string(), rehearsal.target.as_str(), "{name}");
                    for (field, value) in &rehearsal.headers {
                        assert_eq!(seen.headers.get(field), Some(value), "{name}");
                    }
                    assert_eq!(answer.body, rehearsal.body.unwrap_or_default(), "{name}");
                }
                Err(reason) => {
                    assert_eq!(u16::from(answer.status), reason.http_status(), "{name}");
                    assert_eq!(world.origin.seen.requests().len(), before, "{name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_has_another_meaning_is_refused_where_it_is_rehearsed_too() {
    let host = "narrow.test";
    for fields in [
        &[("x-http-method-override", "DELETE")][..],
        &[("x-original-url", "/without/a")],
        &[("host", "other.test")],
        &[("host", "narrow.test:80")],
        &[("host", "narrow.test:443")],
        &[("host", "NARROW.test")],
        &[("host", "{}")],
    ] {
        let world = World::new(host, "v4lue-of-the-token").await;
        let mut case = Case::get("/with/a", fields);
        case.fields.push(("x-key", world.sentinel.clone()));
        let rehearsed = case.rehearsed(&world, host).await;
        let mut request = case.request();
        let named = request.headers_mut().entry("host");
        named.or_insert_with(|| host.parse().unwrap());
        let answer = world.client(host).await.send(request).await;
        let seen = world.origin.seen.requests().len();
        match rehearsed {
            Ok(_) => assert_eq!((answer.status.as_u16(), seen), (200, 1), "{fields:?}"),
            Err(reason) => {
                let refused = (reason.http_status(), 0);
                assert_eq!((answer.status.as_u16(), seen), refused, "{fields:?}");
                assert_eq!(answer.json()["reason"], reason.as_str(), "{fields:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_coded_body_is_looked_into_where_it_is_rehearsed_too() {
    let world = World::new("other.test", "v4lue-of-the-token").await;
    let sentinel = world.sentinel.clone();
    let of = |name: &str| {
        Case::post(
            "application/json",
            &format!("{{\"{name}\":\"{sentinel}\"}}"),
        )
    };
    let refused = of("api_key")
        .gzipped()
        .rehearsed(&world, "other.test")
        .await;
    assert_eq!(refused.err(), Some(DenyReason::SecretMisuse));
    let answer = world
        .send("other.test", of("api_key").gzipped().request())
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let quoted = of("prompt").gzipped();
    let rehearsed = quoted.rehearsed(&world, "other.test").await.unwrap();
    assert_eq!(rehearsed.body, quoted.body);
    let mut broken = of("prompt");
    broken.fields.push(("content-encoding", "gzip".to_owned()));
    assert!(broken.rehearsed(&world, "other.test").await.is_ok());
}
