//! Where the secrets of webhooks are on this node: a folder for each in `GIG_WEBHOOK_SECRETS`, or in
//! `webhooks` of the data directory, with a file `secret` and, where the address is a secret, `url`.

use std::{fs::File, io::Read as _, path::PathBuf};

use gig_web::WebhookFiles;
use zeroize::Zeroizing;

/// The folder.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// As the environment has it; `data`: the data directory.
    pub(super) fn of(data: &std::path::Path) -> Self {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        Self(named.map_or_else(|| data.join("webhooks"), PathBuf::from))
    }

    /// The names of webhooks are plain: none leads out of the folder.
    fn read(&self, webhook: &str, file: &str) -> Result<Zeroizing<String>, String> {
        let path = self.0.join(webhook).join(file);
        let shown = path.display();
        let opened = File::open(&path);
        let opened = opened.map_err(|error| format!("cannot read {shown}: {error}"))?;
        let mut octets = Zeroizing::new(Vec::with_capacity(LONGEST));
        let bound = u64::try_from(LONGEST).unwrap_or_default();
        let read = opened.take(bound).read_to_end(&mut octets);
        read.map_err(|error| format!("cannot read {shown}: {error}"))?;
        let text = std::str::from_utf8(&octets).unwrap_or_default().trim();
        if text.is_empty() || octets.len() == LONGEST {
            return Err(format!("{shown} does not hold one line of text"));
        }
        Ok(Zeroizing::new(text.to_owned()))
    }
}

impl WebhookFiles for Folder {
    fn secret(&self, webhook: &str) -> Result<Zeroizing<String>, String> {
        self.read(webhook, "secret")
    }

    fn url(&self, webhook: &str) -> Result<Zeroizing<String>, String> {
        self.read(webhook, "url")
    }
}

const VARIABLE: &str = "GIG_WEBHOOK_SECRETS";
/// In octets, of one file.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_line_of_a_file_and_no_error_tells_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder(folder.path().to_owned());
        let missing = files.secret("ops").unwrap_err();
        assert!(missing.contains("ops/secret"), "{missing}");
        std::fs::create_dir(folder.path().join("ops")).unwrap();
        let put = |file: &str, text: &[u8]| {
            std::fs::write(folder.path().join("ops").join(file), text).unwrap();
        };
        put("secret", b"whsec_abc\n");
        put("url", b"https://hooks.example/T0/secret\n");
        assert_eq!(*files.secret("ops").unwrap(), "whsec_abc");
        assert_eq!(
            *files.url("ops").unwrap(),
            "https://hooks.example/T0/secret"
        );
        for wrong in [&b"\n"[..], b"\xff\xfe", &[b'x'; LONGEST]] {
            put("secret", wrong);
            let refused = files.secret("ops").unwrap_err();
            assert!(
                refused.ends_with("does not hold one line of text"),
                "{refused}"
            );
        }
    }
}
