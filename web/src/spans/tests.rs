//! What is read of a caller's trace.

use http::HeaderValue;

use super::*;

const THEIRS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn read(text: &str) -> Option<Context> {
    let mut headers = HeaderMap::new();
    headers.append("traceparent", HeaderValue::from_str(text).unwrap());
    named(&headers)
}

#[test]
fn a_traceparent_is_read_whole_or_not_at_all() {
    let context = read(THEIRS).unwrap();
    assert_eq!(
        hexadecimal(&context.trace),
        "4bf92f3577b34da6a3ce929d0e0e4736"
    );
    assert_eq!(hexadecimal(&context.span), "00f067aa0ba902b7");
    assert!(read(&THEIRS.replacen("00", "01", 1)).is_some());
    assert!(read(&format!("{}-x", THEIRS.replacen("00", "01", 1))).is_some());
    for wrong in [
        "",
        "00",
        THEIRS.strip_suffix('1').unwrap(),
        &THEIRS.to_uppercase(),
        &THEIRS.replacen("00", "ff", 1),
        &format!("{THEIRS}-x"),
        &format!("{THEIRS}0"),
        &THEIRS.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        &THEIRS.replace("00f067aa0ba902b7", &"0".repeat(16)),
        &THEIRS.replace("4bf9", "4bf"),
        &THEIRS.replace('4', "g"),
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
    let mut twice = HeaderMap::new();
    for _ in 0..2 {
        twice.append("traceparent", HeaderValue::from_static(THEIRS));
    }
    assert_eq!(named(&twice), None);
}
