//! Somebody whose groups have no role here any more: what they had ends, and the account stays.

use std::net::SocketAddr;

use super::themselves;
use crate::{
    api_error::Problem,
    app::App,
    role::Role,
    store::{Account, Change, Token, User, folded},
};

/// Ends the sessions and tokens of somebody whose groups have no role any more. Who has nothing that could end is not in
/// the record for it again.
pub(super) async fn lose(
    app: &App,
    (user, account): (User, Account),
    (mut out_of, address): (Vec<String>, Option<SocketAddr>),
) -> Result<(), Problem> {
    let (name, now) = (folded(&user.name), app.now());
    let teams = app.ask(|store| store.teams()).await?;
    out_of.retain(|out| {
        teams
            .iter()
            .any(|one| one.name == *out && one.members.contains(&name))
    });
    let has_any = app.ask(move |store| {
        let theirs = |token: &Token| folded(&token.person) == name;
        Ok(!store.sessions_of(&name, now)?.is_empty() || store.tokens()?.iter().any(theirs))
    });
    if !has_any.await? && user.role == Role::Viewer && out_of.is_empty() {
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
