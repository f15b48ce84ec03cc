//! What a signed request says of its signature, in its `Authorization` field or its query.

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION, uri::PathAndQuery};
use percent_encoding::{percent_decode_str, percent_encode};

use super::{TOKEN, TOKEN_QUERY, canonical::IN_QUERY, key::Algorithm};
use crate::credential::treat::Signable;

/// Where a signature stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// In the `Authorization` field.
    Header,
    /// In the query of a presigned URL.
    Query,
}

/// A signature and what it covers.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) form: Form,
    pub(super) algorithm: Algorithm,
    pub(super) key_id: String,
    /// `20130524`.
    pub(super) day: String,
    /// Empty for version 4A.
    pub(super) region: String,
    pub(super) service: String,
    /// `20130524T000000Z`.
    pub(super) date: String,
    /// Names of the fields it covers, in lower case, sorted.
    pub(super) fields: Vec<String>,
    pub(super) signature: String,
    /// Seconds that a presigned URL lives.
    pub(super) expires: Option<i64>,
    /// The query as sent: encoded names and values, in order.
    pub(super) query: Vec<(String, Option<String>)>,
}

impl Signed {
    /// What `headers` and `target` say; `None` when neither holds a signature in full.
    pub(super) fn read(target: &PathAndQuery, headers: &HeaderMap) -> Option<Self> {
        let query = pairs(target.query());
        match headers.get(AUTHORIZATION) {
            Some(field) => Self::from_field(field.to_str().ok()?, headers, query),
            None => Self::from_query(query),
        }
    }

    fn from_field(
        field: &str,
        headers: &HeaderMap,
        query: Vec<(String, Option<String>)>,
    ) -> Option<Self> {
        let (algorithm, rest) = field.trim().split_once(' ')?;
        let (mut credential, mut fields, mut signature) = (None, None, None);
        for member in rest.split(',') {
            let (name, value) = member.trim().split_once('=')?;
            match name {
                "Credential" => credential = Some(value),
                "SignedHeaders" => fields = Some(value),
                "Signature" => signature = Some(value),
                _ => return None,
            }
        }
        let date = headers.get("x-amz-date")?.to_str().ok()?;
        let mut signed = Self::new(Form::Header, (algorithm, credential?), query)?;
        signed.date = date.to_owned();
        signed.set_fields(fields?)?;
        signature?.clone_into(&mut signed.signature);
        Some(signed)
    }

    fn from_query(query: Vec<(String, Option<String>)>) -> Option<Self> {
        let value = |name: &str| -> Option<String> {
            let mut found = query.iter().filter(|(n, _)| n == name);
            let (_, value) = found.next()?;
            if found.next().is_some() {
                return None;
            }
            let value = percent_decode_str(value.as_deref()?).decode_utf8().ok()?;
            Some(value.into_owned())
        };
        let (algorithm, credential) = (value("X-Amz-Algorithm")?, value("X-Amz-Credential")?);
        let (date, fields) = (value("X-Amz-Date")?, value("X-Amz-SignedHeaders")?);
        let (signature, expires) = (value("X-Amz-Signature")?, value("X-Amz-Expires"));
        let expires = match expires {
            Some(text) => Some(text.parse::<i64>().ok().filter(|seconds| *seconds >= 0)?),
            None => None,
        };
        let mut signed = Self::new(Form::Query, (&algorithm, &credential), query)?;
        (signed.date, signed.signature) = (date, signature);
        // Without a life of its own it lives as long as a signed request.
        signed.expires = expires;
        signed.set_fields(&fields)?;
        Some(signed)
    }

    fn new(
        form: Form,
        (algorithm, credential): (&str, &str),
        query: Vec<(String, Option<String>)>,
    ) -> Option<Self> {
        let algorithm = Algorithm::of(algorithm)?;
        let words: Vec<&str> = credential.split('/').collect();
        let (key_id, day, region, service) = match (algorithm, words.as_slice()) {
            (Algorithm::Hmac, [id, day, region, service, "aws4_request"]) => {
                (id, day, *region, service)
            }
            (Algorithm::Ecdsa, [id, day, service, "aws4_request"]) => (id, day, "", service),
            _ => return None,
        };
        Some(Self {
            form,
            algorithm,
            key_id: (*key_id).to_owned(),
            day: (*day).to_owned(),
            region: region.to_owned(),
            service: (*service).to_owned(),
            date: String::new(),
            fields: Vec::new(),
            signature: String::new(),
            expires: None,
            query,
        })
    }

    /// The covered fields: the host is always one of them.
    fn set_fields(&mut self, text: &str) -> Option<()> {
        self.fields = text.split(';').map(str::to_ascii_lowercase).collect();
        self.fields.iter().any(|name| name == "host").then_some(())
    }

