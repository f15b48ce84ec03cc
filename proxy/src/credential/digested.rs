//! The header fields that say what a body hashes to. Where a body is another than was sent, each is made
//! anew or left out by who changed it; whoever does either goes by this list.

use http::HeaderName;

/// Of RFC 9530, RFC 3230 and RFC 1864, and of storage services.
pub(crate) const DIGESTS: [HeaderName; 17] = [
    CONTENT_MD5,
    DIGEST,
    GOOGLE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("x-amz-checksum-sha256"),
    HeaderName::from_static("x-amz-checksum-sha1"),
    HeaderName::from_static("x-amz-checksum-crc32"),
    HeaderName::from_static("x-amz-checksum-crc32c"),
    HeaderName::from_static("x-amz-checksum-crc64nvme"),
    // Artifactory's, Backblaze's and Azure's.
    HeaderName::from_static("x-checksum"),
    HeaderName::from_static("x-checksum-md5"),
    HeaderName::from_static("x-checksum-sha1"),
    HeaderName::from_static("x-checksum-sha256"),
    HeaderName::from_static("x-checksum-sha512"),
    HeaderName::from_static("x-bz-content-sha1"),
    HeaderName::from_static("x-ms-content-crc64"),
];
pub(crate) const DIGEST: HeaderName = HeaderName::from_static("digest");
pub(crate) const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// What AWS's signatures cover, and who signs makes anew.
pub(crate) const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
/// Google Cloud Storage's, written like `Digest`.
pub(crate) const GOOGLE: HeaderName = HeaderName::from_static("x-goog-hash");
