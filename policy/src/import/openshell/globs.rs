//! The globs of OpenShell's paths, which are of two kinds, as patterns of ours.
//!
//! In a rule `*` is what is between two slashes, `**` as a whole segment any number of segments (none, between others;
//! one or more, at the end), `{a,b}` either. What an endpoint's own `path` chooses by is another matter: there `*`
//! crosses slashes, `/x/**` is `/x` as well, and braces stand for themselves. Ours know `*` and `**` of the former kind
//! alone, and `**` is one segment or more; what is left is expanded, or left out and told. Backslashes, `?` and classes
//! are never read.

/// Of how many patterns one glob may be.
const MOST: usize = 64;

/// What a glob is here, and what is to be said of it where that is less.
pub(super) struct Read {
    pub(super) paths: Vec<String>,
    pub(super) said: Option<String>,
}

impl Read {
    fn whole(paths: Vec<String>) -> Self {
        Self { paths, said: None }
    }

    fn left_out(glob: &str, why: &str) -> Self {
        Self {
            paths: Vec::new(),
            said: Some(format!("left out: path {glob:?} {why}")),
        }
    }
}

/// The `path` of a rule.
pub(super) fn of_rule(glob: &str) -> Read {
    if glob == "**" {
        return Read::whole(vec!["/**".to_owned()]);
    }
    if glob == "*" {
        return Read::left_out(
            glob,
            "matched none there, for `*` stops at slashes: write `**` for every path",
        );
    }
    if let Some(unread) = unread(glob) {
        return unread;
    }
    let Some(alternatives) = alternatives(glob) else {
        return Read::left_out(
            glob,
            &format!("has braces that do not pair, stand in others or are more than {MOST} paths"),
        );
    };
    let single: Vec<_> = alternatives.iter().map(|one| single_stars(one)).collect();
    match depths(&single) {
        Some(paths) => Read::whole(paths),
        None => too_many(glob),
    }
}

/// The `path` of an endpoint that leaves some out.
pub(super) fn of_endpoint(glob: &str) -> Read {
    if let Some(unread) = unread(glob) {
        return unread;
    }
    if let Some(prefix) = glob.strip_suffix("/**") {
        return match prefix.contains('*') {
            true => Read::left_out(
                glob,
                "has a `*` before `/**`, which stands for itself there",
            ),
            false => Read::whole(vec![prefix.to_owned(), glob.to_owned()]),
        };
    }
    let Some(paths) = depths(&[glob.to_owned()]) else {
        return too_many(glob);
    };
    let is_partial = |segment: &str| segment != "**" && segment.contains('*');
    let said = glob.split('/').any(is_partial).then(|| {
        format!(
            "path {glob:?}: `*` stood for slashes, too, and here for what is between two: write `**` as a whole \
             segment where more was meant"
        )
    });
    Read { paths, said }
}

/// Whether an endpoint's own `path` chooses nothing.
pub(super) fn is_every_path(glob: &str) -> bool {
    ["", "*", "**", "/**"].contains(&glob)
}

fn unread(glob: &str) -> Option<Read> {
    glob.contains(['?', '[', '\\']).then(|| {
        let why = "has `?`, a class or a backslash, and here only `*` and `**` stand for others";
        Read::left_out(glob, why)
    })
}

fn too_many(glob: &str) -> Read {
    Read::left_out(glob, &format!("is more than {MOST} paths"))
}

/// What a glob with braces stands for; `None` where these do not pair, stand in others, or it is too much.
fn alternatives(glob: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    let mut rest = glob;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}')?;
        if before.contains('}') || inside.contains('{') {
            return None;
        }
        let choices = || inside.split(',');
        if all.len() * choices().count() > MOST {
            return None;
        }
        let with = |head: String| choices().map(move |choice| format!("{head}{before}{choice}"));
        all = all.into_iter().flat_map(with).collect();
        rest = after;
    }
    if rest.contains('}') {
        return None;
    }
    for one in &mut all {
        one.push_str(rest);
    }
    Some(all)
}

/// `**` beside other characters is `*`.
fn single_stars(glob: &str) -> String {
    let one = |segment: &str| {
        let mut text = segment.to_owned();
        while segment != "**" && text.contains("**") {
            text = text.replace("**", "*");
        }
        text
    };
    let segments: Vec<_> = glob.split('/').map(one).collect();
    segments.join("/")
}

/// Each with its inner `**`, which may be no segment there and are one or more here, and without. One that does not
/// begin at the root, or with `**`, stays as it is, which no path is like.
fn depths(globs: &[String]) -> Option<Vec<String>> {
    let mut paths: Vec<String> = Vec::new();
    for glob in globs {
        let from_the_root = glob.strip_prefix('/');
        let Some(inner) = from_the_root.or_else(|| glob.starts_with("**/").then_some(glob)) else {
            paths.push(glob.clone());
            continue;
        };
        let mut all = vec![String::new()];
        let mut segments = inner.split('/').peekable();
        while let Some(segment) = segments.next() {
            let is_inner_deep = segment == "**" && segments.peek().is_some();
            let without = if is_inner_deep {
                all.clone()
            } else {
                Vec::new()
            };
            for one in &mut all {
                one.push('/');
                one.push_str(segment);
            }
            all.extend(without);
            if all.len() > MOST {
                return None;
            }
        }
        paths.extend(all);
    }
    (paths.len() <= MOST).then_some(paths)
}
