//! Which attempts of one server and day are kept one by one: as many as the bound says, and of denials so many of
//! one destination and of one profile that neither paths without end nor one user's sandbox use the places up.

use std::collections::{HashMap, HashSet};

use super::{MOST_ATTEMPTS, MOST_OF_DESTINATION, MOST_OF_PROFILE, What};

/// Those that are kept already.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    ids: HashSet<Vec<u8>>,
    /// Denials, of whom or of what.
    taken: HashMap<Share, usize>,
}

/// Who has a share of the places.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Share {
    Profile(Option<String>),
    Destination(Option<String>, Option<String>, Option<u16>),
}

impl Shares {
    /// It is kept already; `what` is JSON.
    pub(crate) fn note(&mut self, id: Vec<u8>, denied: bool, what: &str) {
        for (share, _) in shares(denied, what) {
            *self.taken.entry(share).or_default() += 1;
        }
        self.ids.insert(id);
    }

    /// Whether it is to be kept, and from here on is.
    pub(super) fn takes(&mut self, id: &[u8], denied: bool, what: &str) -> bool {
        if self.ids.contains(id) {
            return true;
        }
        let is_full =
            |(share, most): &(Share, usize)| self.taken.get(share).is_some_and(|n| n >= most);
        if self.ids.len() >= MOST_ATTEMPTS || shares(denied, what).iter().any(is_full) {
            return false;
        }
        self.note(id.to_vec(), denied, what);
        true
    }
}

/// The shares that an attempt is of, and how many each may have.
fn shares(denied: bool, what: &str) -> Vec<(Share, usize)> {
    let what = serde_json::from_str::<What>(what).ok();
    let Some(what) = what.filter(|_| denied) else {
        return Vec::new();
    };
    let destination = Share::Destination(what.profile.clone(), what.host, what.port);
    vec![
        (destination, MOST_OF_DESTINATION),
        (Share::Profile(what.profile), MOST_OF_PROFILE),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(profile: &str, host: &str, path: usize) -> String {
        let what = What {
            verdict: "deny".to_owned(),
            profile: Some(profile.to_owned()),
            host: Some(host.to_owned()),
            path: Some(format!("/{path}")),
            ..What::default()
        };
        serde_json::to_string(&what).unwrap()
    }

    #[test]
    fn neither_paths_nor_one_user_take_the_places_of_others() {
        let mut shares = Shares::default();
        let mut take = |what: &str| shares.takes(what.as_bytes(), true, what);
        let paths = (0..1300)
            .filter(|n| take(&denied("ana", "h.test", *n)))
            .count();
        assert_eq!(paths, MOST_OF_DESTINATION);
        let hosts = (0..1300)
            .filter(|n| take(&denied("ana", &format!("{n}.test"), 0)))
            .count();
        assert_eq!(hosts, MOST_OF_PROFILE - MOST_OF_DESTINATION);
        assert!(take(&denied("ben", "wanted.test", 0)));
        assert!(take(&denied("ana", "h.test", 7)), "it is kept already");
        let rest = (0..1300)
            .filter(|n| take(&denied("ben", &format!("{n}.test"), 0)))
            .count();
        assert_eq!(rest, MOST_ATTEMPTS - MOST_OF_PROFILE - 1);
        assert!(!take(&denied("cid", "h.test", 0)), "all are taken");
    }

    #[test]
    fn what_is_read_again_takes_its_share_again() {
        let mut shares = Shares::default();
        for n in 0..MOST_OF_DESTINATION {
            shares.note(n.to_be_bytes().to_vec(), true, &denied("ana", "h.test", n));
        }
        let more = denied("ana", "h.test", 99_999);
        assert!(!shares.takes(b"more", true, &more));
        assert!(
            shares.takes(b"more", false, &more),
            "what was allowed waits for nobody"
        );
    }
}
