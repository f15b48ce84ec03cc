//! Bodies as they go over the wire, made up alike every time.

use std::fmt::Write as _;

/// A kind of body.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Its `Content-Type`.
    pub(crate) media: &'static str,
    /// Pieces are put together in its beginning.
    pub(crate) in_pieces: bool,
    /// Nobody sends it who does not want looking to take long.
    pub(crate) hostile: bool,
    /// The values have a quotation mark: what stands around each sentinel is followed.
    pub(crate) marked: bool,
    pub(crate) make: fn(usize) -> Vec<u8>,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const FORM: &str = "application/x-www-form-urlencoded";
const FIELDS: &str = "multipart/form-data; boundary=b0undary";

/// Every kind of body.
pub(crate) const KINDS: [Kind; 20] = [
    Kind::told_apart("json", JSON, json),
    Kind::told_apart("pretty-json", JSON, pretty_json),
    Kind::told_apart("json-in-json", JSON, json_in_json),
    Kind::told_apart("base64-json", JSON, base64_json),
    Kind::whole("html", "text/html", html),
    Kind::whole("source", TEXT, source),
    Kind::whole("bundle", "application/javascript", bundle),
    Kind::whole("random", "application/octet-stream", random),
    Kind::whole("events", "text/event-stream", events),
    Kind::told_apart("form", FORM, form),
    Kind::told_apart("fields", FIELDS, fields),
    Kind::told_apart("file", FIELDS, file),
    Kind::told_apart("json-marks", JSON, json).with_marks(),
    Kind::told_apart("nested-marks", JSON, json_in_json).with_marks(),
    Kind::whole("html-marks", "text/html", html).with_marks(),
    Kind::whole("text-marks", TEXT, source).with_marks(),
    Kind::told_apart("form-marks", FORM, form).with_marks(),
    Kind::told_apart("fields-marks", FIELDS, fields).with_marks(),
    Kind::hostile("blanks", blanks),
    Kind::hostile("breaks", breaks),
];

impl Kind {
    const fn whole(name: &'static str, media: &'static str, make: fn(usize) -> Vec<u8>) -> Self {
        Self {
            name,
            media,
            in_pieces: false,
            hostile: false,
            marked: false,
            make,
        }
    }

    const fn told_apart(
        name: &'static str,
        media: &'static str,
        make: fn(usize) -> Vec<u8>,
    ) -> Self {
        Self {
            in_pieces: true,
            ..Self::whole(name, media, make)
        }
    }

    const fn with_marks(self) -> Self {
        Self {
            marked: true,
            ..self
        }
    }

    const fn hostile(name: &'static str, make: fn(usize) -> Vec<u8>) -> Self {
        Self {
            hostile: true,
            ..Self::whole(name, TEXT, make)
        }
    }
}

/// Numbers that look like chance (SplitMix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn letters(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..length)
            .map(|_| char::from(alphabet[self.below(alphabet.len())]))
            .collect()
    }

    pub(crate) fn hex(&mut self, length: usize) -> String {
        self.letters("0123456789abcdef", length)
    }

    fn sentence(&mut self, words: usize) -> String {
        let words: Vec<&str> = (0..words).map(|_| self.of(&WORDS)).collect();
        words.join(" ")
    }
}

/// A secret as services mint them, or as people make them up.
pub(crate) fn secret(number: usize, marked: bool, chance: &mut Chance) -> Vec<u8> {
    let mark = if marked { "\"\\" } else { "" };
    let text = match number % 6 {
        0 => format!("sk-proj-{}", chance.letters(BASE62, 40)),
        1 => format!("ghp_{}", chance.letters(BASE62, 36)),
        2 => chance.letters(BASE64, 40),
        3 => format!("{}-{}-{}", chance.hex(8), chance.hex(4), chance.hex(12)),
        4 => format!(
            "p@ss/{}%{}&!",
            chance.letters(BASE62, 8),
            chance.letters(BASE62, 6)
        ),
        _ => chance.hex(64),
    };
    (text + mark).into_bytes()
}

fn repeated(length: usize, seed: u64, mut add: impl FnMut(&mut String, &mut Chance)) -> Vec<u8> {
    let (mut text, mut chance) = (String::new(), Chance::new(seed));
    while text.len() < length {
        add(&mut text, &mut chance);
    }
    let mut octets = text.into_bytes();
    octets.truncate(length);
    octets
}

fn record(chance: &mut Chance) -> String {
    format!(
        "{{\"id\":\"{}\",\"url\":\"https://api.example.com/repos/{}/{}\",\"name\":\"{}\",\"size\":{},\"private\":false,\"description\":\"{}\\n{} \\\"{}\\\"\"}}",
        chance.hex(24),
        chance.of(&WORDS),
        chance.letters(BASE62, 12),
        chance.of(&WORDS),
        chance.below(100_000),
        chance.sentence(8),
        chance.sentence(9),
        chance.of(&WORDS),
    )
}

