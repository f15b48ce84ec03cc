//! Passwords: Argon2id (RFC 9106), hashed beside the runtime and never many at once.
//!
//! A name that nobody has costs as much as one with a wrong password. Costs stand in each hash, so that
//! they can rise later.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

mod guess;

/// Hashes and checks, a few at a time: each takes 19 MiB.
#[derive(Debug, Clone)]
pub struct Hasher {
    turns: Arc<Semaphore>,
    /// What a name that nobody has is checked against.
    nobody: Arc<str>,
}

/// A password cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PasswordRefused {
    /// Shorter than anybody's guessing.
    #[error("a password has at least {SHORTEST} characters; a few words in a row serve well")]
    Short,
    /// Longer than anybody types.
    #[error("a password has at most {LONGEST} octets")]
    Long,
    /// It is the name, or the name and little else.
    #[error(
        "a password is not the name it belongs to, however that is written or what few characters are beside it; a few \
         words in a row serve well"
    )]
    Name,
    /// The same one or two or three characters again and again, or characters in a row as the keyboard has them.
    #[error(
        "that password is the same few characters again and again, or a row of neighbours; a few words in a row serve well"
    )]
    Pattern,
    /// Among those that are tried first.
    #[error(
        "that password is among those that are tried first, wherever; a few words in a row that are your own serve well"
    )]
    Common,
    /// No memory, no random numbers.
    #[error("the password cannot be hashed now")]
    Hash,
}

impl Hasher {
    /// A hasher that runs at most two at once.
    ///
    /// # Errors
    /// When this machine cannot hash.
    pub fn new() -> Result<Self, PasswordRefused> {
        Ok(Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            nobody: hash("a name that nobody has")?.into(),
        })
    }

    /// What is kept of a new password.
    ///
    /// # Errors
    /// [`PasswordRefused`].
    pub fn hash(name: &str, password: &str) -> Result<String, PasswordRefused> {
        if password.chars().count() < SHORTEST {
            return Err(PasswordRefused::Short);
        }
        if password.len() > LONGEST {
            return Err(PasswordRefused::Long);
        }
        guess::refuse(name, password)?;
        hash(password)
    }

    /// The same on a thread that may compute.
    pub(crate) async fn hash_aside(
        &self,
        name: &str,
        password: Zeroizing<String>,
    ) -> Result<String, PasswordRefused> {
        let name = name.to_owned();
        let hashed = self.in_turn(move || Self::hash(&name, &password)).await;
        hashed.ok_or(PasswordRefused::Hash)?
    }

    /// Whether it is the password; `None` for a name that nobody has.
    pub(crate) async fn check(&self, kept: Option<String>, password: Zeroizing<String>) -> bool {
        let known = kept.is_some();
        let kept = kept.unwrap_or_else(|| self.nobody.to_string());
        let checked = self.in_turn(move || password.len() <= LONGEST && is(&kept, &password));
        checked.await.unwrap_or_default() && known
    }

    /// Computes beside the runtime. The turn ends with the work: whoever asked may go away before it does.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.ok()
    }
}

/// A password out of a form, wiped when it is no longer needed.
pub(crate) fn typed<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Zeroizing<String>, D::Error> {
    serde::Deserialize::deserialize(from).map(Zeroizing::new)
}

fn hash(password: &str) -> Result<String, PasswordRefused> {
    let mut salt = [0; SALT];
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| PasswordRefused::Hash)?;
    let output = derive(password, &salt, COST).ok_or(PasswordRefused::Hash)?;
    let encode = |octets: &[u8]| BASE64_STANDARD_NO_PAD.encode(octets);
    let (memory, passes, lanes) = COST;
    Ok(format!(
        "$argon2id$v=19$m={memory},t={passes},p={lanes}${}${}",
        encode(&salt),
        encode(output.as_ref()),
    ))
}

fn is(kept: &str, password: &str) -> bool {
    let parsed = || {
        let rest = kept.strip_prefix("$argon2id$v=19$m=")?;
        let (cost, rest) = rest.split_once('$')?;
        let (salt, output) = rest.split_once('$')?;
        let (memory, cost) = cost.split_once(",t=")?;
        let (passes, lanes) = cost.split_once(",p=")?;
        let cost = (
            memory.parse().ok()?,
            passes.parse().ok()?,
            lanes.parse().ok()?,
        );
        let salt = BASE64_STANDARD_NO_PAD.decode(salt).ok()?;
        let output = BASE64_STANDARD_NO_PAD.decode(output).ok()?;
        let derived = derive(password, &salt, cost)?;
        Some(bool::from(derived.as_slice().ct_eq(&output)))
    };
    parsed().unwrap_or_default()
}

fn derive(
    password: &str,
    salt: &[u8],
    (memory, passes, lanes): (u32, u32, u32),
) -> Option<Zeroizing<[u8; OUTPUT]>> {
    let params = Params::new(memory, passes, lanes, Some(OUTPUT)).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut output = Zeroizing::new([0; OUTPUT]);
    argon2
        .hash_password_into(password.as_bytes(), salt, output.as_mut())
        .ok()?;
    Some(output)
}

/// NIST SP 800-63B asks for 15 where nothing else guards, 8 beside a second factor; sign-ins are limited.
const SHORTEST: usize = 12;
const LONGEST: usize = 1024;
const SALT: usize = 16;
const OUTPUT: usize = 32;
/// KiB, passes, lanes: OWASP's first choice, a tenth of a second of one processor.
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);
/// 40 MiB at most, and one processor left for the proxy.
const AT_ONCE: usize = 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::poll;

    use super::*;

    #[test]
    fn a_password_is_known_again_and_another_is_not() {
        let kept = Hasher::hash("ana", "correct horse battery").unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(is(&kept, "correct horse battery"));
        assert!(!is(&kept, "correct horse batterx"));
        assert!(!is("nonsense", "correct horse battery"));
        assert_ne!(kept, Hasher::hash("ana", "correct horse battery").unwrap());
    }

    #[tokio::test]
    async fn who_goes_away_gives_no_turn_back_before_the_work_is_done() {
        let hasher = Hasher::new().unwrap();
        let (open, opened) = std::sync::mpsc::channel::<()>();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let mut work = Box::pin(hasher.in_turn(move || {
            begun.send(()).unwrap();
            let _ended = opened.recv();
        }));
        assert!(poll!(&mut work).is_pending());
        begins.await.unwrap();
        drop(work);
        assert_eq!(hasher.turns.available_permits(), AT_ONCE - 1);
        drop(open);
        let all = u32::try_from(AT_ONCE).unwrap();
        let back = hasher.turns.acquire_many(all);
        let back = tokio::time::timeout(Duration::from_secs(60), back).await;
        assert!(back.is_ok(), "it is given back with the end of the work");
    }

    #[test]
    fn short_long_and_own_names_are_refused() {
        assert_eq!(
            Hasher::hash("a", "elevenchars"),
            Err(PasswordRefused::Short)
        );
        assert_eq!(
            Hasher::hash("administrator", "Administrator"),
            Err(PasswordRefused::Name)
        );
        assert_eq!(
            Hasher::hash("a", "aaaaaaaaaaaa"),
            Err(PasswordRefused::Pattern)
        );
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(Hasher::hash("a", &long), Err(PasswordRefused::Long));
    }
}
