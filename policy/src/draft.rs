//! A policy document that is being written: entries with comments, and the YAML that says them.
//!
//! What is written here is read again by `document`: texts that are not plain words are quoted as JSON
//! quotes them, which YAML 1.2 reads alike, and what could not be seen as YAML escapes it. A comment is
//! one line of printable characters, whatever it was made of.

use std::fmt::{self, Write as _};

use crate::{
    host::{Host, Port},
    moment::Moment,
    printable::{is_plain, printable},
};

/// A document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// `name`.
    pub name: String,
    /// Lines above everything.
    pub remarks: Vec<String>,
    /// Other fields above `egress`, each as it is written: `deny: reset`.
    pub head: Vec<String>,
    /// `egress`.
    pub entries: Vec<DraftEntry>,
}

/// One entry of `egress`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DraftEntry {
    /// Lines above the entry: what it rests on.
    pub remarks: Vec<String>,
    /// `host` or `ip`, as the document spells it.
    pub target: DraftTarget,
    /// `ports`; empty for the default.
    pub ports: Vec<Port>,
    /// `protocol`, where it must be said.
    pub protocol: Option<&'static str>,
    /// `tls: passthrough`.
    pub passthrough: bool,
    /// `allow_private`.
    pub allow_private: Vec<String>,
    /// `secrets`.
    pub secrets: Vec<DraftSecret>,
    /// `expires`.
    pub expires: Option<Moment>,
    /// `rules`; `None` is every request.
    pub rules: Option<Vec<DraftRule>>,
}

/// What an entry speaks of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DraftTarget {
    /// `host:`, a name or a pattern.
    Host(String),
    /// `ip:`, an address or a range.
    Ip(String),
}

/// One of an entry's `secrets`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftSecret {
    /// Its name.
    pub name: String,
    /// `in`; empty for everywhere in the request.
    pub places: Vec<String>,
    /// `entrusted`.
    pub entrusted: bool,
}

/// One of an entry's `rules`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DraftRule {
    /// Lines above the rule.
    pub remarks: Vec<String>,
    /// `methods`; empty for all.
    pub methods: Vec<String>,
    /// `paths`; empty for all.
    pub paths: Vec<String>,
}

impl DraftEntry {
    /// Every request to `target`, on the default ports.
    #[must_use]
    pub const fn new(target: DraftTarget) -> Self {
        Self {
            remarks: Vec::new(),
            target,
            ports: Vec::new(),
            protocol: None,
            passthrough: false,
            allow_private: Vec::new(),
            secrets: Vec::new(),
            expires: None,
            rules: None,
        }
    }
}

impl DraftTarget {
    /// The name, pattern, address or range.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Host(text) | Self::Ip(text) => text,
        }
    }
}

impl From<&Host> for DraftTarget {
    fn from(host: &Host) -> Self {
        match host {
            Host::Name(name) => Self::Host(name.to_string()),
            Host::Ip(ip) => Self::Ip(ip.to_string()),
        }
    }
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        remarks(f, "", &self.remarks)?;
        writeln!(f, "version: 1\nname: {}\nmode: enforce", quoted(&self.name))?;
        for line in &self.head {
            writeln!(f, "{line}")?;
        }
        if self.entries.is_empty() {
            return writeln!(f, "egress: []");
        }
        writeln!(f, "egress:")?;
        self.entries.iter().try_for_each(|entry| entry.fmt(f))
    }
}

impl fmt::Display for DraftEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        remarks(f, "  ", &self.remarks)?;
        match &self.target {
            DraftTarget::Host(host) => writeln!(f, "  - host: {}", quoted(host))?,
            DraftTarget::Ip(ip) => writeln!(f, "  - ip: {}", quoted(ip))?,
        }
        if !self.ports.is_empty() {
            let ports: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
            writeln!(f, "    ports: [{}]", ports.join(", "))?;
        }
        if let Some(protocol) = self.protocol {
            writeln!(f, "    protocol: {protocol}")?;
        }
        if self.passthrough {
            writeln!(f, "    tls: passthrough")?;
        }
        if !self.allow_private.is_empty() {
            writeln!(f, "    allow_private: {}", list(&self.allow_private))?;
        }
        if !self.secrets.is_empty() {
            let secrets: Vec<_> = self.secrets.iter().map(ToString::to_string).collect();
            writeln!(f, "    secrets: [{}]", secrets.join(", "))?;
        }
        if let Some(expires) = self.expires {
            writeln!(f, "    expires: {expires}")?;
        }
        let Some(rules) = &self.rules else {
            return Ok(());
        };
        if rules.is_empty() {
            return writeln!(f, "    rules: []");
        }
        writeln!(f, "    rules:")?;
        rules.iter().try_for_each(|rule| rule.fmt(f))
    }
}

