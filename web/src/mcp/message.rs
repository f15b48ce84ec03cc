//! What goes over the endpoint: JSON-RPC 2.0, as the Model Context Protocol has it.
//!
//! Promises that what is passed on is one line and exactly what was judged: a field that stands twice, a
//! message of no shape and a line break within one never get by. What a method means is nobody's business
//! here but for `initialize`, and for the token by which progress finds its request. No clock, no socket.

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::value::RawValue;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// What it is for.
    pub(super) kind: Kind,
    /// As it goes on, without the end of its line.
    pub(super) line: String,
}

/// What a message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something is asked, and answered to by this id.
    Request {
        id: Id,
        /// By which progress with it is told.
        progress: Option<Id>,
        /// It opens a session.
        initialize: bool,
    },
    /// Something is told.
    Notification {
        /// It is progress with this.
        progress: Option<Id>,
        /// The answer to this is not wanted any more.
        cancels: Option<Id>,
    },
    /// An answer, and the revision that an answer to `initialize` names.
    Response { id: Id, revision: Option<String> },
}

/// By which an answer finds its question, or progress its request: a text or a number, and `1` is not `"1"`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(String);

/// What somebody sent at once.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) messages: Vec<Message>,
    /// As a batch.
    pub(super) batch: bool,
}

/// What is no message, by the number that JSON-RPC has for it, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoMessage {
    pub(super) code: i32,
    pub(super) why: &'static str,
}

/// As written. A field that is named twice is refused by serde.
#[derive(Deserialize)]
struct Written<'a> {
    jsonrpc: String,
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    result: Option<&'a RawValue>,
    error: Option<IgnoredAny>,
}

/// What is there, also where it is `null`: a request without an id and one whose id is nothing are two things.
fn there<'a, D: Deserializer<'a>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(from).map(Some)
}

/// Of `params`, what is looked at.
#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow, default, rename = "progressToken")]
    told: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestId")]
    of: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    asked: Option<&'a RawValue>,
}

/// Of the answer to `initialize`.
#[derive(Deserialize)]
struct Opened {
    #[serde(rename = "protocolVersion")]
    revision: String,
}

impl Sent {
    /// Reads a body, or a line without its end.
    ///
    /// # Errors
    /// What is no message, or an empty batch; of a batch all is refused or nothing.
    pub(super) fn read(octets: &[u8]) -> Result<Self, NoMessage> {
        let text = std::str::from_utf8(octets).map_err(|_| PARSE)?;
        let whole: &RawValue = serde_json::from_str(text).map_err(|_| PARSE)?;
        let batch = whole.get().starts_with('[');
        if !batch {
            let messages = vec![Message::read(whole)?];
            return Ok(Self { messages, batch });
        }
        let each: Vec<&RawValue> = serde_json::from_str(whole.get()).map_err(|_| PARSE)?;
        if each.is_empty() || each.len() > MOST_AT_ONCE {
            return Err(INVALID);
        }
        let messages = each.into_iter().map(Message::read);
        let messages = messages.collect::<Result<_, _>>()?;
        Ok(Self { messages, batch })
    }
}

impl Message {
    fn read(raw: &RawValue) -> Result<Self, NoMessage> {
        let written: Written<'_> = serde_json::from_str(raw.get()).map_err(|_| INVALID)?;
        if written.jsonrpc != "2.0" {
            return Err(INVALID);
        }
        let answers = written.result.is_some() || written.error.is_some();
        let kind = match (written.method, written.id, answers) {
            (Some(method), Some(id), false) => {
                let params = params(written.params)?;
                Kind::Request {
                    id: Id::read(id)?,
                    progress: token(params.meta.and_then(|meta| meta.asked))?,
                    initialize: method == "initialize",
                }
            }
            (Some(method), None, false) => {
                let params = params(written.params)?;
                let told = params.told.filter(|_| method == "notifications/progress");
                let progress = token(told)?;
                let of = params.of.filter(|_| method == "notifications/cancelled");
                let cancels = token(of)?;
                Kind::Notification { progress, cancels }
            }
            (None, Some(id), true) => Kind::Response {
                id: Id::read(id)?,
                revision: written.result.and_then(|result| {
                    let opened = serde_json::from_str::<Opened>(result.get());
                    opened.ok().map(|opened| opened.revision)
                }),
            },
            _ => return Err(INVALID),
        };
        // Within JSON a line break is a space between other things: in a text it is escaped, or no JSON.
        let line = raw.get().replace(['\n', '\r'], " ");
        Ok(Self { kind, line })
    }
}

