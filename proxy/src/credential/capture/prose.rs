//! Whether a text that is neither JSON nor a form holds anything that could be a token.
//!
//! Of what a token endpoint answers such a text passes where it holds none: `OK`, and what a proxy says that
//! reaches no server. It errs on the safe side: an id of a request is taken for a token. What is spelled out so
//! that it looks like words (numbers of characters, syllables) is taken for words.

use std::str;

use super::SHORTEST_TOKEN;

/// Whether no word of a text is long enough to be a credential: `{"revoked": true}`, `OK`.
pub(super) fn says_nothing(text: &[u8]) -> bool {
    let mut words = words(text);
    words.all(|word| word.len() < SHORTEST_TOKEN)
}

/// The same, or what is as long is put together of words and numbers, as places and types are.
pub(super) fn is_prose(text: &[u8]) -> bool {
    // What is no text may be one in another coding of characters.
    let strange = |octet: &u8| octet.is_ascii_control() && !octet.is_ascii_whitespace();
    if str::from_utf8(text).is_err() || text.iter().any(strange) {
        return false;
    }
    let mut words = words(text);
    words.all(|word| word.len() < SHORTEST_TOKEN || is_put_together(word))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|octet| octet.is_ascii_whitespace() || b"\"'{}[](),:<>".contains(octet))
}

/// `//www.example.com/errors/not-found`, `text/html;charset=utf-8`: no part is of letters and digits, or of
/// letters in both cases but for the first.
fn is_put_together(word: &[u8]) -> bool {
    let mut parts = word.split(|octet| !octet.is_ascii_alphanumeric());
    parts.all(|part| {
        if part.iter().all(u8::is_ascii_digit) {
            return part.len() <= LONGEST_NUMBER;
        }
        let Some((first, rest)) = part.split_first() else {
            return true;
        };
        let lower = first.is_ascii_alphabetic() && rest.iter().all(u8::is_ascii_lowercase);
        let is_word = lower || part.iter().all(u8::is_ascii_uppercase);
        is_word && part.len() <= LONGEST_WORD
    })
}

/// A year, a port but for the highest, a status.
const LONGEST_NUMBER: usize = 4;
/// `internationalization` has twenty.
const LONGEST_WORD: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proxies_say_is_prose() {
        for text in [
            "",
            "OK",
            "Unauthorized\r\n",
            "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad \
             Gateway</h1></center>\r\n<hr><center>nginx/1.24.0 (Ubuntu)</center>\r\n</body>\r\n</html>\r\n",
            "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>503 Service \
             Unavailable</title>\n</head><body>\n<p>The server is temporarily unable to service your request \
             due to maintenance downtime.</p><hr><address>Apache/2.4.57 (Debian) Server at auth.example.com \
             Port 443</address></body></html>",
            "<meta http-equiv=\"Content-Type\" content=\"text/html;charset=utf-8\">",
            "upstream connect error or disconnect/reset before headers. reset reason: connection termination",
            "Dienst nicht verfügbar: mehr unter https://status.example.com/störungen/heute",
            "\u{feff}{\"error\":\"invalid_grant\",\"error_description\":\"the code has expired\"}",
        ] {
            assert!(is_prose(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_could_be_a_token_is_none() {
        for text in [
            "\u{feff}{\"access_token\":\"RT0a66dd0f1e2b3c4d5e\"}",
            "<p>RT0a66dd0f1e2b3c4d5e</p>",
            "token 550e8400-e29b-41d4-a716-446655440000",
            "code: qWeRtYuIoPaSdFgH",
            "data=aGVsbG8gd29ybGQhISEh",
            "123456-123456-123456",
            "/in?code=4%2F0AeaYSHBx",
            "abcdefghijklmnopqrstuvwxyzabcdef",
            "a\0c\0c\0e\0s\0s\0",
        ] {
            assert!(!is_prose(text.as_bytes()), "{text}");
        }
        assert!(!is_prose(b"\xff\xfea\0c"));
    }
}
