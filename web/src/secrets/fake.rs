//! A vault in memory that keeps no values: names and numbers of versions, added, rotated and removed as the real
//! one does it.

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    Announce, Described, SecretChange, SecretDoing, SecretError, SecretFacts, SecretMade,
    SecretVersion, Secrets, in_clear_text,
};

/// Empty at first.
#[derive(Debug, Default)]
pub(crate) struct FakeSecrets(Mutex<Vec<SecretFacts>>);

impl Secrets for FakeSecrets {
    fn list(&self) -> Result<Vec<SecretFacts>, SecretError> {
        Ok(self.0.lock().clone())
    }

    fn change(&self, change: &SecretChange, announce: Announce) -> Result<SecretMade, SecretError> {
        let mut kept = self.0.lock();
        let there = kept.iter().position(|one| one.name == change.name);
        let missing = || SecretError::Missing(format!("there is no secret {}", change.name));
        match (&change.doing, there) {
            (SecretDoing::Add { .. }, Some(_)) => Err(SecretError::Exists(change.name.clone())),
            (SecretDoing::Add { described, .. }, None) => {
                announce("added").map_err(SecretError::NotRecorded)?;
                // A definition of the fake's is a service's address and no more.
                let services = match described {
                    Described::Kind(_) => Vec::new(),
                    Described::Definition(service) => vec![service.clone()],
                };
                let mut made = made(1);
                made.warnings = in_clear_text(&services);
                kept.push(SecretFacts {
                    services,
                    ..added(&change.name)
                });
                Ok(made)
            }
            (_, None) => Err(missing()),
            (SecretDoing::Rotate { .. }, Some(at)) => {
                announce("rotated").map_err(SecretError::NotRecorded)?;
                let one = kept.get_mut(at).ok_or_else(missing)?;
                one.versions.push(version(one.versions.len() as u64 + 1));
                Ok(made(one.versions.len() as u64))
            }
            (SecretDoing::Remove { version }, Some(at)) => {
                announce("removed").map_err(SecretError::NotRecorded)?;
                let one = kept.get_mut(at).ok_or_else(missing)?;
                one.versions
                    .retain(|each| version.is_some_and(|ends| each.version != ends));
                if one.versions.is_empty() {
                    kept.remove(at);
                }
                Ok(made(0))
            }
        }
    }
}

fn made(version: u64) -> SecretMade {
    SecretMade {
        version,
        warnings: Vec::new(),
    }
}

fn added(name: &str) -> SecretFacts {
    SecretFacts {
        name: name.to_owned(),
        kind: "static",
        provider: "embedded",
        entrusted: false,
        services: Vec::new(),
        hands_out: false,
        custody: false,
        created: Timestamp::UNIX_EPOCH,
        removed: None,
        versions: vec![version(1)],
    }
}

fn version(version: u64) -> SecretVersion {
    SecretVersion {
        version,
        state: "current",
        created: Timestamp::UNIX_EPOCH,
        until: None,
    }
}
