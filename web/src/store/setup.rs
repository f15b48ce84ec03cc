//! Set-up links: whoever has one makes the first admin, once and before it ends.
//!
//! A machine alone has one, the newest. Nodes of a fleet that start beside each other each print one, and each of
//! these is good until one was used. All of them stand in one row: for each the digest, and its end in seconds.

use super::{
    ChangeError,
    changes::Outcome,
    tables::{DatabaseError, OptionalExtension as _, Refused, Transaction},
};
use crate::credential::Digest;

/// One link.
struct Link {
    digest: Digest,
    expires: i64,
}

/// Makes one; `beside`: those that others hold stay good.
pub(super) fn open(
    db: &Transaction<'_>,
    (digest, expires): (&Digest, i64),
    beside: bool,
    now: i64,
) -> Outcome {
    let mut links = if beside { kept(db, now)? } else { Vec::new() };
    let surplus = (links.len() + 1).saturating_sub(MOST);
    links.drain(..surplus);
    links.push(Link {
        digest: Digest::from_octets(digest.octets()),
        expires,
    });
    let ends = links.iter().map(|link| link.expires).max();
    let octets: Vec<u8> = links.iter().flat_map(Link::octets).collect();
    let sql = "INSERT INTO setup_link (one, digest, expires) VALUES (1, ?1, ?2)
               ON CONFLICT (one) DO UPDATE SET digest = ?1, expires = ?2";
    db.execute(sql, (octets, ends.unwrap_or(expires)))?;
    Ok(())
}

/// Uses one: it must be good, and there must be no admin yet; who has another role makes none. No other one is good any more.
pub(super) fn finish(db: &Transaction<'_>, presented: &Digest, now: i64) -> Outcome {
    let sql = "SELECT count(*) > 0 FROM users WHERE role = 'admin'";
    let any_admin: bool = db.query_row(sql, (), |row| row.get(0))?;
    let fits = kept(db, now)?.iter().any(|link| link.digest.is(presented));
    if any_admin || !fits {
        return Err(Refused::Change(ChangeError::Setup));
    }
    db.execute("DELETE FROM setup_link", ())?;
    Ok(())
}

fn kept(db: &Transaction<'_>, now: i64) -> Result<Vec<Link>, DatabaseError> {
    let sql = "SELECT digest FROM setup_link WHERE expires > ?1";
    let octets: Option<Vec<u8>> = db.query_row(sql, [now], |row| row.get(0)).optional()?;
    let links = octets.unwrap_or_default();
    let (links, _damaged) = links.as_chunks::<LINK>();
    let links = links.iter().filter_map(Link::of);
    Ok(links.filter(|link| link.expires > now).collect())
}

impl Link {
    fn octets(&self) -> impl Iterator<Item = u8> {
        let ends = self.expires.to_be_bytes();
        self.digest.octets().into_iter().chain(ends)
    }

    fn of(octets: &[u8; LINK]) -> Option<Self> {
        let (digest, ends) = octets.split_first_chunk::<32>()?;
        Some(Self {
            digest: Digest::from_octets(*digest),
            expires: i64::from_be_bytes(ends.try_into().ok()?),
        })
    }
}

/// A digest and a time.
const LINK: usize = 32 + 8;
/// More nodes than this do not start beside each other before anybody signs in.
const MOST: usize = 64;
