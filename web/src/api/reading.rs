//! What a request brings: body, query and path. What is wrong with one becomes a problem document that says what was
//! asked for, what is wrong where, and where it is said what is taken.

use axum::{
    body::Bytes,
    extract::{
        FromRequest, FromRequestParts, MatchedPath, Query, Request, path::ErrorKind,
        rejection::PathRejection,
    },
    http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

mod strict;

use self::strict::Strict;
use crate::{api_error::Problem, openapi::heeded};

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let asked = Asking::of(request.method(), request.uri());
        let headers = request.headers().clone();
        let octets = asked.octets(request, state).await?;
        let octets = asked.json(&headers, &octets)?;
        read(octets)
            .map(Self)
            .map_err(|error| asked.unreadable(octets, &error))
    }
}

/// A JSON body of which all may be left out, and so may it be: nothing is sent, and nothing said of its kind. Not for what
/// is put in the place of something else: leaving all out would empty that.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let says_nothing =
            !request.headers().contains_key(header::CONTENT_TYPE) || is_json(request.headers());
        let asked = Asking::of(request.method(), request.uri());
        let headers = request.headers().clone();
        // Whether there is a body is known only when it is over, where its length was not said.
        let octets = asked.octets(request, state).await?;
        let octets = match says_nothing && octets.is_empty() {
            true => b"{}",
            false => asked.json(&headers, &octets)?,
        };
        read(octets)
            .map(Self)
            .map_err(|error| asked.unreadable(octets, &error))
    }
}

/// A whole document of JSON.
pub(crate) fn read<T: DeserializeOwned>(octets: &[u8]) -> Result<T, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(octets);
    let read = T::deserialize(Strict(&mut json))?;
    json.end()?;
    Ok(read)
}

/// The query.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        read.map(|Query(asked)| Self(asked)).map_err(|rejection| {
            let why = cause(&rejection);
            let words = format!("its query cannot be used: {why}; {DESCRIBED}");
            Asking::of(&parts.method, &parts.uri).refused(StatusCode::BAD_REQUEST, &words)
        })
    }
}

/// Refuses a query where an operation takes none: what somebody asks for by it would be done as if nothing was said.
pub(crate) async fn queried(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let known = route.and_then(|route| heeded(request.method(), route.as_str()));
    let asks = request.uri().query().is_some_and(|query| !query.is_empty());
    if asks && known.is_some_and(|known| !known.query) {
        let words = format!("it takes no query: leave it out; {DESCRIBED}");
        let asked = Asking::of(request.method(), request.uri());
        return asked
            .refused(StatusCode::BAD_REQUEST, &words)
            .into_response();
    }
    next.run(request).await
}

/// Names and numbers in the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(named)| Self(named))
            .map_err(|rejection| {
                let asked = Asking::of(&parts.method, &parts.uri);
                asked.refused(rejection.status(), &misnamed(&rejection))
            })
    }
}

/// What was asked for.
pub(crate) struct Asking(String);

