//! Whose a sandbox is: its profile, and for whom it is there. The person behind whoever asks; for a gateway, which has the right to
//! act for others, the one whom it names in `Gig-Profile`.
//!
//! Promises that nobody acts for somebody else without that right, that what names a profile is a plain
//! name of one spelling, and that who acted for whom is told to the record by [`Whose::words`]. What runs for
//! another profile is not there for who does not oversee all ([`Sight`]).

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, StatusCode};

use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{Name, folded},
};

/// Whose sandbox somebody asks for.
#[derive(Debug, Clone)]
pub(crate) struct Whose {
    /// As the record names them.
    pub(crate) profile: Arc<str>,
    /// It is somebody else than who asks.
    others: bool,
}

impl Whose {
    /// The caller's own.
    pub(crate) fn own(caller: &Caller) -> Self {
        Self {
            profile: caller.profile(),
            others: false,
        }
    }

    /// The caller's own, or of whom the request names.
    ///
    /// # Errors
    /// 400 for what is no name, 403 for who may not act for others.
    pub(crate) async fn of(
        app: &App,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let mut said = headers.get_all(PROFILE).iter();
        let Some(first) = said.next() else {
            return Ok(Self::own(caller));
        };
        let name = first.to_str().ok().filter(|_| said.next().is_none());
        let name = name.and_then(|text| text.parse::<Name>().ok());
        let name = name.ok_or_else(|| {
            let words = "Gig-Profile names one person: 1 to 64 letters, digits, dots, dashes, underscores or @";
            Problem::new(StatusCode::BAD_REQUEST, "profile", words)
        })?;
        if caller.profile().eq_ignore_ascii_case(name.as_str()) {
            return Ok(Self::own(caller));
        }
        if !caller.may(Permission::ActForProfiles) {
            return Err(Problem::forbidden(
                "you act for yourself: a token whose scopes name profiles:act acts for others",
            ));
        }
        let wanted = name.to_string();
        let known = app.ask(move |store| store.user(&wanted)).await?;
        let profile = known.map_or_else(|| folded(name.as_str()), |user| user.name);
        Ok(Self {
            profile: profile.into(),
            others: true,
        })
    }

    /// For the record, where it says who asked already; `None` where that says it.
    pub(crate) fn words(&self) -> Option<Arc<str>> {
        self.others.then(|| format!("for {}", self.profile).into())
    }
}

/// Whose sandboxes are there for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Everybody's.
    All,
    /// This profile's.
    Of(Arc<str>),
}

impl Sight {
    /// All for who oversees, else the caller's own; of whom the request names, where it names somebody.
    ///
    /// # Errors
    /// As [`Whose::of`].
    pub(crate) async fn of(
        app: &App,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        if headers.contains_key(&PROFILE) {
            return Ok(Self::Of(Whose::of(app, caller, headers).await?.profile));
        }
        Ok(Self::plain(caller))
    }

    /// The same where nobody is named.
    pub(crate) fn plain(caller: &Caller) -> Self {
        match caller.may(Permission::OverseeProfiles) {
            true => Self::All,
            false => Self::Of(caller.profile()),
        }
    }

    /// Whose requests they decide on that wait; of whom the request names, where it names somebody.
    ///
    /// # Errors
    /// As [`Whose::of`].
    pub(crate) async fn of_deciding(
        app: &App,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        if headers.contains_key(&PROFILE) {
            return Self::of(app, caller, headers).await;
        }
        Ok(Self::deciding(caller))
    }

    /// The same where nobody is named.
    pub(crate) fn deciding(caller: &Caller) -> Self {
        match caller.decides_for_all() {
            true => Self::All,
            false => Self::Of(caller.profile()),
        }
    }

    /// Whose alone; `None`: everybody's.
    pub(crate) fn profile(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::Of(own) => Some(own),
        }
    }

    /// Whether what runs for `profile` is there.
    pub(crate) fn takes_in(&self, profile: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of(own) => folded(own) == folded(profile),
        }
    }
}

const PROFILE: HeaderName = HeaderName::from_static(HEADER);
/// The field of a request by which a gateway says for whom it asks.
pub const HEADER: &str = "gig-profile";

#[cfg(test)]
mod tests;
