//! The tokens of one wallet: in locked memory, as many as are in use at once, gone when they expire.

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use gig_policy::SecretName;
use gig_vault::{Part, Secret, SecretBytes, Shape, ShapeDefinition, Treatment};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::credential::{
    sentinel::{MintSentinelError, mint},
    wallet::{Held, Wallet},
};

/// A token that a server gave.
pub struct Captured {
    /// As the border uses it.
    pub secret: Arc<Secret>,
    /// Its one value; of a signed token the signature.
    pub value: Arc<SecretBytes>,
    /// What is looked for: the value, or of a long one each of its pieces, so that what a place costs is
    /// bounded and a piece that comes back or goes astray alone is known.
    pub pieces: Vec<Arc<SecretBytes>>,
    /// From then on it is forgotten.
    until: Option<Instant>,
}

impl Wallet {
    /// Keeps a token for as many seconds as it lives, and gives what the program gets in its place. A
    /// signed token (RFC 7515) keeps its header and its claims, which the program may want to read: its
    /// signature is what makes it worth anything, and is what is kept back.
    ///
    /// # Errors
    /// [`MintSentinelError`].
    pub(super) fn hold_captured(
        &self,
        name: &SecretName,
        token: SecretBytes,
        lives: Option<u64>,
    ) -> Result<Arc<str>, MintSentinelError> {
        let (open, value) = match signature_at(token.expose()) {
            Some(at) => {
                let (open, signature) = token.expose().split_at(at);
                let open = String::from_utf8_lossy(open).into_owned();
                (open, SecretBytes::copy_of(signature))
            }
            None => (String::new(), token),
        };
        let now = Instant::now();
        let until = lives.and_then(|s| now.checked_add(Duration::from_secs(s) + GRACE));
        let changing = self.changing.lock();
        let mut held = Vec::clone(&self.held.load());
        held.retain(|held| held.lives(now));
        let same = |held: &Held| {
            let captured = held.captured.as_ref();
            held.name == *name && captured.is_some_and(|captured| *captured.value == value)
        };
        let sentinel: Arc<str> = match held.iter().position(same).map(|at| held.remove(at)) {
            Some(known) => known.sentinel,
            None => mint(&shape(&open, &value), value.len(), None)?.into(),
        };
        make_room(&mut held, value.len());
        held.push(Held {
            name: name.clone(),
            part: 0,
            variable: "".into(),
            sentinel: Arc::clone(&sentinel),
            told: true,
            captured: Some(Arc::new(Captured::new(name, value, until))),
        });
        self.publish(held);
        drop(changing);
        Ok(if open.is_empty() {
            sentinel
        } else {
            format!("{open}{sentinel}").into()
        })
    }

    /// Forgets the tokens whose time is over.
    pub fn forget_expired(&self) {
        let now = Instant::now();
        if self.held.load().iter().all(|held| held.lives(now)) {
            return;
        }
        let changing = self.changing.lock();
        let mut held = Vec::clone(&self.held.load());
        held.retain(|held| held.lives(now));
        self.publish(held);
        drop(changing);
    }
}

impl Held {
    fn lives(&self, now: Instant) -> bool {
        let until = self.captured.as_ref().and_then(|captured| captured.until);
        until.is_none_or(|until| now < until)
    }
}

impl Captured {
    fn new(name: &SecretName, value: SecretBytes, until: Option<Instant>) -> Self {
        let part = Part {
            variable: "".into(),
            value: value.duplicate(),
            shape: Shape::Plain,
        };
        let secret = Secret {
            name: name.clone(),
            version: 1,
            parts: vec![part],
            treatment: Treatment::Replace,
            entrusted: false,
        };
        let value = Arc::new(value);
        Self {
            secret: Arc::new(secret),
            pieces: pieces(&value),
            value,
            until,
        }
    }
}

/// The value, or pieces of it of which none is so short that chance would find it.
fn pieces(value: &Arc<SecretBytes>) -> Vec<Arc<SecretBytes>> {
    if value.len() < 2 * PIECE {
        return vec![Arc::clone(value)];
    }
    let (cut, rest) = value.expose().as_chunks::<PIECE>();
    let Some((last, cut)) = cut.split_last() else {
        return vec![Arc::clone(value)];
    };
    let mut pieces: Vec<Arc<SecretBytes>> = Vec::new();
    let mut add = |octets: &[u8]| {
        if pieces.iter().all(|known| known.expose() != octets) {
            pieces.push(Arc::new(SecretBytes::copy_of(octets)));
        }
    };
    cut.iter().for_each(|piece| add(piece));
    add(&Zeroizing::new([last.as_slice(), rest].concat()));
    pieces
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Captured({})", self.secret.name)
    }
}

/// Lets the oldest go until one more of `length` octets fits.
fn make_room(held: &mut Vec<Held>, length: usize) {
    let size = |held: &Held| held.captured.as_ref().map_or(0, |c| c.value.len());
    loop {
        let captured = held.iter().filter(|held| held.captured.is_some());
        let octets: usize = held.iter().map(size).sum();
        if captured.count() < MOST && octets + length <= MOST_OCTETS {
            return;
        }
        let Some(oldest) = held.iter().position(|held| held.captured.is_some()) else {
            return;
        };
        held.remove(oldest);
    }
}

/// Where the signature of a token in JWS compact serialisation begins.
fn signature_at(token: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(token).ok()?;
    let mut parts = text.split('.');
    let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let sound = parts.next().is_none()
        && signature.len() >= SHORTEST_SIGNATURE
        && [header, claims, signature]
            .iter()
            .all(|part| part.chars().all(plain));
    let object = |part: &str| {
        let octets = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice::<serde_json::Map<_, _>>(&octets).ok()
    };
    (sound && object(header)?.contains_key("alg") && object(claims).is_some())
        .then(|| text.len() - signature.len())
}

/// A sentinel looks like what it stands for, where that is known.
fn shape(open: &str, value: &SecretBytes) -> Shape {
    if !open.is_empty() {
        return Shape::Like {
            prefix: String::new(),
            length: value.len().min(2 * PIECE),
            alphabet: BASE64URL.to_owned(),
        };
    }
    let guessed = ShapeDefinition::guessed(value.expose());
    let shape = guessed.and_then(|guessed| guessed.shape().ok());
    shape.unwrap_or_default()
}

/// Octets of a piece; a value is cut when it has two of them.
const PIECE: usize = 256;
/// Tokens of one sandbox: more than any program has in use.
const MOST: usize = 64;
/// Of all of them together.
const MOST_OCTETS: usize = 256 * 1024;
/// The program counts from when it has the answer, and its clock may be slower.
const GRACE: Duration = Duration::from_secs(60);
/// The shortest signatures in use (HS256) have 43 characters.
const SHORTEST_SIGNATURE: usize = 24;
const BASE64URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[cfg(test)]
mod tests;
