//! What is known of a secret without asking anybody: from gig's own environment, or from the vault.
//!
//! What a provider has, or a service would mint, is not fetched: something of the same kind stands in for
//! it, so that places and treatment come out as they would.

use std::sync::Arc;

use gig_policy::SecretName;
use gig_vault::{
    Definition, Fetch, FetchError, FetchFuture, FetchRequest, KindDefinition, MintRequest, Part,
    ProviderDefinition, RunKeeper, Secret, SecretBytes, SecretUnavailable, ShapeDefinition,
    SystemClock, Treatment, Vault,
    keeper::Keeper as _,
    memory,
    vault::{Listed, VersionState},
};
use parking_lot::Mutex;

use crate::{
    args::secret::SecretTestArgs,
    commands::secret::list::HANDS_OUT,
    secrets::{self as vault, short},
};

/// A secret, or what stands in for it.
#[derive(Debug)]
pub(super) struct Kept {
    /// `environment`, `vault`, or `nowhere`.
    pub(super) source: &'static str,
    pub(super) kind: &'static str,
    pub(super) provider: &'static str,
    /// Of the value; `None` where it is not at hand.
    pub(super) version: Option<u64>,
    /// Why no request may have it.
    pub(super) unusable: Option<String>,
    pub(super) secret: Arc<Secret>,
    /// Whether it holds the value itself.
    pub(super) real: bool,
    pub(super) notes: Vec<String>,
}

/// The network of a rehearsal: asked, it remembers who was, and gives nothing.
#[derive(Debug, Default)]
struct NoNetwork(Mutex<Vec<String>>);

impl Fetch for NoNetwork {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        let host = request.url.split('/').nth(2).unwrap_or_default().to_owned();
        self.0.lock().push(host.clone());
        let why = "a test asks nobody".to_owned();
        Box::pin(std::future::ready(Err(FetchError::Connect { host, why })))
    }
}

impl Kept {
    /// Looks it up: gig's own environment goes first, as for `gig run`.
    pub(super) fn find(name: &SecretName, args: &SecretTestArgs) -> anyhow::Result<Self> {
        memory::seal_process()?;
        let variable =
            gig_vault::environment::var_os(name.as_str()).filter(|value| !value.is_empty());
        if let Some(value) = variable {
            let value = SecretBytes::new(std::os::unix::ffi::OsStringExt::into_vec(value));
            return Self::given(name, value);
        }
        if !vault::exists()? {
            return Ok(Self::missing(name));
        }
        let opened = vault::open()?;
        let listed = opened.list()?;
        match listed
            .into_iter()
            .find(|listed| listed.name == name.as_str())
        {
            Some(listed) => Self::vaulted(name, &opened, &listed, args),
            None => Ok(Self::missing(name)),
        }
    }

    /// As a person is told of it.
    pub(super) fn shown(&self, name: &SecretName) -> String {
        match self.version {
            Some(version) if self.source == VAULT => format!("{name} version {version}"),
            _ if self.source == ENVIRONMENT => format!("{name} of gig's own environment"),
            _ => format!("{name} from {}", self.provider),
        }
    }

    fn given(name: &SecretName, value: SecretBytes) -> anyhow::Result<Self> {
        let network: Arc<NoNetwork> = Arc::default();
        let fetch: Arc<dyn Fetch> = network;
        let mut notes = Vec::new();
        notes.extend(short(name, &value));
        let keeper = RunKeeper::builder(fetch, Arc::new(SystemClock)).give(name.clone(), value);
        let secret = now(keeper.build()?.current(name))??;
        Ok(Self {
            source: ENVIRONMENT,
            kind: "static",
            provider: "environment",
            version: Some(secret.version),
            unusable: None,
            secret,
            real: true,
            notes,
        })
    }

    fn missing(name: &SecretName) -> Self {
        let unusable = format!(
            "gig's own environment has no {name}, and neither has the vault: gig secret set {name}"
        );
        Self {
            source: "nowhere",
            kind: "static",
            provider: "none",
            version: None,
            unusable: Some(unusable),
            secret: Arc::new(plain(name, Treatment::Replace, None)),
            real: false,
            notes: Vec::new(),
        }
    }

    fn vaulted(
        name: &SecretName,
        opened: &Arc<Vault>,
        listed: &Listed,
        args: &SecretTestArgs,
    ) -> anyhow::Result<Self> {
        let view = opened.view()?;
        let definition = match view.secret(name.as_str())? {
            Some((_, definition)) => definition,
            None => Definition::default(),
        };
        let mut kept = Self {
            source: VAULT,
            kind: listed.kind,
            provider: listed.provider,
            version: None,
            unusable: unusable(listed),
            secret: Arc::new(stand_in(name, &definition)?),
            real: false,
            notes: Vec::new(),
        };
        if listed.entrusted {
            kept.notes.push(
                "WARNING: entrusted: where a rule entrusts it too, the program is handed the value"
                    .to_owned(),
            );
        }
        if listed.hands_out {
            kept.notes.push(HANDS_OUT.trim_start().to_owned());
        }
        if kept.unusable.is_some() {
            return Ok(kept);
        }
        let by_options = &args.passphrase;
        if !listed.custody {
            let why = format!("{name} is in nobody's custody");
            vault::refuse_passphrase(by_options, &why)?;
        }
        if definition.provider != ProviderDefinition::Embedded {
            kept.notes.push(format!(
                "its provider ({}) was not asked: something stands in for the value",
                listed.provider
            ));
        } else if listed.custody && by_options.named().is_none() {
            kept.notes.push(
                "it is in its owner's custody and was not opened: something stands in for the value \
                 (--passphrase-file opens it)"
                    .to_owned(),
            );
        } else {
            if listed.custody {
                vault::unlock(opened, by_options, &[name.as_str()])?;
            }
            kept.open(name, opened)?;
        }
        Ok(kept)
    }

