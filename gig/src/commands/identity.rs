//! `gig user …` and `gig token …`: who may use the appliance, whether it runs or not.
//!
//! They work on its database as this machine's user, so that somebody who has lost the last password
//! gets in again. Each change is recorded first, as in the console.

use anyhow::{Context, bail};
use gig_web::{Change, Hasher, Narrowing, Role, store::Name};
use serde_json::json;

use crate::{
    args::{
        OutputArgs,
        serve::{
            AskFactorArgs, TokenAddArgs, TokenCommand, TokenRmArgs, UserAddArgs, UserArgs,
            UserCommand, UserFactorArgs, UserPasswordArgs, UserRoleArgs,
        },
    },
    data_dir,
    exit_status::ExitStatus,
    local_api, output,
    secrets::intake,
    serve::{appliance::Appliance, database},
};

/// `gig user …`.
///
/// # Errors
/// When the store cannot be used or the change is refused.
pub(crate) fn user(command: UserCommand) -> anyhow::Result<ExitStatus> {
    match command {
        UserCommand::Add(UserAddArgs { user, role }) => {
            let name: Name = user.name.parse()?;
            let password = password(&user.name)?;
            let change = Change::AddUser {
                name,
                role,
                password,
            };
            changed(
                &change,
                &user.output,
                &format!("{} may sign in as {role}", user.name),
            )
        }
        UserCommand::Ls(output) => users(&output),
        UserCommand::Role(UserRoleArgs { user, role }) => {
            let said = format!("{} is now {role}", user.name);
            let name = user.name;
            changed(&Change::SetRole { name, role }, &user.output, &said)
        }
        UserCommand::Password(UserPasswordArgs { user, end_tokens }) => {
            let UserArgs { name, output } = user;
            let password = password(&name)?;
            let said = format!("{name} has a new password, and is signed in nowhere");
            let change = Change::SetPassword {
                code: None,
                name,
                password,
                end_tokens,
            };
            changed(&change, &output, &said)
        }
        UserCommand::Factor(UserFactorArgs { user, remove: _ }) => {
            let UserArgs { name, output } = user;
            let said = format!("{name} signs in by password alone");
            changed(&Change::RemoveFactor { name, code: None }, &output, &said)
        }
        UserCommand::AskFactor(args) => ask_factor(&args),
        UserCommand::Rm(UserArgs { name, output }) => {
            let said = format!("{name} may sign in no more");
            changed(&Change::RemoveUser { name }, &output, &said)
        }
    }
}

/// `gig token …`.
///
/// # Errors
/// When the store cannot be used or the change is refused.
pub(crate) fn token(command: TokenCommand) -> anyhow::Result<ExitStatus> {
    match command {
        TokenCommand::Add(args) => add_token(args),
        TokenCommand::Ls(output) => tokens(&output),
        TokenCommand::Rm(TokenRmArgs { id, output }) => {
            let said = format!("token {id} is worth nothing any more");
            changed(&Change::RemoveToken { id }, &output, &said)
        }
    }
}

fn ask_factor(args: &AskFactorArgs) -> anyhow::Result<ExitStatus> {
    let words: Vec<&str> = args.roles.iter().map(String::as_str).collect();
    let asked: Vec<Role> = match words.as_slice() {
        ["none"] => Vec::new(),
        words => words
            .iter()
            .map(|word| word.parse::<Role>().map_err(anyhow::Error::msg))
            .collect::<Result<_, _>>()?,
    };
    // Each once, in their order.
    let roles = Role::ALL.into_iter().filter(|role| asked.contains(role));
    let said = match asked.is_empty() {
        true => "no role asks for a second factor".to_owned(),
        false => format!("a second factor is asked for of {}", words.join(", ")),
    };
    let roles = roles.collect();
    changed(&Change::FactorRule { roles }, &args.output, &said)
}

/// What is kept of a password from standard input, or typed.
fn password(name: &str) -> anyhow::Result<String> {
    let taken = intake::password()?;
    let Ok(text) = std::str::from_utf8(taken.value.expose()) else {
        bail!("a password is text");
    };
    Ok(Hasher::hash(name, text)?)
}

fn changed(change: &Change, output: &OutputArgs, said: &str) -> anyhow::Result<ExitStatus> {
    with(|appliance| {
        appliance.change(change)?;
        output::print(output.json, &json!({ "done": said }), said)?;
        output::remark(unserved()?)
    })
}

