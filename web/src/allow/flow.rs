//! One more entry of `egress` in what is written in brackets: JSON, and YAML's flow style.
//!
//! Text is read as far as brackets, quotes and comments go, and put in at one place; all else stays as it was. Where
//! that place is not certain there is none. Whoever asks compiles what comes out before it is used.

/// The list that opens at octet `open` of `text`, with one more entry at its end.
pub(super) fn with_entry(text: &str, open: usize, entry: &str) -> Option<String> {
    let inside = Inside::of(text, open)?;
    let (before, after) = text.split_at_checked(inside.last)?;
    // A comment behind the last entry would stand behind the new one.
    let gap = text.get(inside.last..inside.close)?;
    if gap.contains('#') {
        return None;
    }
    let first = inside.first.filter(|_| gap.contains('\n'));
    let apart = match first.and_then(|first| indent(text, first)) {
        // Each on a line of its own.
        Some(indent) => format!("\n{indent}"),
        None => " ".to_owned(),
    };
    let apart = match (inside.first, before.ends_with(',')) {
        (None, _) => String::new(),
        (Some(_), true) => apart,
        (Some(_), false) => format!(",{apart}"),
    };
    Some(format!("{before}{apart}{entry}{after}"))
}

/// A document that is one map in braces, with one more entry of `egress`.
pub(super) fn with_rule(text: &str, entry: &str) -> Option<String> {
    let open = text.find('{')?;
    match value_of(text, open, "egress") {
        Some(value) if text.get(value..)?.starts_with('[') => with_entry(text, value, entry),
        Some(_) => None,
        None => with_entry(text, open, &format!("\"egress\": [{entry}]")),
    }
}

/// What stands between two brackets.
struct Inside {
    /// Where the first thing in it begins.
    first: Option<usize>,
    /// Behind the last thing in it, or behind the opening bracket.
    last: usize,
    /// The closing bracket.
    close: usize,
}

impl Inside {
    fn of(text: &str, open: usize) -> Option<Self> {
        let mut first = None;
        let mut last = open + 1;
        for mark in Marks::of(text, open)?.skip(1) {
            if mark.depth == 0 {
                let close = mark.at;
                return Some(Self { first, last, close });
            }
            first.get_or_insert(mark.at);
            last = mark.at + mark.character.len_utf8();
        }
        None
    }
}

/// Where the value of a key begins in the map that opens at `open`.
fn value_of(text: &str, open: usize, key: &str) -> Option<usize> {
    // What was read of a key; none while a value is read.
    let mut name = Some(String::new());
    let mut found = false;
    for mark in Marks::of(text, open)?.skip(1) {
        if mark.depth == 0 {
            return None;
        }
        if found {
            return Some(mark.at);
        }
        match (mark.character, &mut name) {
            (',', _) if mark.depth == 1 && !mark.quoted => name = Some(String::new()),
            (':', Some(read)) if mark.depth == 1 && !mark.quoted => {
                found = read.trim_matches(['"', '\'']) == key;
                name = None;
            }
            (character, Some(read)) => read.push(character),
            (_, None) => {}
        }
    }
    None
}

/// One character that is neither a blank nor of a comment.
#[derive(Clone, Copy)]
struct Mark {
    at: usize,
    character: char,
    /// How many brackets are open behind it.
    depth: usize,
    quoted: bool,
}

/// The characters from an opening bracket on that mean something.
struct Marks<'a> {
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
    base: usize,
    depth: usize,
    quote: Option<char>,
    escaped: bool,
    /// The last one that was not blank.
    before: char,
    blank: bool,
}

impl<'a> Marks<'a> {
    fn of(text: &'a str, open: usize) -> Option<Self> {
        Some(Self {
            rest: text.get(open..)?.char_indices().peekable(),
            base: open,
            depth: 0,
            quote: None,
            escaped: false,
            before: ',',
            blank: true,
        })
    }

