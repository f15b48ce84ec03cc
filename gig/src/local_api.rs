//! Commands' way to the appliance on this machine: its API over the socket in the data directory.

use std::path::PathBuf;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::{
    data_dir,
    output::printable,
    serve::{SOCKET, SocketPath},
};

/// What the appliance answered well.
pub(crate) struct Answer {
    octets: Bytes,
    tag: Option<String>,
}

impl Answer {
    /// As JSON; null where there is nothing.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        if self.octets.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.octets).context("the appliance did not answer in JSON")
    }

    /// Its ETag, without the quotes.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// As it is.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }
}

/// One request, put together.
pub(crate) struct Asking<'a> {
    method: Method,
    path: &'a str,
    headers: Vec<(&'static str, String)>,
    body: Option<&'a Value>,
}

impl<'a> Asking<'a> {
    /// Begins one.
    pub(crate) fn new(method: Method, path: &'a str) -> Self {
        Self {
            method,
            path,
            headers: Vec::new(),
            body: None,
        }
    }

    /// With a header.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// With a body.
    pub(crate) fn body(mut self, body: &'a Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Asks the appliance.
    ///
    /// # Errors
    /// When none runs, or it refuses; its own words say why.
    pub(crate) fn send(self) -> anyhow::Result<Answer> {
        match self.exchange()? {
            (status, answer) if status.is_success() => Ok(answer),
            (status, answer) => refused(status, &answer.octets),
        }
    }

    /// The same; `None` for what is not there.
    ///
    /// # Errors
    /// When none runs, or it refuses.
    pub(crate) fn send_unless_missing(self) -> anyhow::Result<Option<Answer>> {
        match self.exchange()? {
            (status, answer) if status.is_success() => Ok(Some(answer)),
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, answer) => refused(status, &answer.octets).map(Some),
        }
    }

    fn exchange(self) -> anyhow::Result<(StatusCode, Answer)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start gig's own runtime")?;
        runtime.block_on(exchange(self))
    }
}

/// Asks the appliance.
///
/// # Errors
/// As [`Asking::send`].
pub(crate) fn ask(method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
    let mut asking = Asking::new(method, path);
    asking.body = body;
    asking.send()
}

/// A list of the API, all of its pages as one.
///
/// # Errors
/// As [`ask`].
pub(crate) fn whole(path: &str) -> anyhow::Result<Value> {
    let mut all = Vec::new();
    let mut place = path.to_owned();
    loop {
        let mut page = ask(Method::GET, &place, None)?.json()?;
        if let Some(items) = page.get_mut("items").and_then(Value::as_array_mut) {
            all.append(items);
        }
        let Some(next) = page.get("next").and_then(Value::as_str) else {
            return Ok(serde_json::json!({ "items": all }));
        };
        place = format!("{path}?cursor={next}");
    }
}

async fn exchange(asking: Asking<'_>) -> anyhow::Result<(StatusCode, Answer)> {
    let stream = connect().await?;
    let lost = "the appliance was lost";
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .context(lost)?;
    let text = asking.body.map(serde_json::to_vec).transpose()?;
    let mut request = Request::builder()
        .method(asking.method)
        .uri(asking.path)
        .header("host", "gig")
        .header("content-type", "application/json");
    for (name, value) in asking.headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(text.unwrap_or_default())))?;
    let asked = async {
        let response = sender.send_request(request).await.context(lost)?;
        let status = response.status();
        let tag = response
            .headers()
            .get("etag")
            .and_then(|tag| tag.to_str().ok());
        let tag = tag.map(|tag| tag.trim_matches('"').to_owned());
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let octets = body.map_err(|error| anyhow::anyhow!(error)).context(lost)?;
        let octets = octets.to_bytes();
        anyhow::Ok((status, Answer { octets, tag }))
    };
    let mut connection = std::pin::pin!(connection);
    let mut asked = std::pin::pin!(asked);
    tokio::select! {
        answered = &mut asked => answered,
        // What was answered before it closed is still an answer.
        _ = &mut connection => asked.await,
    }
}

/// A connection to the appliance of this machine.
///
/// # Errors
/// When none runs.
pub(crate) async fn connect() -> anyhow::Result<UnixStream> {
    let socket = socket()?;
    let none = || {
        format!(
            "no appliance answers at {}: start one with gig serve, or set GIG_DATA_DIR to its directory",
            socket.display()
        )
    };
    let path = SocketPath::of(socket.clone()).with_context(none)?;
    let connected = UnixStream::connect(path.path()).await;
    connected.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::PermissionDenied => format!(
                "the socket of the appliance, {}, is for the user that runs it and for root: run this as that user, or come \
                 over the network with --url and a token (GIG_TOKEN)",
                socket.display()
            ),
            _ => none(),
        };
        anyhow::Error::new(error).context(why)
    })
}

/// Says why the appliance refuses, in its own words.
///
/// # Errors
/// Always.
pub(crate) fn refused(status: StatusCode, octets: &[u8]) -> anyhow::Result<Answer> {
    let problem: Value = serde_json::from_slice(octets).unwrap_or_default();
    let Some(detail) = problem.get("detail").and_then(Value::as_str) else {
        bail!("the appliance answered {status}");
    };
    let mistakes = problem.get("problems").and_then(Value::as_array);
    let mistakes = mistakes.into_iter().flatten().map(|one| {
        let number = |name| one.get(name).and_then(Value::as_u64);
        let message = one.get("message").and_then(Value::as_str);
        match (number("line"), number("column")) {
            (Some(line), Some(column)) => {
                format!("{line}:{column}: {}", message.unwrap_or_default())
            }
            _ => message.unwrap_or_default().to_owned(),
        }
    });
    let lines = std::iter::once(detail.to_owned()).chain(mistakes);
    let lines: Vec<_> = lines.map(|line| printable(&line)).collect();
    bail!("{}", lines.join("\n"))
}

fn socket() -> anyhow::Result<PathBuf> {
    Ok(data_dir::path()?.join(SOCKET))
}

/// Whether an appliance answers at this machine's socket.
pub(crate) fn is_answered() -> bool {
    let path = socket().and_then(|socket| Ok(SocketPath::of(socket)?));
    path.is_ok_and(|path| std::os::unix::net::UnixStream::connect(path.path()).is_ok())
}

/// `text` as one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~' | b'@') {
            out.push(char::from(octet));
        } else {
            out.push_str(&format!("%{octet:02X}"));
        }
    }
    out
}

/// A page of the record with long lines.
const LARGEST: usize = 64 * 1024 * 1024;