fn params(raw: Option<&RawValue>) -> Result<Params<'_>, NoMessage> {
    let read = raw.map(|raw| serde_json::from_str(raw.get()));
    read.transpose()
        .map(Option::unwrap_or_default)
        .map_err(|_| INVALID)
}

fn token(raw: Option<&RawValue>) -> Result<Option<Id>, NoMessage> {
    raw.map(Id::read).transpose()
}

impl Id {
    /// What a message of this beginning names, where it does so first, as most programs write it.
    pub(super) fn begun(beginning: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(beginning);
        let (before, rest) = text.split_once("\"id\":")?;
        let (id, _) = rest.split_once(',')?;
        let is_first = !before.contains("\"result\"") && !before.contains("\"error\"");
        let id: &RawValue = serde_json::from_str(id).ok().filter(|_| is_first)?;
        Self::read(id).ok()
    }

    /// Also of a text that is spelled with other escapes the same, and of a number as those have it who know no other
    /// than floating ones.
    fn read(raw: &RawValue) -> Result<Self, NoMessage> {
        match serde_json::from_str(raw.get()).map_err(|_| INVALID)? {
            id @ (serde_json::Value::String(_) | serde_json::Value::Number(_)) => {
                let whole = id
                    .as_f64()
                    .filter(|id| id.fract() == 0.0 && id.abs() < EXACT);
                let text = whole.map_or_else(|| id.to_string(), |id| format!("{:.0}", id + 0.0));
                if text.len() > LONGEST_ID {
                    return Err(INVALID);
                }
                Ok(Self(text))
            }
            _ => Err(INVALID),
        }
    }
}

impl NoMessage {
    /// As a message, of which nobody knows what it answers.
    pub(super) fn line(self) -> String {
        let error = serde_json::json!({"code": self.code, "message": self.why});
        serde_json::json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string()
    }
}

/// gig's own answer where the program gives none any more.
pub(super) fn unanswered(id: &Id, why: &str) -> String {
    let why = serde_json::Value::from(format!("gig: {why}"));
    // The id is JSON already.
    let Id(id) = id;
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{CONNECTION_CLOSED},"message":{why}}}}}"#
    )
}

