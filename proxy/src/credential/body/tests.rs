//! What kind of body a header section announces.

use super::*;
use crate::credential::media::is_text;

#[test]
fn a_part_is_binary_where_a_body_would_be() {
    for media in [
        "text/plain",
        "text/html",
        "application/json",
        "application/problem+json",
        "application/xml",
        "image/svg+xml",
        "application/x-www-form-urlencoded",
        "application/graphql",
        "application/x-yaml",
        "application/sql",
        "multipart/mixed",
        "application/octet-stream",
        "application/x-tar",
        "application/grpc",
        "image/png",
        "yaml",
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, media.parse().unwrap());
        let binary = kind(&headers).escape.is_none();
        assert_eq!(is_text(media), !binary, "{media}");
    }
}