fn json(length: usize) -> Vec<u8> {
    repeated(length, 1, |text, chance| {
        text.push_str(&record(chance));
        text.push(',');
    })
}

fn pretty_json(length: usize) -> Vec<u8> {
    repeated(length, 2, |text, chance| {
        text.push_str(
            &record(chance)
                .replace(",\"", ",\n    \"")
                .replace("\":", "\": "),
        );
        text.push_str(",\n  ");
    })
}

/// As a log or a tool's call has it.
fn json_in_json(length: usize) -> Vec<u8> {
    repeated(length, 3, |text, chance| {
        let inner = record(chance).replace('\\', "\\\\").replace('"', "\\\"");
        write!(text, "{{\"arguments\":\"{inner}\"}},").unwrap();
    })
}

fn html(length: usize) -> Vec<u8> {
    repeated(length, 4, |text, chance| {
        let href = format!(
            "/{}?a={}&amp;b={}%20{}",
            chance.of(&WORDS),
            chance.below(99),
            chance.of(&WORDS),
            chance.of(&WORDS)
        );
        write!(
            text,
            "<li class=\"item {}\">\n  <a href=\"{href}\">{} &lt;{}&gt; &quot;{}&quot;&nbsp;</a>\n  <p>{}</p>\n</li>\n",
            chance.of(&WORDS),
            chance.sentence(2),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.sentence(14),
        )
        .unwrap();
    })
}

fn base64_json(length: usize) -> Vec<u8> {
    repeated(length, 5, |text, chance| {
        write!(
            text,
            "{{\"type\":\"image\",\"data\":\"{}==\"}},",
            chance.letters(BASE64, 4094)
        )
        .unwrap();
    })
}

fn source(length: usize) -> Vec<u8> {
    repeated(length, 6, |text, chance| {
        write!(
            text,
            "    /// {}.\n    fn {}_{}(&mut self, {}: usize) -> Result<(), Error> {{\n        if self.{} > {} && {} % 2 == 0 {{\n            println!(\"{} {{}}\\n\", self.{});\n        }}\n        Ok(())\n    }}\n\n",
            chance.sentence(9),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.below(1000),
            chance.of(&WORDS),
            chance.sentence(3),
            chance.of(&WORDS),
        )
        .unwrap();
    })
}

fn bundle(length: usize) -> Vec<u8> {
    repeated(length, 7, |text, chance| {
        write!(
            text,
            "function {}(e,t,n){{if(!e&&t.{}||n%2)return\"{}\\n\"+e.{}(/\\s+[\\d.]/g,\"\\u00e9\");var r={{{}:t&&t.id,{}:{}}};return r}}",
            chance.letters("abcdefgh", 2),
            chance.of(&WORDS),
            chance.sentence(3),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.below(5000),
        )
        .unwrap();
    })
}

fn random(length: usize) -> Vec<u8> {
    let mut chance = Chance::new(8);
    (0..length)
        .map(|_| chance.next().to_be_bytes()[0])
        .collect()
}

fn form(length: usize) -> Vec<u8> {
    repeated(length, 9, |text, chance| {
        write!(
            text,
            "{}={}%20{}%2C+{}%0D%0A%E4%BD%A0%E5%A5%BD&{}=https%3A%2F%2F{}.example.com%2F{}%3Fq%3D{}&token={}%3D%3D&",
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.of(&WORDS),
            chance.letters(BASE62, 22),
        )
        .unwrap();
    })
}

/// Many short parts, as a browser sends a form.
fn fields(length: usize) -> Vec<u8> {
    repeated(length, 13, |text, chance| {
        write!(
            text,
            "--b0undary\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n",
            chance.of(&WORDS),
            chance.sentence(12),
        )
        .unwrap();
    })
}

/// One long part.
fn file(length: usize) -> Vec<u8> {
    let mut first = true;
    repeated(length, 14, |text, chance| {
        if std::mem::take(&mut first) {
            text.push_str(
                "--b0undary\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\n\r\n",
            );
        }
        text.push_str(&chance.sentence(12));
        text.push('\n');
    })
}

fn events(length: usize) -> Vec<u8> {
    repeated(length, 10, |text, chance| {
        write!(
            text,
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\" {}\"}}}}\n\n",
            chance.of(&WORDS),
        )
        .unwrap();
    })
}

/// Nothing but escapes, as somebody would write who wants looking to take long.
fn blanks(length: usize) -> Vec<u8> {
    repeated(length, 11, |text, _| text.push_str("%20"))
}

fn breaks(length: usize) -> Vec<u8> {
    repeated(length, 12, |text, _| text.push_str("\\n"))
}

const BASE62: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const WORDS: [&str; 24] = [
    "access",
    "token",
    "password",
    "request",
    "the",
    "of",
    "user",
    "and",
    "repository",
    "value",
    "with",
    "commit",
    "branch",
    "for",
    "secret",
    "name",
    "return",
    "is",
    "error",
    "key",
    "build",
    "Session",
    "not",
    "Deployment",
];
