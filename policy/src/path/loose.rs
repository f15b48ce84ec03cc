//! How laxly a server may read a path: what it takes for one path has one loose form.
//!
//! Nothing is allowed or granted by it. It tells which requests a server might take for one whose answer is
//! captured: proxies merge slashes and decode once more, servlet containers cut parameters off, Windows cuts
//! blanks and dots off, frameworks take `.json` behind a name for a wish (Rails, older Spring), a script takes what
//! is behind its own name for the path (`/index.php/token`), and case is forgiven. Each escape is undone however often it was escaped; `\` and what
//! looks like a slash or a dot is one; what is behind a question mark, a hash or a zero octet is left out.

/// The loose form of a normalised path, or of a path pattern; always begins with a slash.
pub(crate) fn loosely(path: &str) -> String {
    let text = folded(&decoded(path.as_bytes()));
    let mut kept: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        let name = segment.split(';').next().unwrap_or("").trim_matches(' ');
        match name {
            ".." => drop(kept.pop()),
            _ => match name.trim_end_matches(['.', ' ']) {
                "" => {}
                name => kept.push(name),
            },
        }
    }
    let mut loose = String::with_capacity(text.len() + 1);
    loose.push('/');
    loose.push_str(&kept.join("/"));
    loose
}

/// Further loose forms of a request's path, of which this is the first, where a script before it, a format behind it, or both are none of it. Patterns
/// have none: what is left of them would stand for more.
pub(crate) fn undressed(loose: &str) -> Vec<String> {
    let whole: Vec<&str> = loose.split('/').skip(1).collect();
    let last = whole.len().saturating_sub(1);
    let script = whole.iter().take(last).rposition(|name| is_script(name));
    let behind = script.and_then(|at| whole.get(at + 1..));
    let mut forms = Vec::new();
    for names in [Some(whole.as_slice()), behind].into_iter().flatten() {
        let Some((last, before)) = names.split_last() else {
            continue;
        };
        for last in [*last, without_format(last)] {
            let form = format!("/{}", [before, &[last]].concat().join("/"));
            if form != loose && !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

/// Whether what follows in a path may be the path that a script of this name is asked for (RFC 3875 §4.1.5).
fn is_script(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| SCRIPTS.contains(&ending))
}

/// A name without what follows its first dot, where that is a word as formats are and no number as versions have.
fn without_format(name: &str) -> &str {
    let begins = name.len() - name.trim_start_matches('.').len();
    let parts = name.get(begins..).and_then(|rest| rest.split_once('.'));
    match parts {
        Some((bare, format)) if format.starts_with(char::is_alphabetic) => {
            name.get(..begins + bare.len()).unwrap_or(name)
        }
        _ => name,
    }
}

/// What names of scripts end with, in lower case.
const SCRIPTS: [&str; 15] = [
    "php", "php5", "phtml", "cgi", "fcgi", "pl", "py", "rb", "asp", "aspx", "ashx", "dll", "exe",
    "jsp", "lua",
];

/// Without percent escapes, those of escapes too, in one pass.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    for octet in path {
        out.push(*octet);
        // What an escape stands for may end another one.
        while let [.., b'%', high, low] = out[..] {
            let (Some(high), Some(low)) = (super::hex_value(high), super::hex_value(low)) else {
                break;
            };
            out.truncate(out.len() - 3);
            out.push(high * 16 + low);
        }
    }
    out
}

/// In lower case, with one slash, one dot and one blank; overlong UTF-8 is read (RFC 3629 §10), what is no UTF-8 is
/// Latin-1.
fn folded(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len());
    let mut rest = octets;
    while let [first, behind @ ..] = rest {
        let (sign, length) = lax(*first, behind);
        rest = behind.get(length..).unwrap_or_default();
        match sign {
            '\0' | '?' | '#' => break,
            '\\' | '\u{2044}' | '\u{2215}' | '\u{2216}' => text.push('/'),
            '\u{2024}' => text.push('.'),
            '\u{2025}' => text.push_str(".."),
            '+' => text.push(' '),
            sign if sign.is_whitespace() || sign.is_control() => text.push(' '),
            sign => text.extend(sign.to_uppercase().flat_map(char::to_lowercase)),
        }
    }
    text
}

