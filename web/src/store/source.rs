//! Where the files of a registered server come from, and what they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Files of a server, which the owner of each machine brings there (`gig server add`): the appliance itself
/// pulls nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSource {
    /// What is kept of it.
    pub kind: SourceKind,
    /// Where it was taken from: an image's name with its digest, or a folder's path.
    pub from: String,
    /// `sha256:…` of all that is kept. Each start computes it again; other bytes do not run.
    pub content: String,
    /// Variables that an image asks for, beneath gig's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where the program starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
}

/// What is kept of a server's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// All files of an image: they are the sandbox's root.
    Image,
    /// Of an image that is one static program, that program: it is at `/app/server`.
    Program,
    /// All files of a folder: they are at `/app`.
    Folder,
}

impl ServerSource {
    /// In a line, for people and records.
    #[must_use]
    pub fn told(&self) -> String {
        let what = match self.kind {
            SourceKind::Image => "image",
            SourceKind::Program => "program of image",
            SourceKind::Folder => "folder",
        };
        format!("{what} {}, content {}", self.from, self.content)
    }

    /// Whether its texts have the form that they are to have; what they name is seen at a start.
    pub(crate) fn is_plain(&self) -> bool {
        let digest = |text: &str| {
            let hex = text.strip_prefix("sha256:").unwrap_or_default();
            let digit = |octet: u8| octet.is_ascii_digit() || (b'a'..=b'f').contains(&octet);
            hex.len() == 64 && hex.bytes().all(digit)
        };
        let pinned = match self.kind {
            SourceKind::Image | SourceKind::Program => {
                self.from.rsplit_once('@').is_some_and(|(_, of)| digest(of))
            }
            SourceKind::Folder => self.from.starts_with('/'),
        };
        let texts = self.env.values().chain([&self.from]).chain(&self.workdir);
        let named = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        let whole = texts.clone().all(|text| !text.contains('\0'));
        let short = texts.map(String::len).sum::<usize>() <= LONGEST_SOURCE;
        let absolute = self
            .workdir
            .as_ref()
            .is_none_or(|path| path.starts_with('/'));
        digest(&self.content) && pinned && whole && short && absolute && self.env.keys().all(named)
    }
}

/// Fits the environment of a program of Linux.
const LONGEST_SOURCE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_named_by_what_it_is() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let plain = |change: &dyn Fn(&mut ServerSource)| {
            let mut source = ServerSource {
                kind: SourceKind::Image,
                from: format!("reg.example/a@{digest}"),
                content: digest.clone(),
                env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
                workdir: Some("/app".to_owned()),
            };
            change(&mut source);
            source.is_plain()
        };
        assert!(plain(&|_| {}));
        assert!(plain(&|source| {
            source.kind = SourceKind::Folder;
            source.from = "/srv/x".to_owned();
        }));
        assert!(
            !plain(&|source| source.kind = SourceKind::Folder),
            "no path"
        );
        assert!(
            !plain(&|source| source.from = "reg.example/a:latest".to_owned()),
            "a tag alone"
        );
        assert!(!plain(
            &|source| source.content = "sha256:../../x".to_owned()
        ));
        assert!(!plain(&|source| source.content = digest.to_uppercase()));
        assert!(!plain(&|source| source.workdir = Some("app".to_owned())));
        assert!(!plain(
            &|source| source.env = BTreeMap::from([("A=".to_owned(), String::new())])
        ));
        assert!(!plain(&|source| source.from.insert(0, '\0')));
        assert!(!plain(&|source| source
            .from
            .insert_str(0, &"x".repeat(LONGEST_SOURCE))));
    }
}
