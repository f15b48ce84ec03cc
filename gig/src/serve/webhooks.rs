//! Where the secrets of webhooks are on this node: a folder for each in `GIG_WEBHOOK_SECRETS`, or in
//! `webhooks` of the data directory, with a file `secret` and, where the address is a secret, `url`.

use std::path::PathBuf;

use gig_web::WebhookFiles;
use zeroize::Zeroizing;

use crate::secret_file;

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
        let read = secret_file::line(&self.0.join(webhook).join(file));
        read.map_err(|error| format!("{error:#}"))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_one_line_of_a_file_and_no_error_tells_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder(folder.path().to_owned());
        let missing = files.secret("ops").unwrap_err();
        assert!(missing.contains("ops/secret"), "{missing}");
        std::fs::create_dir(folder.path().join("ops")).unwrap();
        let put = |file: &str, text: &[u8]| {
            let path = folder.path().join("ops").join(file);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        put("secret", b"whsec_abc\n");
        put("url", b"https://hooks.example/T0/secret\n");
        assert_eq!(*files.secret("ops").unwrap(), "whsec_abc");
        assert_eq!(
            *files.url("ops").unwrap(),
            "https://hooks.example/T0/secret"
        );
        put("secret", b"\xff\xfe");
        let refused = files.secret("ops").unwrap_err();
        assert!(refused.ends_with("does not hold one line of text"));
    }
}
