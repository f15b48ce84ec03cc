//! HTTP/2 frames by hand, for what no honest library sends (RFC 9113 §4, §6; RFC 7541 §6.2.2).

/// The connection preface and empty SETTINGS.
pub(in crate::tests) fn preface() -> Vec<u8> {
    let mut octets = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    octets.extend(frame(SETTINGS, 0, 0, &[]));
    octets
}

/// One frame.
pub(in crate::tests) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut octets = length[1..].to_vec();
    octets.extend([kind, flags]);
    octets.extend(stream.to_be_bytes());
    octets.extend(payload);
    octets
}

/// A literal field without indexing, neither string Huffman-coded.
pub(in crate::tests) fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut octets = vec![0];
    for text in [name, value] {
        integer(&mut octets, text.len());
        octets.extend_from_slice(text);
    }
    octets
}

/// RFC 7541 §5.1 with a 7-bit prefix.
fn integer(octets: &mut Vec<u8>, value: usize) {
    if value < 127 {
        octets.push(u8::try_from(value).unwrap());
        return;
    }
    octets.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        octets.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    octets.push(u8::try_from(rest).unwrap());
}

/// The header block of a GET for api.test.
pub(in crate::tests) fn block(path: &str) -> Vec<u8> {
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "api.test"),
        (":path", path),
    ]
    .into_iter()
    .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
    .collect()
}

/// A whole request without a body.
pub(in crate::tests) fn request(stream: u32, path: &str, more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = block(path);
    for (name, value) in more {
        block.extend(field(name, value));
    }
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

/// The next frame: type, flags, stream, payload.
pub(in crate::tests) async fn read_frame<S>(stream: &mut S) -> std::io::Result<Frame>
where
    S: tokio::io::AsyncRead + Unpin,
{
    use tokio::io::AsyncReadExt;
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let length = u32::from_be_bytes([0, a, b, c]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await?;
    Ok((kind, flags, u32::from_be_bytes(id), payload))
}

pub(in crate::tests) type Frame = (u8, u8, u32, Vec<u8>);

pub(in crate::tests) const DATA: u8 = 0;
pub(in crate::tests) const HEADERS: u8 = 1;
pub(in crate::tests) const RST_STREAM: u8 = 3;
pub(in crate::tests) const SETTINGS: u8 = 4;
pub(in crate::tests) const CONTINUATION: u8 = 9;
pub(in crate::tests) const END_STREAM: u8 = 1;
pub(in crate::tests) const END_HEADERS: u8 = 4;