/// Where this went that nobody serves: in another place than was meant nobody would find it.
fn unserved() -> anyhow::Result<Option<String>> {
    // In a fleet others have it.
    if database::url()?.is_some() || local_api::is_answered() {
        return Ok(None);
    }
    let dir = data_dir::path()?;
    Ok(Some(format!(
        "no gig serve runs from {} now: this is for the one that will (GIG_DATA_DIR says where)",
        dir.display()
    )))
}

/// Refuses to read where nothing is yet: a directory that was meant otherwise would be made, and nobody found in it.
fn begun() -> anyhow::Result<()> {
    let dir = data_dir::path()?;
    if dir.exists() {
        data_dir::refuse_shared(&dir)?;
    }
    if !database::is_begun()? {
        bail!(
            "nothing of an appliance is in {}: GIG_DATA_DIR says where it is; `gig serve` or `gig user add` begins one",
            dir.display()
        );
    }
    Ok(())
}

fn users(output: &OutputArgs) -> anyhow::Result<ExitStatus> {
    begun()?;
    with(|appliance| {
        let users = appliance.store.users()?;
        let lines: Vec<String> = users
            .iter()
            .map(|user| {
                let factor = if user.second_factor {
                    ", second factor"
                } else {
                    ""
                };
                format!("{:<24} {}{factor}", user.name, user.role)
            })
            .collect();
        let listed: Vec<_> = users
            .iter()
            .map(|user| {
                json!({"name": user.name, "role": user.role, "created": user.created,
                    "second_factor": user.second_factor})
            })
            .collect();
        let text = match lines.is_empty() {
            true => "nobody may sign in".to_owned(),
            false => lines.join("\n"),
        };
        output::print(output.json, &json!({ "users": listed }), &text)
    })
}

fn add_token(args: TokenAddArgs) -> anyhow::Result<ExitStatus> {
    let name: Name = args.name.parse()?;
    let scopes = args.scope.iter().map(String::as_str);
    let servers = args.server.iter().map(String::as_str);
    let narrowing = Narrowing::of(args.role, scopes, servers)?;
    let minted = gig_web::mint_token()?;
    let hours = |days: u16| jiff::SignedDuration::from_hours(24 * i64::from(days));
    let expires = args
        .days
        .map(|days| jiff::Timestamp::now().checked_add(hours(days)));
    let change = Change::AddToken {
        id: minted.id.clone(),
        digest: minted.digest,
        name,
        role: args.role,
        expires: expires.transpose().context("--days: too many")?,
        narrowing,
    };
    with(|appliance| {
        appliance.change(&change)?;
        let document = json!({ "id": minted.id, "token": *minted.text });
        output::print(args.output.json, &document, &minted.text)?;
        output::remark(unserved()?)
    })
}

fn tokens(output: &OutputArgs) -> anyhow::Result<ExitStatus> {
    begun()?;
    with(|appliance| {
        let tokens = appliance.store.tokens()?;
        let line = |token: &gig_web::store::Token| {
            let ends = token
                .expires
                .map_or_else(|| "never".to_owned(), |at| at.to_string());
            format!(
                "{} {:<24} {:<9} ends {ends}{}",
                token.id,
                token.name,
                token.role.as_str(),
                token.narrowing.words()
            )
        };
        let listed: Vec<_> = tokens
            .iter()
            .map(|token| {
                json!({"id": token.id, "name": token.name, "role": token.role,
                    "author": token.author, "created": token.created, "expires": token.expires,
                    "used": token.used, "scopes": token.narrowing.scopes(),
                    "servers": token.narrowing.servers()})
            })
            .collect();
        let text = match tokens.is_empty() {
            true => "there is no token".to_owned(),
            false => tokens.iter().map(line).collect::<Vec<_>>().join("\n"),
        };
        output::print(output.json, &json!({ "tokens": listed }), &text)
    })
}

/// Opens the appliance's store and record, and closes them whatever happens.
fn with(work: impl FnOnce(&Appliance) -> anyhow::Result<()>) -> anyhow::Result<ExitStatus> {
    let appliance = Appliance::beside()?;
    let done = work(&appliance);
    appliance.close();
    done.map(|()| ExitStatus::SUCCESS)
}