    /// Has the value itself, where that takes no network.
    fn open(&mut self, name: &SecretName, opened: &Arc<Vault>) -> anyhow::Result<()> {
        let network: Arc<NoNetwork> = Arc::default();
        let fetch: Arc<dyn Fetch> = Arc::clone(&network) as _;
        let keeper = RunKeeper::builder(fetch, Arc::new(SystemClock)).vault(Arc::clone(opened));
        let current = now(keeper.build()?.current(name))?;
        let asked = network.0.lock().first().cloned();
        match (current, asked) {
            (Ok(secret), _) => {
                self.version = Some(secret.version);
                let values = secret.parts.iter().map(|part| &part.value);
                self.notes.extend(values.filter_map(|value| short(name, value)));
                self.secret = secret;
                self.real = true;
            }
            (Err(_), Some(host)) => self.notes.push(format!(
                "kind {}: what goes in its sentinel's place is asked for at {host} when a request wants \
                 it; it was not asked for here",
                self.kind
            )),
            (Err(SecretUnavailable::Provider { why, .. }), None) => {
                self.unusable = Some(format!("{name} cannot be used: {why}"));
            }
            (Err(error), None) => self.unusable = Some(error.to_string()),
        }
        Ok(())
    }
}

/// Why no request may have it, as its versions stand.
fn unusable(listed: &Listed) -> Option<String> {
    let name = &listed.name;
    if let Some(at) = listed.removed {
        return Some(format!("{name} was removed and revoked at {at}"));
    }
    let current = |state| state == VersionState::Current;
    if listed.provider != ProviderDefinition::Embedded.name()
        || listed.versions.iter().any(|version| current(version.state))
    {
        return None;
    }
    let last = listed.versions.last();
    let until = last.and_then(|version| version.until);
    let until = until.map_or_else(String::new, |at| format!(" since {at}"));
    Some(match last.map(|version| version.state) {
        Some(VersionState::Expired) => {
            format!("{name} is expired{until}: gig secret rotate {name}")
        }
        _ => format!("{name} is revoked{until}: gig secret rotate {name}"),
    })
}

/// Something of the kind that is no value.
fn stand_in(name: &SecretName, definition: &Definition) -> anyhow::Result<Secret> {
    let sample = match &definition.kind {
        KindDefinition::Static => STAND_IN.to_owned(),
        KindDefinition::Basic => format!("user:{STAND_IN}"),
        KindDefinition::Aws(_) => format!("AKIASTANDINSTANDINXX:{STAND_IN}"),
        KindDefinition::Hmac(_) => STAND_IN.to_owned(),
        KindDefinition::ClientCertificate => {
            return Ok(plain(name, Treatment::ClientCertificate, None));
        }
        KindDefinition::Oauth2ClientCredentials(_)
        | KindDefinition::Oauth2RefreshToken(_)
        | KindDefinition::GithubApp(_)
        | KindDefinition::GoogleServiceAccount(_) => String::new(),
    };
    let shape = definition.shape.as_ref().map(ShapeDefinition::shape);
    let shape = shape.transpose()?;
    let fetch: Arc<dyn Fetch> = Arc::<NoNetwork>::default();
    let value = SecretBytes::from(sample.as_str());
    let kind = definition.kind.kind();
    let minted = now(kind.mint(MintRequest {
        name,
        value: &value,
        shape: shape.as_ref(),
        fetch: &fetch,
        clock: &SystemClock,
    }))?;
    Ok(match minted {
        Ok(minted) => Secret {
            name: name.clone(),
            version: 0,
            parts: minted.parts,
            treatment: minted.treatment,
            entrusted: definition.entrusted,
        },
        // Nobody was asked for it: where it may stand is the same.
        Err(_) if kind.is_minted() => plain(name, Treatment::Bearer, shape),
        Err(_) => plain(name, Treatment::Replace, shape),
    })
}

fn plain(name: &SecretName, treatment: Treatment, shape: Option<gig_vault::Shape>) -> Secret {
    Secret {
        name: name.clone(),
        version: 0,
        parts: vec![Part {
            variable: name.shared().clone(),
            value: SecretBytes::from(STAND_IN),
            shape: shape.unwrap_or_default(),
        }],
        treatment,
        entrusted: false,
    }
}

/// Waits for what waits for nobody.
pub(super) fn now<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(future))
}

const ENVIRONMENT: &str = "environment";
const VAULT: &str = "vault";
/// Also a key in hexadecimal and in Base64.
const STAND_IN: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