impl Asking {
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        // In a URI everything is visible ASCII; it may be long.
        let path: String = uri.path().chars().take(LONGEST).collect();
        Self(format!("{method} {path}"))
    }

    /// The whole body.
    async fn octets<S: Send + Sync>(&self, request: Request, state: &S) -> Result<Bytes, Problem> {
        let octets = Bytes::from_request(request, state).await;
        octets.map_err(|rejection| {
            let words = match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => {
                    "its body is longer than anything that is taken here"
                }
                _ => "its body broke off: send it again",
            };
            self.refused(rejection.status(), words)
        })
    }

    /// A body that is said to be JSON.
    fn json<'a>(&self, headers: &HeaderMap, octets: &'a [u8]) -> Result<&'a [u8], Problem> {
        let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
        if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            let words =
                "its body is coded (Content-Encoding), which is not undone here: send it as it is";
            return Err(self.refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
        }
        if headers.get_all(header::CONTENT_TYPE).iter().count() > 1 {
            let words = "it has more than one Content-Type: which one is meant nobody can say";
            return Err(self.refused(StatusCode::BAD_REQUEST, words));
        }
        if is_json(headers) {
            return Ok(octets);
        }
        let words = "its body is not said to be JSON: send it with Content-Type: application/json";
        Err(self.refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, words))
    }

    pub(crate) fn refused(&self, status: StatusCode, words: &str) -> Problem {
        Problem::new(
            status,
            "invalid",
            format!("{} was not done: {words}", self.0),
        )
    }

    /// A body that is no JSON, or JSON of something else.
    fn unreadable(&self, octets: &[u8], error: &serde_json::Error) -> Problem {
        let (line, column) = (error.line().max(1), error.column().max(1));
        let said = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let why = said.strip_suffix(&place).unwrap_or(&said);
        // Where one thing is wanted and another one stands, the reader takes what is well formed for a fault of form.
        let is_json = || serde_json::from_slice::<IgnoredAny>(octets).is_ok();
        let (status, what) = match error.classify() {
            Category::Syntax if is_json() => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "its JSON body is not what is taken here",
            ),
            Category::Data => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "its JSON body is not what is taken here",
            ),
            Category::Syntax | Category::Eof | Category::Io => {
                (StatusCode::BAD_REQUEST, "its body is no JSON")
            }
        };
        let words = format!("{what}: line {line}, column {column}: {why}; {DESCRIBED}");
        let mut problem = self.refused(status, &words);
        problem.problems = vec![gig_policy::Problem {
            line: line as u64,
            column: column as u64,
            message: why.to_owned(),
        }];
        problem
    }
}

/// What is wrong with a path.
pub(crate) fn misnamed(rejection: &PathRejection) -> String {
    let PathRejection::FailedToDeserializePathParams(failed) = rejection else {
        return "its path names nothing that is here".to_owned();
    };
    match failed.kind() {
        ErrorKind::InvalidUtf8InPathParam { key } => {
            format!(
                "{key} in its path is not UTF-8 when its percent-encoding is undone: encode it as UTF-8"
            )
        }
        ErrorKind::ParseErrorAtKey {
            value,
            expected_type,
            ..
        }
        | ErrorKind::ParseErrorAtIndex {
            value,
            expected_type,
            ..
        }
        | ErrorKind::ParseError {
            value,
            expected_type,
        } => format!(
            "{value:?} in its path: there it takes {}",
            kind(expected_type)
        ),
        other => format!("its path cannot be used: {other}"),
    }
}

/// A type of ours as others call it.
fn kind(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" => "a whole number from 0 on",
        other => other,
    }
}

/// As axum takes it (RFC 6839 §3.1 for `+json`).
fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE);
    let said = said.and_then(|value| value.to_str().ok());
    let said = said.and_then(|text| text.split(';').next());
    let said = said.unwrap_or_default().trim().to_ascii_lowercase();
    let below = said.strip_prefix("application/");
    below.is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

/// What lies under an error of the framework, in words of its own.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

