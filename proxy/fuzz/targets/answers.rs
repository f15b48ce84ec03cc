//! An origin's answer over HTTP/1.1: what is read without hyper has one reading, and what is not is left
//! as it came.

use bytes::Bytes;
use gig_proxy::upstream::http1::head::{Read, is_begun, read};
use http::{StatusCode, header};

/// What came after a request, the first octet of which says to which kind.
pub fn run(data: &[u8]) {
    let Some((kind, came)) = data.split_first() else {
        return;
    };
    let to_head = kind & 1 == 1;
    let answer = match read(Bytes::copy_from_slice(came), to_head) {
        Read::Answer(answer) => answer,
        Read::Unusual(left) => return assert_eq!(left, came, "hyper gets all of it"),
    };
    assert!(!is_begun(came), "what is whole is not waited for");
    assert!(came.ends_with(&answer.first));
    let section = &came[..came.len() - answer.first.len()];
    assert!(
        section.starts_with(b"HTTP/1.1 ")
            || section.starts_with(b"\n")
            || section.starts_with(b"\r")
    );
    assert!(section.ends_with(b"\r\n\r\n"));
    let status = answer.head.status();
    assert!(!status.is_informational());
    let fields = answer.head.headers();
    assert!(!fields.contains_key(header::TRANSFER_ENCODING));
    let lengths: Vec<_> = fields.get_all(header::CONTENT_LENGTH).iter().collect();
    let bare = to_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    match *lengths {
        [] => assert!(bare && answer.length == 0),
        [length] => {
            let length: u64 = length.to_str().unwrap().parse().unwrap();
            assert_eq!(answer.length, if bare { 0 } else { length });
        }
        _ => panic!("two lengths"),
    }
}
