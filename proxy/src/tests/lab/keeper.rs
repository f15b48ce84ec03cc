//! A keeper of secrets that a test sets as it goes. The real one has a store, clocks and providers of
//! its own, which are tested where they are; a test that needs them asks it through this one.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use gig_policy::{SandboxId, SecretName};
use gig_vault::{
    Guarded, GuardedValue, Part, Secret, SecretBytes, SecretFuture, SecretUnavailable, Shape,
    Treatment,
};
use parking_lot::Mutex;

use crate::credential::{Border, Wallet};

#[derive(Debug, Default)]
pub(in crate::tests) struct Keeper {
    secrets: Mutex<BTreeMap<SecretName, Arc<Secret>>>,
    guarded: Mutex<Arc<Guarded>>,
    border: Mutex<Option<Arc<Border>>>,
    real: Option<Arc<dyn gig_vault::Keeper>>,
    refused: Mutex<Vec<SecretName>>,
    asked: AtomicUsize,
}

impl Keeper {
    pub(in crate::tests) fn with(secrets: &[(&str, &str)]) -> Arc<Self> {
        let keeper = Arc::new(Self::default());
        for (name, value) in secrets {
            keeper.set(name, value);
        }
        keeper
    }

    /// The real one's secrets of these names.
    pub(in crate::tests) async fn real(
        keeper: Arc<dyn gig_vault::Keeper>,
        names: &[&str],
    ) -> Arc<Self> {
        let mut secrets = BTreeMap::new();
        for name in names {
            let name: SecretName = name.parse().unwrap();
            secrets.insert(name.clone(), keeper.current(&name).await.unwrap());
        }
        Arc::new(Self {
            secrets: Mutex::new(secrets),
            real: Some(keeper),
            ..Self::default()
        })
    }

    /// A new version; the ones before are revoked.
    pub(in crate::tests) fn set(&self, name: &str, value: &str) {
        let name: SecretName = name.parse().unwrap();
        let mut secrets = self.secrets.lock();
        let version = secrets.get(&name).map_or(1, |old| old.version + 1);
        let value = || SecretBytes::new(value.as_bytes().to_vec());
        let secret = Secret {
            name: name.clone(),
            version,
            parts: vec![Part {
                variable: Arc::clone(name.shared()),
                value: value(),
                shape: Shape::Plain,
            }],
            treatment: Treatment::Replace,
            entrusted: false,
        };
        secrets.insert(name.clone(), Arc::new(secret));
        self.guard(&name, Some((version, 0, Arc::new(value()))));
    }

    /// A secret that the program is handed as it is.
    pub(in crate::tests) fn entrust(&self, name: &str, value: &str) {
        self.set(name, value);
        let name: SecretName = name.parse().unwrap();
        let part = Part {
            variable: Arc::clone(name.shared()),
            value: SecretBytes::from(value),
            shape: Shape::Plain,
        };
        let secret = Secret {
            name: name.clone(),
            version: 1,
            parts: vec![part],
            treatment: Treatment::Replace,
            entrusted: true,
        };
        self.secrets.lock().insert(name, Arc::new(secret));
    }

    /// A secret of another kind, by its parts.
    pub(in crate::tests) fn put(&self, name: &str, parts: &[&str], treatment: Treatment) {
        let name: SecretName = name.parse().unwrap();
        let part = |(number, value): (usize, &&str)| Part {
            variable: format!("{name}_{number}").into(),
            value: SecretBytes::from(*value),
            shape: Shape::Plain,
        };
        let secret = Secret {
            name: name.clone(),
            version: 1,
            parts: parts.iter().enumerate().map(part).collect(),
            treatment,
            entrusted: false,
        };
        for (number, part) in secret.parts.iter().enumerate() {
            let value = Arc::new(part.value.duplicate());
            self.guard(&name, Some((1, number, value)));
        }
        self.secrets.lock().insert(name, Arc::new(secret));
    }

    /// No version may be used any more.
    pub(in crate::tests) fn revoke(&self, name: &str) {
        let name: SecretName = name.parse().unwrap();
        self.secrets.lock().remove(&name);
        self.guard(&name, None);
    }

    fn guard(&self, name: &SecretName, current: Option<(u64, usize, Arc<SecretBytes>)>) {
        let mut guarded = self.guarded.lock();
        let known = guarded.values.iter().map(|value| GuardedValue {
            name: value.name.clone(),
            version: value.version,
            part: value.part,
            value: Arc::clone(&value.value),
            current: value.current && value.name != *name,
        });
        let added = current.map(|(version, part, value)| GuardedValue {
            name: name.clone(),
            version,
            part: Some(part),
            value,
            current: true,
        });
        *guarded = Arc::new(Guarded {
            generation: guarded.generation + 1,
            values: known.chain(added).collect(),
        });
    }

    /// The secrets that hosts said are not good any more, since the last call.
    pub(in crate::tests) fn take_refused(&self) -> Vec<String> {
        let refused = std::mem::take(&mut *self.refused.lock());
        refused.iter().map(ToString::to_string).collect()
    }

    /// How often anybody asked for all values as the store has them now.
    pub(in crate::tests) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// A wallet with a sentinel for each secret; all wallets belong to one border.
    pub(in crate::tests) fn wallet(self: &Arc<Self>, sandbox: SandboxId) -> Arc<Wallet> {
        let border =
            Arc::clone(self.border.lock().get_or_insert_with(|| {
                Border::new(Arc::clone(self) as Arc<dyn gig_vault::Keeper>)
            }));
        let wallet = border.wallet(sandbox);
        for secret in self.secrets.lock().values() {
            wallet.hold(secret).unwrap();
        }
        wallet
    }
}

impl gig_vault::Keeper for Keeper {
    fn at_hand(&self, name: &SecretName) -> Option<Arc<Secret>> {
        match &self.real {
            Some(real) => real.at_hand(name),
            None => self.secrets.lock().get(name).cloned(),
        }
    }

    fn usable(&self, name: &SecretName) -> Option<Arc<Secret>> {
        match &self.real {
            Some(real) => real.usable(name),
            None => self.at_hand(name),
        }
    }

    fn renew(&self, name: &SecretName) {
        if let Some(real) = &self.real {
            real.renew(name);
        }
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        if let Some(real) = &self.real {
            return real.current(name);
        }
        let found = self.at_hand(name);
        let missing = || SecretUnavailable::Unknown { name: name.clone() };
        Box::pin(std::future::ready(found.ok_or_else(missing)))
    }

    fn refused(&self, name: &SecretName) {
        if let Some(real) = &self.real {
            real.refused(name);
        }
        self.refused.lock().push(name.clone());
    }

    fn lately_guarded(&self) -> Arc<Guarded> {
        match &self.real {
            Some(real) => real.lately_guarded(),
            None => Arc::clone(&self.guarded.lock()),
        }
    }

    fn guarded(&self) -> Arc<Guarded> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some(real) = &self.real {
            return real.guarded();
        }
        Arc::clone(&self.guarded.lock())
    }
}
