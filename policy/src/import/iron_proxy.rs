//! Configuration of iron-proxy: the `allowlist` among its `transforms`.

use super::{Located, Node, Reading, node, with_apex};
use crate::draft::DraftEntry;

pub(super) fn read(text: &str, reading: &mut Reading) {
    let Some(root) = node::root(text, reading) else {
        return;
    };
    let mut lists = Vec::new();
    for transform in node::items(node::field(&root, "transforms")) {
        match node::text_of(transform, "name").as_deref() {
            Some("allowlist") => lists.extend(node::field(transform, "config")),
            Some("secrets") => reading.narrowed(
                transform.at.line,
                "its secrets are not read: put them in with `gig secret set`",
            ),
            name => {
                let name = name.unwrap_or("without a name");
                let message =
                    format!("the transform {name} is not read: what it refused passes here");
                reading.widened(transform.at.line, message);
            }
        }
    }
    // Its action for workflows takes the list alone.
    let is_list = LISTED.iter().any(|name| node::field(&root, name).is_some());
    if lists.is_empty() && is_list && node::field(&root, "transforms").is_none() {
        lists.push(&root);
    }
    if let Some(dns) = node::field(&root, "dns") {
        names(dns, reading);
    }
    if lists.is_empty() {
        reading.problem(
            root.at,
            "no `allowlist` among `transforms`: this is not iron-proxy's",
        );
        return;
    }
    if let [_, second, ..] = lists.as_slice() {
        let message = "a second `allowlist`: each of them had to let a request pass, which one document \
                       cannot say; import each by itself, and make one of them the floor of the other";
        reading.problem(second.at, message);
        return;
    }
    for config in lists {
        reading.unread(
            "the allowlist",
            config,
            &[&LISTED[..], &["warn", "dns"]].concat(),
        );
        if node::is_true(config, "warn") {
            reading.narrowed(
                config.at.line,
                "`warn` only noted what it would deny: set `mode: observe`",
            );
        }
        for (domain, line) in node::texts(node::field(config, "domains")) {
            entries(&domain, line, reading)
                .into_iter()
                .for_each(|entry| reading.allow(entry));
        }
        for (range, line) in node::texts(node::field(config, "cidrs")) {
            reading.narrowed(line, NAMES_BY_RANGE);
            if let Some(entry) = reading.target(&range, line) {
                reading.allow(entry);
            }
        }
        for rule in node::items(node::field(config, "rules")) {
            one_rule(rule, reading);
        }
    }
}

/// What its name server answered by itself.
fn names(dns: &Located<Node>, reading: &mut Reading) {
    for (host, line) in node::texts(node::field(dns, "passthrough")) {
        let message = format!(
            "{host} was reached past the proxy, and is not here: allow it, with `protocol: tcp` or `tls: passthrough` where it \
             is to be opened by nobody"
        );
        reading.narrowed(line, message);
    }
    for record in node::items(node::field(dns, "records")) {
        let name = node::text_of(record, "name").unwrap_or_default();
        let message = format!(
            "the address of {name} is not read: this host's own resolver says it, or `--resolve` of `gig run`"
        );
        reading.narrowed(record.at.line, message);
    }
}

fn one_rule(rule: &Located<Node>, reading: &mut Reading) {
    let line = rule.at.line;
    reading.unread("a rule", rule, &["host", "cidr", "methods", "paths"]);
    let list = |name: &str| -> Vec<String> {
        let texts = node::texts(node::field(rule, name)).into_iter();
        texts.map(|(text, _)| text).collect()
    };
    let (methods, paths) = (list("methods"), list("paths"));
    let targets = match (node::text_of(rule, "host"), node::text_of(rule, "cidr")) {
        (Some(host), _) => entries(&host, line, reading),
        (None, Some(range)) => {
            reading.narrowed(line, NAMES_BY_RANGE);
            reading.target(&range, line).into_iter().collect()
        }
        (None, None) => {
            reading.problem(rule.at, "a rule needs `host` or `cidr`");
            return;
        }
    };
    if paths.iter().any(|path| path.ends_with("/*")) {
        let message = "`*` at a path's end stands for one segment here: write `/**` for all below";
        reading.narrowed(line, message);
    }
    for mut entry in targets {
        if !(methods.is_empty() && paths.is_empty()) {
            let rule = reading.request(&methods, &paths, line);
            entry.rules = Some(rule.into_iter().collect());
        }
        reading.allow(entry);
    }
}

/// There, `*.example.com` is `example.com`, too.
fn entries(domain: &str, line: u64, reading: &mut Reading) -> Vec<DraftEntry> {
    let hosts = with_apex(domain).map_or_else(|| vec![domain.to_owned()], Vec::from);
    let entries = hosts.iter();
    entries
        .filter_map(|host| reading.target(host, line))
        .collect()
}

const NAMES_BY_RANGE: &str = "names that resolve into the range were allowed as well: list those \
                              that are needed, with `allow_private`";

/// What an allowlist holds.
const LISTED: [&str; 3] = ["domains", "cidrs", "rules"];