const PARSE: NoMessage = NoMessage {
    code: -32700,
    why: "this is no JSON",
};
const INVALID: NoMessage = NoMessage {
    code: -32600,
    why: "this is no JSON-RPC 2.0 message of the Model Context Protocol",
};
/// As the protocol's own libraries have it.
const CONNECTION_CLOSED: i32 = -32000;
/// Messages in a batch.
const MOST_AT_ONCE: usize = 64;
/// Whole numbers below are exact as floating ones, 2⁵³.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Octets of an id, with its quotes.
const LONGEST_ID: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of messages, good and bad.
    const PIECES: [&str; 18] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\r",
        " ",
        "\"jsonrpc\"",
        "\"2.0\"",
        "\"id\"",
        "1",
        "\"method\"",
        "\"m\"",
        "\"a\\nb\"",
        "null",
        "\"result\"",
    ];

    proptest! {
        #[test]
        fn whatever_is_sent_is_whole_lines_that_are_read_again_as_they_were(
            pieces in prop::collection::vec(0..PIECES.len(), 0..30),
            breaks in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", " "]), 8),
            text in ".*",
        ) {
            let text = serde_json::Value::from(text).to_string();
            let broken = pieces.iter().filter_map(|piece| PIECES.get(*piece)).copied();
            let [a, b, c, d, e, f, g, h] = breaks[..] else { unreachable!() };
            let good = format!(
                "{{{a}\"id\":{b}{text}{c},{d}\"jsonrpc\":{e}\"2.0\",\"method\":{text}{f},\"params\":{g}{{}}{h}}}"
            );
            prop_assert!(Sent::read(good.as_bytes()).is_ok() || text.len() > LONGEST_ID);
            for body in [good.clone(), broken.collect::<String>(), format!("[{good}{a},{good}]")] {
                let Ok(sent) = Sent::read(body.as_bytes()) else { continue };
                for message in sent.messages {
                    prop_assert!(!message.line.contains(['\n', '\r']));
                    let again = Sent::read(message.line.as_bytes()).map(|sent| sent.messages);
                    prop_assert_eq!(again, Ok(vec![message]));
                }
            }
        }
    }

    fn one(text: &str) -> Result<Message, NoMessage> {
        Sent::read(text.as_bytes()).map(|mut sent| sent.messages.remove(0))
    }

    #[test]
    fn each_message_is_told_for_what_it_is() {
        let id = |text: &str| Id(text.to_owned());
        let asked = one(
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":"p"}}}"#,
        );
        let expected = Kind::Request {
            id: id("7"),
            progress: Some(id("\"p\"")),
            initialize: false,
        };
        assert_eq!(asked.unwrap().kind, expected);
        let told = one(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"\u0070","progress":1}}"#,
        );
        let progress = Some(id("\"p\""));
        let cancels = None;
        assert_eq!(told.unwrap().kind, Kind::Notification { progress, cancels });
        let unwanted =
            one(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
        let (progress, cancels) = (None, Some(id("7")));
        assert_eq!(
            unwanted.unwrap().kind,
            Kind::Notification { progress, cancels }
        );
        let answered =
            one(r#"{"jsonrpc":"2.0","id":"7","result":{"protocolVersion":"2025-06-18"}}"#);
        let expected = Kind::Response {
            id: id("\"7\""),
            revision: Some("2025-06-18".to_owned()),
        };
        assert_eq!(answered.unwrap().kind, expected);
        let failed = one(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#);
        assert!(matches!(failed.unwrap().kind, Kind::Response { .. }));
        let batch =
            Sent::read(br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#);
        let batch = batch.unwrap();
        assert!(batch.batch && batch.messages.len() == 2);
    }

    #[test]
    fn an_id_is_known_again_however_its_number_is_written() {
        let id = |text: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{text},"result":{{}}}}"#);
            match one(&text).map(|message| message.kind) {
                Ok(Kind::Response { id: Id(id), .. }) => id,
                other => panic!("{text}: {other:?}"),
            }
        };
        for same in ["1", "1.0", "1e0", "10e-1"] {
            assert_eq!(id(same), "1", "{same}");
        }
        assert_eq!(
            (id("-0"), id("0"), id("-7.0")),
            ("0".into(), "0".into(), "-7".into())
        );
        // No other than it is, where these have none of its own.
        for own in ["\"1\"", "1.5", "9007199254740993", "18446744073709551615"] {
            assert_eq!(id(own), own);
        }
    }

    #[test]
    fn a_message_never_becomes_two_lines_and_stays_what_it_was() {
        let big = "123456789012345678901234567890";
        let text = format!(
            "{{\"jsonrpc\":\r\n\"2.0\",\"id\":1,\"method\":\"m\",\n\"params\":{{\"a\":\"x\\ny\",\"b\":{big}}}}}"
        );
        let line = one(&text).unwrap().line;
        assert!(!line.contains(['\n', '\r']), "{line}");
        assert!(
            line.contains(r#""a":"x\ny""#) && line.contains(big),
            "{line}"
        );
    }

    #[test]
    fn what_is_no_message_is_refused_whole() {
        for text in ["", "{", "nothing", "\u{feff}{}", "{\"a\":\"x\ny\"}"] {
            assert_eq!(one(text).unwrap_err(), PARSE, "{text}");
        }
        assert_eq!(Sent::read(b"\"\xff\"").unwrap_err(), PARSE);
        for text in [
            "1",
            "{}",
            "[]",
            "[1]",
            "[[]]",
            r#"{"jsonrpc":"1.0","method":"m"}"#,
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"m","params":[1]}"#,
            // Whom would it answer?
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"initialize"}"#,
            r#"[{"jsonrpc":"2.0","method":"m"},{}]"#,
        ] {
            assert_eq!(one(text).unwrap_err(), INVALID, "{text}");
        }
        let many = vec![r#"{"jsonrpc":"2.0","method":"m"}"#; MOST_AT_ONCE + 1].join(",");
        assert!(one(&format!("[{many}]")).is_err());
        let deep = format!(
            r#"{{"jsonrpc":"2.0","method":"m","params":{{"a":{}}}}}"#,
            "[".repeat(100_000)
        );
        assert!(one(&deep).is_err());
    }

    #[test]
    fn what_the_program_answers_no_more_is_answered_with_the_reason() {
        let Kind::Request { id, .. } = one(r#"{"jsonrpc":"2.0","id":"a\"b","method":"m"}"#)
            .unwrap()
            .kind
        else {
            panic!("it asks");
        };
        let line = unanswered(&id, "its program \"ended\"");
        let Kind::Response { id: answered, .. } = one(&line).unwrap().kind else {
            panic!("{line}");
        };
        assert_eq!(answered, id);
    }
}