    /// Covers one more field.
    pub(super) fn cover(&mut self, name: &str) {
        if !self.fields.iter().any(|field| field == name) {
            self.fields.push(name.to_owned());
            self.fields.sort_unstable();
        }
    }

    /// Covers no field any more that is not sent.
    pub(super) fn keep_present(&mut self, headers: &HeaderMap) {
        self.fields
            .retain(|name| name == "host" || headers.contains_key(name));
    }

    /// S3 spells paths and presigned payloads in its own way.
    pub(super) fn is_s3(&self) -> bool {
        S3.contains(&&*self.service)
    }

    /// The regions that it is signed for.
    pub(super) fn regions(&self, headers: &HeaderMap) -> Vec<String> {
        if self.algorithm == Algorithm::Hmac {
            return vec![self.region.clone()];
        }
        let in_query = self
            .query
            .iter()
            .find(|(name, _)| name == "X-Amz-Region-Set");
        let set = match (self.form, in_query) {
            (Form::Query, Some((_, value))) => {
                let value = value.as_deref().unwrap_or_default();
                percent_decode_str(value).decode_utf8_lossy().into_owned()
            }
            _ => headers
                .get("x-amz-region-set")
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
        };
        set.split(',')
            .map(|region| region.trim().to_owned())
            .collect()
    }

    /// What the signature is for.
    pub(super) fn scope(&self) -> String {
        let (day, region, service) = (&self.day, &self.region, &self.service);
        match self.algorithm {
            Algorithm::Hmac => format!("{day}/{region}/{service}/aws4_request"),
            Algorithm::Ecdsa => format!("{day}/{service}/aws4_request"),
        }
    }

    /// The session token that was sent.
    pub(super) fn token(&self, headers: &HeaderMap) -> Option<String> {
        let in_query = self.query.iter().find(|(name, _)| name == TOKEN_QUERY);
        if let Some((_, value)) = in_query {
            let value = value.as_deref().unwrap_or_default();
            return Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
        }
        let field = headers.get(TOKEN)?;
        Some(String::from_utf8_lossy(field.as_bytes()).into_owned())
    }

    /// Sets one field of the query; at its end where it is new.
    pub(super) fn set_query(&mut self, name: &str, value: &str) {
        let value = Some(percent_encode(value.as_bytes(), &IN_QUERY).to_string());
        match self.query.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.query.push((name.to_owned(), value)),
        }
    }

    /// Puts key id and `signature` where the program's stood.
    pub(super) fn write(&mut self, signature: &str, request: &mut Signable<'_>) -> Option<()> {
        let credential = format!("{}/{}", self.key_id, self.scope());
        match self.form {
            Form::Header => {
                let (word, fields) = (self.algorithm.word(), self.fields.join(";"));
                let text = format!(
                    "{word} Credential={credential}, SignedHeaders={fields}, Signature={signature}"
                );
                let mut value = HeaderValue::try_from(text).ok()?;
                value.set_sensitive(true);
                request.headers.insert(AUTHORIZATION, value);
            }
            Form::Query => {
                self.set_query("X-Amz-Signature", signature);
                let pair = |(name, value): &(String, Option<String>)| match value {
                    Some(value) => format!("{name}={value}"),
                    None => name.clone(),
                };
                let query: Vec<String> = self.query.iter().map(pair).collect();
                let target = format!("{}?{}", request.target.path(), query.join("&"));
                *request.target = PathAndQuery::try_from(target).ok()?;
            }
        }
        Some(())
    }

    /// The credential of a presigned URL is itself signed: it has to be the key's before that.
    pub(super) fn settle_credential(&mut self) {
        if self.form == Form::Query {
            let credential = format!("{}/{}", self.key_id, self.scope());
            self.set_query("X-Amz-Credential", &credential);
        }
    }
}

/// Whether it is signed as S3 was before Version 4: `Authorization: AWS KEYID:…`, or `AWSAccessKeyId` and
/// `Signature` in the query, which SDKs still presign by where nobody asks for another.
pub(super) fn is_version_2(target: &PathAndQuery, headers: &HeaderMap) -> bool {
    let field = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let query = pairs(target.query());
    let has = |name: &str| query.iter().any(|(n, value)| n == name && value.is_some());
    field.is_some_and(|field| field.starts_with(b"AWS "))
        || (has("AWSAccessKeyId") && has("Signature"))
}

fn pairs(query: Option<&str>) -> Vec<(String, Option<String>)> {
    let members = query.unwrap_or_default().split('&');
    members
        .filter(|member| !member.is_empty())
        .map(|member| match member.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (member.to_owned(), None),
        })
        .collect()
}

const S3: [&str; 4] = ["s3", "s3-outposts", "s3-object-lambda", "s3express"];