/// The first sign, in full width made narrow (UAX #15), and how many octets of `behind` belong to it.
fn lax(first: u8, behind: &[u8]) -> (char, usize) {
    let wanted = match first {
        0xc0..=0xdf => 1,
        0xe0..=0xef => 2,
        0xf0..=0xf7 => 3,
        _ => 0,
    };
    let narrow = |sign: u32| match sign {
        0xff01..=0xff5e => sign - 0xfee0,
        sign => sign,
    };
    let trailing = behind.get(..wanted).unwrap_or_default();
    if wanted == 0 || trailing.len() < wanted || trailing.iter().any(|octet| octet >> 6 != 0b10) {
        return (char::from(first), 0);
    }
    let bits = u32::from(first) & (0x3f >> wanted);
    let sign = trailing
        .iter()
        .fold(bits, |sign, octet| sign << 6 | u32::from(octet & 0x3f));
    match char::from_u32(narrow(sign)) {
        // Full width first, since what is narrow may be a separator.
        Some(sign) => (sign, wanted),
        None => (char::from(first), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_take_for_one_path_has_one_loose_form() {
        for path in [
            "/oauth2/token",
            "/oauth2/token/",
            "//oauth2///token",
            "/OAuth2/Token",
            "/oauth2/token;a=1",
            "/oauth2;x/token",
            "/oauth2/token%3Bx",
            "/oauth2/x/..;/token",
            "/oauth2/token%2F",
            "/oauth2%2ftoken",
            "/%2Foauth2/token",
            "/oauth2/\\token",
            "/oauth2%5Ctoken",
            "/oauth2/token%20",
            "/oauth2/token+",
            "/oauth2/token%C2%A0",
            "/oauth2/token%A0",
            "/oauth2/token.",
            "/oauth2/token%252e",
            "/oauth2%25252Ftoken",
            "/oauth2%2%35%32%46token",
            "/oauth2%C0%AFtoken",
            "/oauth2%E0%80%AFtoken",
            "/oauth2%EF%BC%8Ftoken",
            "/oauth2/x%2F..%2Ftoken",
            "/oauth2/%E2%80%A4/token",
            "/oauth2/token%00.html",
            "/oauth2/token%3Fx",
            "/oauth2/tok%EF%BD%85n",
        ] {
            assert_eq!(loosely(path), "/oauth2/token", "{path}");
        }
        for other in [
            "/oauth2/tokens",
            "/oauth2/token/x",
            "/oauth2/%C3%A9",
            "/oauth2/token.json",
            "/oauth2/%zz",
            "/",
        ] {
            assert_ne!(loosely(other), "/oauth2/token", "{other}");
        }
        assert_eq!(loosely("/"), "/");
        assert_eq!(loosely("/A/**/b*"), "/a/**/b*");
        assert_eq!(loosely("/t/*.json"), "/t/*.json");
    }

    #[test]
    fn what_dresses_a_path_is_left_out() {
        for path in [
            "/oauth2/token.json",
            "/oauth2/token.xml;v=1",
            "/oauth2/token%2Ejson/",
            "/index.php/oauth2/token",
            "/a/App.PHP/oauth2/token.json",
        ] {
            assert!(
                undressed(&loosely(path)).contains(&"/oauth2/token".to_owned()),
                "{path}"
            );
        }
        for path in [
            "/oauth2/token",
            "/v1.0/oauth2/token",
            "/auth/v1.0",
            "/a/.token",
            "/",
        ] {
            assert!(undressed(&loosely(path)).is_empty(), "{path}");
        }
        assert_eq!(undressed("/token.php"), ["/token"]);
        let both = ["/i.php/t", "/t.json", "/t"];
        assert_eq!(undressed("/i.php/t.json"), both);
    }

    #[test]
    fn a_path_of_escaped_escapes_is_read_in_one_pass() {
        let long = format!("/%{}2F", "25".repeat(400_000));
        assert_eq!(loosely(&long), "/");
    }
}
