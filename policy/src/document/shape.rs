//! The fields of a policy document: which there are, and whether each holds a text, a number or a list.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{
    compile_error::Problem,
    document::{Located, Node},
    host_pattern::HostPattern,
    rule::Position,
    spelling::nearest,
};

/// The whole document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) version: Option<Located<i128>>,
    pub(crate) name: Option<Located<String>>,
    pub(crate) mode: Option<Located<String>>,
    pub(crate) deny: Option<Located<String>>,
    pub(crate) hold: Option<Located<String>>,
    pub(crate) egress: Vec<RawEntry>,
    pub(crate) limits: Option<RawLimits>,
}

/// One entry of `egress`.
#[derive(Debug)]
pub(crate) struct RawEntry {
    pub(crate) at: Position,
    /// Its number in the list, from 0.
    pub(crate) number: usize,
    /// Whether a field was unreadable: what is left must not be taken for the whole.
    pub(crate) broken: bool,
    pub(crate) host: Option<Located<String>>,
    pub(crate) ip: Option<Located<String>>,
    pub(crate) ports: Option<Vec<Located<i128>>>,
    pub(crate) protocol: Option<Located<String>>,
    pub(crate) tls: Option<Located<String>>,
    pub(crate) allow_private: Option<Vec<Located<String>>>,
    pub(crate) secrets: Option<Vec<RawSecret>>,
    pub(crate) secrets_at: Position,
    pub(crate) rules: Option<Vec<RawRequest>>,
    pub(crate) rules_at: Position,
    pub(crate) expires: Option<Located<String>>,
}

/// One entry of `secrets`: a name, or a mapping with more to say.
#[derive(Debug)]
pub(crate) struct RawSecret {
    pub(crate) name: Located<String>,
    pub(crate) places: Option<Vec<Located<String>>>,
    pub(crate) entrusted: bool,
    pub(crate) capture: bool,
    pub(crate) from: Option<Vec<Located<String>>>,
    pub(crate) show: Option<Vec<Located<String>>>,
}

/// One entry of `rules`.
#[derive(Debug)]
pub(crate) struct RawRequest {
    pub(crate) at: Position,
    /// Its number in the list, from 0.
    pub(crate) number: usize,
    pub(crate) methods: Option<Vec<Located<String>>>,
    pub(crate) paths: Option<Vec<Located<String>>>,
}

/// The `limits`.
#[derive(Debug, Default)]
pub(crate) struct RawLimits {
    pub(crate) requests_per_minute: Option<Located<i128>>,
    pub(crate) connections: Option<Located<i128>>,
    pub(crate) request_body: Option<Located<Scalar>>,
    pub(crate) upload_per_hour: Option<Located<Scalar>>,
}

/// A number or a text: an amount with or without its unit.
#[derive(Debug, Clone)]
pub(crate) enum Scalar {
    Number(i128),
    Text(String),
}

/// The fields of one mapping, taken out one by one; what is left at the end is unknown.
struct Fields<'p> {
    what: &'static str,
    left: Vec<(Located<String>, Located<Node>)>,
    problems: &'p mut Vec<Problem>,
}

pub(super) fn document(root: Located<Node>, problems: &mut Vec<Problem>) -> Option<Document> {
    if matches!(root.value, Node::Null) {
        let message = "the document is empty: write at least `egress: []`, which allows nothing";
        problems.push(Problem::at(root.at, message.to_owned()));
        return None;
    }
    let mut fields = Fields::of(root, "a policy", problems)?;
    let mut document = Document {
        version: fields.number("version"),
        name: fields.text("name"),
        mode: fields.text("mode"),
        deny: fields.style("deny"),
        hold: fields.text("hold"),
        ..Document::default()
    };
    let egress = fields.list("egress");
    let limits = fields.take("limits");
    fields.finish(&[
        "version", "name", "mode", "deny", "hold", "egress", "limits",
    ]);
    let entries = egress.into_iter().flatten().enumerate();
    document.egress = entries
        .filter_map(|(i, node)| entry(i, node, problems))
        .collect();
    document.limits = limits.and_then(|node| read_limits(node, problems));
    Some(document)
}

/// The field that a bare text is for.
fn named(text: &str) -> Option<&'static str> {
    let is_address = text.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok();
    if is_address {
        return Some("ip");
    }
    HostPattern::parse(text).ok().map(|_| "host")
}

