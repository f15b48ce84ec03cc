//! Which trailer fields reach an origin: over HTTP/1.1 those alone that the header section announces (RFC 9110
//! §6.6.2), and none that frames or routes (§6.5.1). What goes nowhere takes no value, and no record tells of one.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
        CONTENT_TYPE, HOST, MAX_FORWARDS, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
    },
};

use super::Upload;

/// Those of one request; `None`: any.
#[derive(Debug, Default)]
pub(super) struct Announced(Option<Vec<HeaderName>>);

impl Announced {
    /// Leaves out what would go nowhere.
    pub(super) fn keep(&self, trailers: &mut HeaderMap) {
        let Some(names) = &self.0 else {
            return;
        };
        let unknown = |name: &&HeaderName| !names.contains(name) || NEVER.contains(name);
        let unknown: Vec<_> = trailers.keys().filter(unknown).cloned().collect();
        for name in unknown {
            trailers.remove(name);
        }
    }
}

impl Upload {
    /// Readies it for an origin that speaks HTTP/1.1, to which `headers` go first.
    pub fn over_http1(&mut self, headers: &mut HeaderMap) {
        match self {
            Self::Empty => {}
            Self::Streaming(streaming) => {
                let lines = headers.get_all(TRAILER).iter();
                let lines = lines.filter_map(|line| line.to_str().ok());
                let names = lines.flat_map(|line| line.split(','));
                let names = names.filter_map(|name| name.trim().parse().ok()).collect();
                streaming.announced = Announced(Some(names));
            }
            // It is here, so that all of it can be announced.
            Self::Whole(gathered) => {
                let names = gathered.trailers().map(|trailers| {
                    let names = trailers.keys().filter(|name| !NEVER.contains(name));
                    names.map(HeaderName::as_str).collect::<Vec<_>>().join(", ")
                });
                let names = names.filter(|names| !names.is_empty());
                if let Some(Ok(names)) = names.map(HeaderValue::try_from) {
                    headers.insert(TRAILER, names);
                }
            }
        }
    }

    /// The same for HTTP/2, which takes any.
    pub fn over_http2(&mut self) {
        if let Self::Streaming(streaming) = self {
            streaming.announced = Announced::default();
        }
    }
}

/// As hyper has it.
const NEVER: [HeaderName; 12] = [
    AUTHORIZATION,
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    HOST,
    MAX_FORWARDS,
    SET_COOKIE,
    TRAILER,
    TRANSFER_ENCODING,
    TE,
];
