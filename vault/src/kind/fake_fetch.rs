//! A service of tests: answers what it was told to and remembers what it was asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use gig_policy::SecretName;
use jiff::Timestamp;

use super::{Kind, MintError, MintRequest, Minted};
use crate::{
    clock::StoppedClock,
    fetch::{Fetch, FetchAnswer, FetchError, FetchFuture, FetchRequest},
    secret_bytes::SecretBytes,
};

#[derive(Debug, Default)]
pub(super) struct FakeFetch {
    answers: Mutex<VecDeque<(u16, String)>>,
    asked: Mutex<Vec<FetchRequest>>,
}

impl FakeFetch {
    pub(super) fn answering(status: u16, body: &str) -> Arc<Self> {
        let fake = Self::default();
        fake.answers
            .lock()
            .unwrap()
            .push_back((status, body.to_owned()));
        Arc::new(fake)
    }

    /// The only question so far.
    pub(super) fn asked(&self) -> FetchRequest {
        let mut asked = self.asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        asked.remove(0)
    }
}

impl Fetch for FakeFetch {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        let answer = self.answers.lock().unwrap().pop_front();
        self.asked.lock().unwrap().push(request);
        Box::pin(async move {
            let (status, body) = answer.ok_or_else(|| FetchError::Connect {
                host: "nobody".to_owned(),
                why: "nothing is left to answer".to_owned(),
            })?;
            Ok(FetchAnswer {
                status,
                headers: Vec::new(),
                body: body.into_bytes().into(),
            })
        })
    }
}

/// 2026-01-02T03:04:05Z.
pub(super) const NOW: i64 = 1_767_323_045;

/// Mints from `value` at [`NOW`].
pub(super) async fn mint(
    kind: &dyn Kind,
    value: &str,
    fake: &Arc<FakeFetch>,
) -> Result<Minted, MintError> {
    let name: SecretName = "TOKEN".parse().unwrap();
    let fetch: Arc<dyn Fetch> = Arc::<FakeFetch>::clone(fake);
    let clock = StoppedClock::at(Timestamp::from_second(NOW).unwrap());
    let value = SecretBytes::from(value);
    kind.mint(MintRequest {
        name: &name,
        value: &value,
        shape: None,
        fetch: &fetch,
        clock: &clock,
    })
    .await
}

/// A field of a question.
pub(super) fn field<'a>(request: &'a FetchRequest, name: &str) -> Option<&'a str> {
    let mut fields = request.headers.iter();
    let (_, value) = fields.find(|(field, _)| *field == name)?;
    Some(std::str::from_utf8(value.expose()).unwrap())
}

/// A field of a form body.
pub(super) fn form(request: &FetchRequest, name: &str) -> Option<String> {
    let body = std::str::from_utf8(request.body.expose()).unwrap();
    let mut fields = body.split('&').filter_map(|field| field.split_once('='));
    let (_, value) = fields.find(|(field, _)| *field == name)?;
    Some(value.to_owned())
}

/// The claims and the checked header of an assertion signed with the key in `pem`.
pub(super) fn claims(token: &str, pem: &str) -> (serde_json::Value, serde_json::Value) {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    };
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as B64};
    let (message, signature) = token.rsplit_once('.').unwrap();
    let signature = B64.decode(signature).unwrap();
    let checked = match super::jwt::SigningKey::from_pem(&pem.into()).unwrap() {
        super::jwt::SigningKey::Rsa(key) => {
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key())
                .verify(message.as_bytes(), &signature)
        }
        super::jwt::SigningKey::P256(key) => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key())
                .verify(message.as_bytes(), &signature)
        }
    };
    checked.unwrap();
    let (header, claims) = message.split_once('.').unwrap();
    let json = |part| serde_json::from_slice(&B64.decode(part).unwrap()).unwrap();
    (json(header), json(claims))
}

/// A fresh RSA key as PKCS#8 PEM.
pub(crate) fn rsa_pem() -> String {
    use aws_lc_rs::{encoding::AsDer, rsa::KeyPair};
    let key = KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'static>>::as_der(&key).unwrap();
    let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der.as_ref());
    format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
}
