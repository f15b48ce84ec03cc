//! Where a policy is in force, or bounds what is: for one person, a team, a server, or all.

use std::fmt;

use super::folded;

/// A place, the most specific one first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// All servers of one person, by their profile's name in small letters.
    Profile(String),
    /// All servers of those who are of a team.
    Team(String),
    /// One server, whoever it runs for.
    Server(String),
    /// All of them.
    All,
}

impl Place {
    /// Of a person.
    #[must_use]
    pub fn profile(name: &str) -> Self {
        Self::Profile(folded(name))
    }

    /// The stable word for what it is.
    #[must_use]
    pub const fn scope(&self) -> &'static str {
        match self {
            Self::Profile(_) => "profile",
            Self::Team(_) => "team",
            Self::Server(_) => "server",
            Self::All => "all",
        }
    }

    /// Which one; empty for all.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self {
            Self::Profile(name) | Self::Team(name) | Self::Server(name) => name,
            Self::All => "",
        }
    }

    /// From the store.
    pub(super) fn of(scope: &str, subject: String) -> Result<Self, String> {
        match scope {
            "profile" => Ok(Self::Profile(subject)),
            "team" => Ok(Self::Team(subject)),
            "server" => Ok(Self::Server(subject)),
            "all" if subject.is_empty() => Ok(Self::All),
            other => Err(format!("no such scope: {other}")),
        }
    }

    /// The server that it is.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Server(name) => Some(name),
            Self::Profile(_) | Self::Team(_) | Self::All => None,
        }
    }

    /// In one word or two, as proposals keep it: a server by its name alone, nothing for all. No name has a
    /// blank.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Profile(_) | Self::Team(_) => self.to_string(),
            Self::Server(name) => name.clone(),
            Self::All => String::new(),
        }
    }

    /// The same, read back.
    #[must_use]
    pub fn from_words(words: &str) -> Self {
        match words.split_once(' ') {
            Some(("profile", name)) => Self::profile(name),
            Some(("team", name)) => Self::Team(name.to_owned()),
            _ => Some(words.to_owned())
                .filter(|name| !name.is_empty())
                .into(),
        }
    }
}

/// `None` is all of them.
impl From<Option<String>> for Place {
    fn from(server: Option<String>) -> Self {
        server.map_or(Self::All, Self::Server)
    }
}

/// For people: `all servers`, `team data`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all servers"),
            one => write!(f, "{} {}", one.scope(), one.subject()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_as_it_was_kept() {
        for place in [
            Place::profile("Ana@corp.example"),
            Place::Team("data".to_owned()),
            Place::Server("team".to_owned()),
            Place::Server("profile".to_owned()),
            Place::All,
        ] {
            assert_eq!(Place::from_words(&place.in_words()), place);
            let (scope, subject) = (place.scope(), place.subject().to_owned());
            assert_eq!(Place::of(scope, subject), Ok(place));
        }
        assert_eq!(Place::profile("Ana"), Place::Profile("ana".to_owned()));
        assert!(
            Place::of("all", "x".to_owned()).is_err() && Place::of("x", String::new()).is_err()
        );
    }
}