const DESCRIBED: &str = "/api/v1/openapi.json describes what is taken";
/// Longer than any path of the API with names in it that can be.
const LONGEST: usize = 300;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        #[serde(default)]
        version: u64,
    }

    async fn body(kind: &str, text: &str) -> Result<Wanted, Problem> {
        let request = Request::put("/api/v1/x").header(header::CONTENT_TYPE, kind);
        let request = request.body(text.to_owned().into()).unwrap();
        let read = Body::<Wanted>::from_request(request, &()).await;
        read.map(|Body(wanted)| wanted)
    }

    #[tokio::test]
    async fn a_body_that_cannot_be_read_says_where_and_why() {
        let read = body("application/json; charset=utf-8", r#"{"version": 3}"#).await;
        assert_eq!(read.unwrap().version, 3);
        let read = body("application/merge-patch+json", "{}").await;
        assert_eq!(read.unwrap().version, 0);
        for (kind, text, status, place, words) in [
            (
                "application/json",
                "{\n \"version\" 3}",
                400,
                (2, 12),
                "no JSON: line 2",
            ),
            (
                "application/json",
                "{\"version\": 3",
                400,
                (1, 13),
                "no JSON",
            ),
            ("application/json", "", 400, (1, 1), "no JSON"),
            (
                "application/json",
                "{\n\"hots\": 1}",
                422,
                (2, 6),
                "unknown field `hots`",
            ),
            (
                "application/json",
                "{\"version\": \"x\"}",
                422,
                (1, 15),
                "invalid type",
            ),
        ] {
            let problem = body(kind, text).await.unwrap_err();
            assert_eq!(problem.status().as_u16(), status, "{text}: {problem:?}");
            let at = &problem.problems[0];
            assert_eq!((at.line, at.column), place, "{text}: {problem:?}");
            assert!(problem.detail.contains(words), "{text}: {problem:?}");
            assert!(
                problem.detail.starts_with("PUT /api/v1/x was not done")
                    && problem.detail.contains("openapi.json"),
                "{problem:?}"
            );
        }
        let listed = body("application/json", "[3]").await.unwrap_err();
        assert_eq!(listed.status().as_u16(), 422, "{listed:?}");
        assert!(listed.detail.contains("expected an object"), "{listed:?}");
        for kind in ["text/plain", "application/jsonx", ""] {
            let problem = body(kind, "{}").await.unwrap_err();
            assert_eq!(problem.status().as_u16(), 415, "{kind}");
            assert!(problem.detail.contains("Content-Type: application/json"));
        }
    }

    #[tokio::test]
    async fn a_coded_body_and_one_of_two_kinds_are_refused() {
        for (field, value, status) in [
            ("content-encoding", "gzip", 415),
            ("content-encoding", "identity", 200),
            ("content-type", "text/plain", 400),
        ] {
            let request =
                Request::put("/api/v1/x").header(header::CONTENT_TYPE, "application/json");
            let request = request.header(field, value).body("{}".to_owned().into());
            let read = Body::<Wanted>::from_request(request.unwrap(), &()).await;
            let told = read.map_or_else(|problem| problem.status().as_u16(), |_| 200);
            assert_eq!(told, status, "{field}: {value}");
        }
    }

    /// An empty body in chunks is no body either: its length is known at its end alone.
    #[tokio::test]
    async fn a_body_of_which_all_may_be_left_out_may_be_left_out_itself() {
        #[derive(Debug, Default, PartialEq, Eq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Free {
            note: String,
        }
        let read = async |kind: Option<&str>, chunks: &[&'static str]| {
            let chunks: Vec<Result<_, Infallible>> = chunks.iter().copied().map(Ok).collect();
            let body = axum::body::Body::from_stream(futures_util::stream::iter(chunks));
            let mut request = Request::post("/api/v1/x");
            if let Some(kind) = kind {
                request = request.header(header::CONTENT_TYPE, kind);
            }
            let read = OptionalBody::<Free>::from_request(request.body(body).unwrap(), &()).await;
            read.map(|OptionalBody(free)| free)
                .map_err(|problem| problem.status().as_u16())
        };
        for kind in [None, Some("application/json")] {
            assert_eq!(read(kind, &[]).await, Ok(Free::default()), "{kind:?}");
            assert_eq!(read(kind, &["", ""]).await, Ok(Free::default()), "{kind:?}");
        }
        assert_eq!(read(Some("text/plain"), &[]).await, Err(415));
        assert_eq!(read(None, &["{}"]).await, Err(415));
        let noted = read(Some("application/json"), &["{\"no", "te\": \"x\"}"]).await;
        assert_eq!(noted.unwrap().note, "x");
        assert_eq!(
            read(Some("application/json"), &["{\"not\": 1}"]).await,
            Err(422)
        );
    }

    #[tokio::test]
    async fn a_query_that_cannot_be_read_says_why_in_words_of_ours() {
        for query in ["version=x", "hots=1", "version=1&version=2"] {
            let request = Request::get(format!("/api/v1/x?{query}"));
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            let read = Asked::<Wanted>::from_request_parts(&mut parts, &()).await;
            let problem = read.map(|Asked(wanted)| wanted).unwrap_err();
            assert_eq!(problem.status().as_u16(), 400, "{query}");
            assert!(
                problem
                    .detail
                    .starts_with("GET /api/v1/x was not done: its query")
                    && !problem.detail.contains("deserialize"),
                "{problem:?}"
            );
        }
    }
}