    /// Whether a quote that stands here opens a text: within a plain one it is a character.
    const fn opens_text(&self) -> bool {
        matches!(self.before, '[' | '{' | ',' | ':')
    }

    /// Within quotes.
    fn quoted(&mut self, quote: char, character: char) {
        match character {
            _ if self.escaped => self.escaped = false,
            '\\' if quote == '"' => self.escaped = true,
            // Two of them are one in YAML: it closes and opens again.
            _ if character == quote => self.quote = None,
            _ => {}
        }
    }
}

impl Iterator for Marks<'_> {
    type Item = Mark;

    fn next(&mut self) -> Option<Mark> {
        loop {
            let (at, character) = self.rest.next()?;
            let quoted = self.quote.is_some();
            if let Some(quote) = self.quote {
                self.quoted(quote, character);
                // `''`: still the same text.
                if self.quote.is_none()
                    && quote == '\''
                    && self.rest.peek().is_some_and(|(_, next)| *next == '\'')
                {
                    self.quote = Some(quote);
                    self.escaped = true;
                }
            } else if character.is_whitespace() {
                self.blank = true;
                continue;
            } else if character == '#' && self.blank {
                while self.rest.next_if(|(_, next)| *next != '\n').is_some() {}
                continue;
            } else {
                match character {
                    '[' | '{' => self.depth += 1,
                    ']' | '}' => self.depth = self.depth.checked_sub(1)?,
                    '"' | '\'' if self.opens_text() => self.quote = Some(character),
                    _ => {}
                }
            }
            self.before = character;
            self.blank = false;
            return Some(Mark {
                at: self.base + at,
                character,
                depth: self.depth,
                quoted,
            });
        }
    }
}

/// The blanks that the line of a place begins with; `None` where something else stands before it.
fn indent(text: &str, place: usize) -> Option<&str> {
    let before = text.get(..place)?;
    let line = before.rsplit('\n').next()?;
    line.chars().all(|c| c == ' ' || c == '\t').then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_last_and_all_else_stays() {
        for (text, want) in [
            ("[]", "[X]"),
            ("[ ]", "[X ]"),
            ("[a]", "[a, X]"),
            ("[a,]", "[a, X]"),
            ("[a, {b: [c]} ]", "[a, {b: [c]}, X ]"),
            ("[\"]\"]", "[\"]\", X]"),
            ("[\"\\\"]\"]", "[\"\\\"]\", X]"),
            ("['it''s ]']", "['it''s ]', X]"),
            ("[don't, won't]", "[don't, won't, X]"),
            ("[a] # ]", "[a, X] # ]"),
            ("[\n  a,\n  b\n]", "[\n  a,\n  b,\n  X\n]"),
            ("[a, # one ]\n b]", "[a, # one ]\n b, X]"),
        ] {
            assert_eq!(with_entry(text, 0, "X").as_deref(), Some(want), "{text}");
        }
        for text in ["[a", "[\"a]", "[a # last\n]", "", "[a # ]"] {
            assert_eq!(with_entry(text, 0, "X"), None, "{text}");
        }
    }

    #[test]
    fn the_list_of_rules_is_found_or_made() {
        for (text, want) in [
            ("{\"egress\": []}", "{\"egress\": [X]}"),
            ("{version: 1, egress: [a]}", "{version: 1, egress: [a, X]}"),
            ("{\"version\": 1}", "{\"version\": 1, \"egress\": [X]}"),
            (
                "{\"a\": {\"egress\": []}, \"egress\": [b]}",
                "{\"a\": {\"egress\": []}, \"egress\": [b, X]}",
            ),
            (
                "{\"a\": \"egress: [\", \"b\": 1}",
                "{\"a\": \"egress: [\", \"b\": 1, \"egress\": [X]}",
            ),
        ] {
            assert_eq!(with_rule(text, "X").as_deref(), Some(want), "{text}");
        }
        assert_eq!(with_rule("{\"egress\": {}}", "X"), None);
    }
}