fn entry(number: usize, node: Located<Node>, problems: &mut Vec<Problem>) -> Option<RawEntry> {
    let at = node.at;
    let before = problems.len();
    if let Node::Text(text) = &node.value
        && let Some(field) = named(text)
    {
        let message = format!("an egress entry says what it names: write `{field}: {text:?}`");
        problems.push(Problem::at(at, message));
        return None;
    }
    let mut fields = Fields::of(node, "an egress entry", problems)?;
    let secrets_at = fields.place("secrets", at);
    let rules_at = fields.place("rules", at);
    let mut entry = RawEntry {
        at,
        number,
        broken: false,
        host: fields.text("host"),
        ip: fields.text("ip"),
        ports: fields.list_of("ports", Fields::as_number),
        protocol: fields.text("protocol"),
        tls: fields.text("tls"),
        allow_private: fields.list_of("allow_private", Fields::as_text),
        secrets: fields.list_of("secrets", Fields::as_secret),
        secrets_at,
        rules: None,
        rules_at,
        expires: fields.text("expires"),
    };
    let rules = fields.list("rules");
    fields.finish(&[
        "host",
        "ip",
        "ports",
        "protocol",
        "tls",
        "allow_private",
        "secrets",
        "rules",
        "expires",
    ]);
    entry.rules = rules.map(|rules| {
        let rules = rules.into_iter().enumerate();
        rules
            .filter_map(|(i, node)| request(i, node, problems))
            .collect()
    });
    entry.broken = problems.len() > before;
    Some(entry)
}

fn request(number: usize, node: Located<Node>, problems: &mut Vec<Problem>) -> Option<RawRequest> {
    let at = node.at;
    let mut fields = Fields::of(node, "a request rule", problems)?;
    let request = RawRequest {
        at,
        number,
        methods: fields.list_of("methods", Fields::as_text),
        paths: fields.list_of("paths", Fields::as_text),
    };
    fields.finish(&["methods", "paths"]);
    Some(request)
}

fn read_limits(node: Located<Node>, problems: &mut Vec<Problem>) -> Option<RawLimits> {
    let mut fields = Fields::of(node, "`limits`", problems)?;
    let limits = RawLimits {
        requests_per_minute: fields.number("requests_per_minute"),
        connections: fields.number("connections"),
        request_body: fields.amount("request_body"),
        upload_per_hour: fields.amount("upload_per_hour"),
    };
    fields.finish(&[
        "requests_per_minute",
        "connections",
        "request_body",
        "upload_per_hour",
    ]);
    Some(limits)
}

impl<'p> Fields<'p> {
    fn of(node: Located<Node>, what: &'static str, problems: &'p mut Vec<Problem>) -> Option<Self> {
        if let Node::Map(left) = node.value {
            return Some(Self {
                what,
                left,
                problems,
            });
        }
        let found = node.value.word();
        let message = format!("{what} must be a mapping of fields to values, and this is {found}");
        problems.push(Problem::at(node.at, message));
        None
    }

    fn place(&self, name: &str, otherwise: Position) -> Position {
        let field = self.left.iter().find(|(key, _)| key.value == name);
        field.map_or(otherwise, |(key, _)| key.at)
    }

    fn take(&mut self, name: &str) -> Option<Located<Node>> {
        let slot = self.left.iter().position(|(key, _)| key.value == name)?;
        let (key, value) = self.left.remove(slot);
        if matches!(value.value, Node::Null) {
            let message = format!("`{name}` has no value: give it one or leave the field out");
            self.problems.push(Problem::at(key.at, message));
            return None;
        }
        Some(value)
    }

    fn text(&mut self, name: &str) -> Option<Located<String>> {
        let node = self.take(name)?;
        self.as_text(name, node)
    }

    /// How denials are told, which is easily taken for a list of what is denied.
    fn style(&mut self, name: &str) -> Option<Located<String>> {
        let node = self.take(name)?;
        if matches!(node.value, Node::List(_)) {
            let wanted = "`explain` or `reset`, which is how denials are answered: what no rule allows is denied \
                          without being listed";
            let found = node.value.word();
            return self.wrong(name, wanted, found, node.at);
        }
        self.as_text(name, node)
    }

    fn number(&mut self, name: &str) -> Option<Located<i128>> {
        let node = self.take(name)?;
        self.as_number(name, node)
    }

    fn amount(&mut self, name: &str) -> Option<Located<Scalar>> {
        let node = self.take(name)?;
        let at = node.at;
        let value = match node.value {
            Node::Integer(value) => Scalar::Number(value),
            Node::Text(value) => Scalar::Text(value),
            Node::Null | Node::Bool(_) | Node::Float | Node::List(_) | Node::Map(_) => {
                return self.wrong(name, "an amount such as 50MB", node.value.word(), at);
            }
        };
        Some(Located { value, at })
    }