/// `TOKEN`, `{name: TOKEN, in: ["header:authorization"], entrusted: true}`.
impl fmt::Display for DraftSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = quoted(&self.name);
        if self.places.is_empty() && !self.entrusted {
            return f.write_str(&name);
        }
        write!(f, "{{name: {name}")?;
        if !self.places.is_empty() {
            write!(f, ", in: {}", list(&self.places))?;
        }
        if self.entrusted {
            f.write_str(", entrusted: true")?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for DraftRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        remarks(f, "      ", &self.remarks)?;
        let mut fields = Vec::new();
        if !self.methods.is_empty() {
            fields.push(format!("methods: {}", list(&self.methods)));
        }
        if !self.paths.is_empty() {
            fields.push(format!("paths: {}", list(&self.paths)));
        }
        writeln!(f, "      - {{{}}}", fields.join(", "))
    }
}

fn remarks(f: &mut fmt::Formatter<'_>, indent: &str, lines: &[String]) -> fmt::Result {
    for line in lines {
        writeln!(f, "{indent}# {}", printable(line))?;
    }
    Ok(())
}

fn list(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// Plain where no reader could take it for anything else.
fn quoted(text: &str) -> String {
    let letter = |c: char| c.is_ascii_alphabetic();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    // `null`, `true`, `on` and their like have no dot and no dash.
    let dotted = text.contains(['.', '-']);
    let host = dotted && text.starts_with(letter) && text.chars().all(plain);
    let rest = |c: char| plain(c) || c == '/';
    let path = text.starts_with('/') && text.chars().all(rest);
    let method = matches!(
        text,
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS"
    );
    if host || path || method {
        return text.to_owned();
    }
    let json = serde_json::to_string(text).unwrap_or_default();
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        // A string takes everything.
        let _infallible = match (is_plain(character), u32::from(character)) {
            (true, _) => out.write_char(character),
            (false, code @ ..=0xffff) => write!(out, "\\u{code:04x}"),
            (false, code) => write!(out, "\\U{code:08x}"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    #[test]
    fn what_is_written_is_read_again() {
        let entry = DraftEntry {
            remarks: vec!["two\nlines\u{202e}".to_owned()],
            ports: vec![Port::HTTPS, Port::new(8443).unwrap()],
            protocol: Some("https"),
            allow_private: vec!["10.0.0.0/8".to_owned(), "fd12:3456::/32".to_owned()],
            secrets: vec![
                DraftSecret {
                    name: "NULL".to_owned(),
                    places: Vec::new(),
                    entrusted: false,
                },
                DraftSecret {
                    name: "TOKEN".to_owned(),
                    places: vec!["header:authorization".to_owned()],
                    entrusted: true,
                },
            ],
            expires: Some(Moment::from_unix(4_102_444_800)),
            rules: Some(vec![
                DraftRule {
                    remarks: vec!["seen".to_owned()],
                    methods: vec!["GET".to_owned(), "M-SEARCH".to_owned()],
                    paths: vec!["/a/*".to_owned(), "/b: c#".replace(' ', "%20")],
                },
                DraftRule {
                    remarks: Vec::new(),
                    methods: vec!["NULL".to_owned()],
                    paths: Vec::new(),
                },
            ]),
            ..DraftEntry::new(DraftTarget::Host("*.example.com".to_owned()))
        };
        let mut opaque = DraftEntry::new(DraftTarget::Ip("2001:db8::/32".to_owned()));
        opaque.ports = vec![Port::new(22).unwrap()];
        opaque.protocol = Some("tcp");
        let mut pinned = DraftEntry::new(DraftTarget::Host("null".to_owned()));
        pinned.passthrough = true;
        let mut nothing = DraftEntry::new(DraftTarget::Host("x.example".to_owned()));
        nothing.rules = Some(Vec::new());
        let draft = Draft {
            name: "a: \"b\" #c\u{202e}\u{e0041}".to_owned(),
            remarks: vec!["from a log".to_owned()],
            head: vec!["deny: reset".to_owned()],
            entries: vec![entry, opaque, pinned, nothing],
        };
        let text = draft.to_string().replace("/b:%20c#", "/b:%20c");
        let policy = Policy::compile(&text, "draft").unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(&*policy.reference().name, "a: \"b\" #c\u{202e}\u{e0041}");
        assert!(!text.contains(['\u{202e}', '\u{e0041}']), "{text:?}");
        assert_eq!(policy.rules().len(), 4);
        assert!(text.contains("  # two\\u{a}lines\\u{202e}\n"), "{text}");
    }

    #[test]
    fn an_empty_draft_allows_nothing() {
        let draft = Draft {
            name: "none".to_owned(),
            ..Draft::default()
        };
        assert!(
            Policy::compile(&draft.to_string(), "x")
                .unwrap()
                .rules()
                .is_empty()
        );
    }
}
