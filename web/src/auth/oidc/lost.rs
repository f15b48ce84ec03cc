//! Somebody whose groups have no role here any more: what they had ends, and the account stays.

use std::net::SocketAddr;

use super::themselves;
use crate::{
    api_error::Problem,
    app::App,
    role::Role,
    store::{Account, Change, Team, Token, User, folded},
};

/// Ends the sessions and tokens of somebody whose groups have no role any more. Who has nothing that could end is not in
/// the record for it again.
pub(super) async fn lose(
    app: &App,
    (user, account): (User, Account),
    (named, address): (Vec<String>, Option<SocketAddr>),
) -> Result<(), Problem> {
    let (name, now) = (folded(&user.name), app.now());
    let found = app.ask(move |store| {
        let theirs = |token: &Token| folded(&token.person) == name;
        let has_any =
            !store.sessions_of(&name, now)?.is_empty() || store.tokens()?.iter().any(theirs);
        let of = |team: &Team| named.contains(&team.name) && team.members.contains(&name);
        let teams = store.teams()?.into_iter().filter(of);
        Ok((has_any, teams.map(|team| team.name).collect::<Vec<_>>()))
    });
    let (has_any, out_of) = found.await?;
    if !has_any && user.role == Role::Viewer && out_of.is_empty() {
        return Ok(());
    }
    let actor = themselves(app, &user.name, address);
    let name = user.name.parse()?;
    let lost = Change::SignOnLost {
        name,
        account,
        out_of,
    };
    app.change(actor, lost).await.map(drop)
}