    fn list(&mut self, name: &str) -> Option<Vec<Located<Node>>> {
        let node = self.take(name)?;
        let found = node.value.word();
        if let Node::List(items) = node.value {
            return Some(items);
        }
        self.wrong(name, "a list, as in `[…]`", found, node.at)
    }

    fn list_of<T>(
        &mut self,
        name: &str,
        read: impl Fn(&mut Self, &str, Located<Node>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.list(name)?;
        let each = format!("each of {name}");
        Some(
            items
                .into_iter()
                .filter_map(|item| read(self, &each, item))
                .collect(),
        )
    }

    fn as_text(&mut self, name: &str, node: Located<Node>) -> Option<Located<String>> {
        let at = node.at;
        let found = node.value.word();
        let wanted = match node.value {
            Node::Text(value) => return Some(Located { value, at }),
            Node::Bool(_) | Node::Integer(_) | Node::Float => "a text, so put it in quotes",
            Node::Null | Node::List(_) | Node::Map(_) => "a text",
        };
        self.wrong(name, wanted, found, at)
    }

    fn as_secret(&mut self, name: &str, node: Located<Node>) -> Option<RawSecret> {
        let at = node.at;
        if !matches!(node.value, Node::Map(_)) {
            let name = self.as_text(name, node)?;
            return Some(RawSecret {
                name,
                places: None,
                entrusted: false,
                capture: false,
                from: None,
                show: None,
            });
        }
        let before = self.problems.len();
        let mut fields = Fields::of(node, "a secret", self.problems)?;
        let name = fields.text("name");
        let places = fields.list_of("in", Fields::as_text);
        let entrusted = fields.switch("entrusted");
        let capture = fields.switch("capture");
        let from = fields.list_of("from", Fields::as_text);
        let show = fields.list_of("show", Fields::as_text);
        fields.finish(&["name", "in", "entrusted", "capture", "from", "show"]);
        let Some(name) = name else {
            if self.problems.len() == before {
                let message = "a secret needs its `name`, as in `{name: TOKEN, in: [basic]}`";
                self.problems.push(Problem::at(at, message.to_owned()));
            }
            return None;
        };
        Some(RawSecret {
            name,
            places,
            entrusted: entrusted.unwrap_or(false),
            capture: capture.unwrap_or(false),
            from,
            show,
        })
    }

    fn switch(&mut self, name: &str) -> Option<bool> {
        let node = self.take(name)?;
        match node.value {
            Node::Bool(value) => Some(value),
            Node::Null
            | Node::Integer(_)
            | Node::Float
            | Node::Text(_)
            | Node::List(_)
            | Node::Map(_) => self.wrong(name, "true or false", node.value.word(), node.at),
        }
    }

    fn as_number(&mut self, name: &str, node: Located<Node>) -> Option<Located<i128>> {
        let at = node.at;
        let found = node.value.word();
        if let Node::Integer(value) = node.value {
            return Some(Located { value, at });
        }
        self.wrong(name, "a whole number", found, at)
    }

    fn wrong<T>(&mut self, name: &str, wanted: &str, found: &str, at: Position) -> Option<T> {
        let name = match name.strip_prefix("each of ") {
            Some(list) => format!("each of `{list}`"),
            None => format!("`{name}`"),
        };
        let message = format!("{name} must be {wanted}, and this is {found}");
        self.problems.push(Problem::at(at, message));
        None
    }

    fn finish(self, known: &[&str]) {
        for (key, _) in self.left {
            let name = key.value;
            let near = nearest(&name, known.iter().copied());
            let known_word = meant(&name).filter(|word| known.contains(word));
            let of_requests = matches!(meant(&name).unwrap_or(&name), "methods" | "paths");
            if of_requests && known.contains(&"rules") {
                let message = format!(
                    "{} has no field `{name}`: it belongs into `rules`, as in \
                     `rules: [{{methods: [GET], paths: [/x]}}]`",
                    self.what
                );
                self.problems.push(Problem::at(key.at, message));
                continue;
            }
            let cure = match known_word.or(near) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("the fields are {}", known.join(", ")),
            };
            let message = format!("{} has no field `{name}`: {cure}", self.what);
            self.problems.push(Problem::at(key.at, message));
        }
    }
}

/// Words that other tools use.
fn meant(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "hostname" | "domain" | "fqdn" | "url" | "destination" => "host",
        "cidr" | "address" | "ips" => "ip",
        "port" => "ports",
        "method" | "verbs" | "verb" => "methods",
        "path" | "urls" => "paths",
        "allow" | "rules" | "hosts" | "allowlist" | "network" => "egress",
        "secret" | "credentials" => "secrets",
        "limit" | "quota" => "limits",
        "rate" | "rps" | "requests_per_second" => "requests_per_minute",
        _ => return None,
    })
}
