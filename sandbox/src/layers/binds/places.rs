//! Where credentials lie: in homes, in what gig keeps, and in the system's own folders.

/// Below every home: where programs keep credentials.
pub(super) const CREDENTIALS: [&str; 99] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".docker",
    ".git-credentials",
    ".vault-token",
    ".terraform.d",
    // Beyond the list that was asked for: the same kind of file.
    ".config/gh",
    ".config/git/credentials",
    ".local/share/keyrings",
    ".netrc",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".config/op",
    ".npmrc",
    ".yarnrc.yml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/containers/auth.json",
    ".config/rclone",
    ".config/hub",
    ".gem/credentials",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/doctl",
    ".config/heroku",
    ".fly",
    ".oci",
    ".databrickscfg",
    ".boto",
    ".s3cfg",
    ".terraformrc",
    ".config/sops/age",
    ".my.cnf",
    ".mylogin.cnf",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".bundle/config",
    ".cache/huggingface/token",
    ".huggingface/token",
    ".kaggle",
    ".local/share/kwalletd",
    ".aliyun",
    ".authinfo",
    ".authinfo.gpg",
    ".circleci",
    ".config/.wrangler",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".config/hcloud",
    ".config/ngrok",
    ".config/NuGet",
    ".config/scw",
    ".config/solana",
    ".config/stripe",
    ".ethereum/keystore",
    ".hex/hex.config",
    ".ivy2/.credentials",
    ".netlify",
    ".ngrok2",
    ".pulumi",
    ".sentryclirc",
    ".step",
    ".subversion/auth",
    ".thunderbird",
    ".tsh",
    ".wrangler",
    // Who holds these is somebody: sessions of browsers and of the desktop.
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".Xauthority",
    ".ICEauthority",
    // Where keys end up that were typed.
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".rediscli_history",
    // What another gig keeps, in its usual folder or in one that is shown or lies right below.
    ".local/share/gig",
    "master.key",
    "audit-signing.key",
    DATABASE,
    "gig.db-wal",
    "control.sock",
    IMAGES,
];
/// What a gig keeps wherever it keeps anything.
pub(super) const DATABASE: &str = "gig.db";
/// Where `gig run` keeps the records that no `--audit` names a file for, in gig's data directory.
pub const RUNS: &str = "audit/runs";
/// The folder of pulled images in gig's data directory: a name of its own, so that another gig's is known too.
/// Each image was verified when it was pulled, and is run as it lies there.
pub const IMAGES: &str = "gig-images";
/// The directories in a home that hold them, and the home itself.
pub(super) const HOLDERS: [&str; 25] = [
    "",
    ".bundle",
    ".cache",
    ".cache/huggingface",
    ".cargo",
    ".claude",
    ".codex",
    ".composer",
    ".config",
    ".config/composer",
    ".config/containers",
    ".config/git",
    ".config/sops",
    ".gem",
    ".gemini",
    ".gradle",
    ".huggingface",
    ".local",
    ".local/share",
    ".local/share/fish",
    ".m2",
    ".ethereum",
    ".hex",
    ".ivy2",
    ".subversion",
];

/// What the system itself keeps, of whoever may read it.
pub(super) const OF_THE_SYSTEM: [&str; 13] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/krb5.keytab",
    "/etc/ipsec.secrets",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/kubernetes",
    "/run/secrets",
];
/// Its keys for ssh lie among what is no secret.
pub(super) const SSH: &str = "/etc/ssh";

/// Whether a file in [`RUNS`] is called as the record of a run is:
/// `2026-11-21-01a1fe3e-133f-71de-b093-b20866f83eaf.jsonl`
#[must_use]
pub fn is_run_file(name: &str) -> bool {
    let Some((day, id)) = name
        .strip_suffix(".jsonl")
        .and_then(|n| n.split_at_checked(10))
    else {
        return false;
    };
    let shape = day.bytes().enumerate().all(|(place, octet)| match place {
        4 | 7 => octet == b'-',
        _ => octet.is_ascii_digit(),
    });
    shape && id.len() == 37 && id.starts_with('-')
}
