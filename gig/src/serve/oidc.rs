//! `GIG_OIDC_*`: single sign-on, as the environment has it. A name that is not known, or half of what is
//! needed, refuses the start: nobody believes that a setting holds which does not.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, bail};
use gig_web::{CALLBACK, OidcSettings, Role, store::Name};
use zeroize::Zeroizing;

use crate::secret_file;

/// What the environment says; `None` where it says nothing. `reached` is where people reach the console.
///
/// # Errors
/// When it says something that cannot be used.
pub(super) fn settings(reached: &str) -> anyhow::Result<Option<OidcSettings>> {
    let mut said = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if let Some(word) = name.strip_prefix(PREFIX) {
            let value = gig_vault::environment::var_os(&name).unwrap_or(value);
            let value = value.into_string();
            let value = value.map_err(|_| anyhow::anyhow!("{name} is not UTF-8"))?;
            said.insert(word.to_owned(), Zeroizing::new(value));
        }
    }
    read(said, reached)
}

fn read(
    mut said: BTreeMap<String, Zeroizing<String>>,
    reached: &str,
) -> anyhow::Result<Option<OidcSettings>> {
    if said.is_empty() {
        return Ok(None);
    }
    if let Some(unknown) = said.keys().find(|word| !KNOWN.contains(&word.as_str())) {
        let known = KNOWN.map(|word| format!("{PREFIX}{word}")).join(", ");
        bail!("{PREFIX}{unknown} is not a setting of single sign-on; those are: {known}");
    }
    let mut take = |word: &str| said.remove(word).filter(|value| !value.is_empty());
    let mut needed = |word: &str| {
        let value = take(word).map(|value| value.trim().to_owned());
        value.with_context(|| format!("single sign-on needs {PREFIX}{word}"))
    };
    let (issuer, client_id, roles) = (needed("ISSUER")?, needed("CLIENT_ID")?, needed("ROLES")?);
    check_issuer(&issuer)?;
    let secret = match (take("CLIENT_SECRET"), take("CLIENT_SECRET_FILE")) {
        (Some(_), Some(_)) => {
            bail!("{PREFIX}CLIENT_SECRET and {PREFIX}CLIENT_SECRET_FILE are both set: which is it?")
        }
        (None, Some(file)) => Some(read_secret(&file)?),
        (value, None) => value,
    };
    let scopes = take("SCOPES").map_or_else(|| SCOPES.to_owned(), |text| text.trim().to_owned());
    if !scopes.split(' ').any(|scope| scope == "openid") {
        bail!("{PREFIX}SCOPES lacks openid, without which a provider says of nobody who they are");
    }
    let default_role = take("DEFAULT_ROLE").map(|word| word.parse::<Role>());
    let default_role = default_role.transpose().map_err(anyhow::Error::msg);
    Ok(Some(OidcSettings {
        issuer,
        client_id,
        client_secret: secret,
        scopes,
        groups_claim: take("GROUPS_CLAIM")
            .map_or_else(|| GROUPS.to_owned(), |text| text.to_string()),
        roles: read_roles(&roles)?,
        teams: take("TEAMS").map_or_else(|| Ok(Vec::new()), |text| read_teams(&text))?,
        default_role: default_role.with_context(|| format!("{PREFIX}DEFAULT_ROLE"))?,
        redirect: format!("{reached}{CALLBACK}"),
    }))
}

fn check_issuer(issuer: &str) -> anyhow::Result<()> {
    let scheme = issuer.starts_with("https://") || issuer.starts_with("http://");
    if scheme && !issuer.contains(['?', '#', '@', ' ']) {
        return Ok(());
    }
    bail!("{PREFIX}ISSUER is {issuer:?}: write it as the provider does, https://…, without a query")
}

/// `group=role,…`; the first group of it that somebody has decides. A group's name may hold `=`.
fn read_roles(text: &str) -> anyhow::Result<Vec<(String, Role)>> {
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    let read = pairs.map(|pair| {
        let parts = pair
            .rsplit_once('=')
            .filter(|(group, _)| !group.trim().is_empty());
        let (group, role) =
            parts.with_context(|| format!("{PREFIX}ROLES: {pair:?} is not group=role"))?;
        let role = role.trim().parse::<Role>().map_err(anyhow::Error::msg);
        let role = role.with_context(|| format!("{PREFIX}ROLES: {pair:?}"))?;
        Ok((group.trim().to_owned(), role))
    });
    read.collect()
}

/// `group=team,…`; somebody may be of several.
fn read_teams(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim);
    let read = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let parts = pair
            .rsplit_once('=')
            .filter(|(group, _)| !group.trim().is_empty());
        let (group, team) =
            parts.with_context(|| format!("{PREFIX}TEAMS: {pair:?} is not group=team"))?;
        let team = team.trim().parse::<Name>();
        let team = team.with_context(|| format!("{PREFIX}TEAMS: {pair:?}"))?;
        Ok((group.trim().to_owned(), team.to_string()))
    });
    read.collect()
}

fn read_secret(file: &str) -> anyhow::Result<Zeroizing<String>> {
    let read = secret_file::line(Path::new(file));
    read.with_context(|| format!("{PREFIX}CLIENT_SECRET_FILE"))
}

const PREFIX: &str = "GIG_OIDC_";
const KNOWN: [&str; 9] = [
    "ISSUER",
    "CLIENT_ID",
    "CLIENT_SECRET",
    "CLIENT_SECRET_FILE",
    "SCOPES",
    "GROUPS_CLAIM",
    "ROLES",
    "TEAMS",
    "DEFAULT_ROLE",
];
/// Enough for a name to read; Keycloak and Entra send groups without a scope of their own.
const SCOPES: &str = "openid profile email";
const GROUPS: &str = "groups";

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> anyhow::Result<Option<OidcSettings>> {
        let said = pairs.iter().map(|(word, value)| {
            let value = Zeroizing::new((*value).to_owned());
            ((*word).to_owned(), value)
        });
        read(said.collect(), "https://gig.example")
    }

    const LEAST: [(&str, &str); 3] = [
        ("ISSUER", "https://idp.example/realms/a"),
        ("CLIENT_ID", "gig"),
        ("ROLES", "cn=ops,=admin, writers = editor"),
    ];

    #[test]
    fn what_is_needed_is_enough_and_the_rest_has_defaults() {
        assert!(settings(&[]).unwrap().is_none());
        let read = settings(&LEAST).err().unwrap();
        assert!(
            format!("{read:#}").contains("cn=ops"),
            "a comma parts groups: {read:#}"
        );
        let roles = ("ROLES", "cn=ops=admin, writers = editor,");
        let read = settings(&[LEAST[0], LEAST[1], roles]).unwrap().unwrap();
        let expected = [("cn=ops", Role::Admin), ("writers", Role::Editor)];
        let expected = expected.map(|(group, role)| (group.to_owned(), role));
        assert_eq!(read.roles, expected);
        assert!(
            read.teams.is_empty(),
            "nobody's team is the provider's to say"
        );
        let teams = ("TEAMS", "cn=data=data, writers=data,ops = ops");
        let said = settings(&[LEAST[0], LEAST[1], roles, teams])
            .unwrap()
            .unwrap();
        let expected = [("cn=data", "data"), ("writers", "data"), ("ops", "ops")];
        let expected = expected.map(|(group, team)| (group.to_owned(), team.to_owned()));
        assert_eq!(said.teams, expected);
        assert_eq!(read.redirect, "https://gig.example/sign-in/oidc/callback");
        assert_eq!(
            (read.scopes.as_str(), read.groups_claim.as_str()),
            (SCOPES, GROUPS)
        );
        assert!(read.client_secret.is_none() && read.default_role.is_none());
    }

    #[test]
    fn what_is_unknown_or_half_or_wrong_refuses_the_start() {
        let base = [LEAST[0], LEAST[1], ("ROLES", "a=admin")];
        let file = tempfile::NamedTempFile::new().unwrap();
        let empty = file.path().to_str().unwrap().to_owned();
        for (word, value, said) in [
            ("ISUER", "x", "GIG_OIDC_ISUER is not a setting"),
            ("ROLES", "a=king", "no such role"),
            ("ROLES", "admin", "is not group=role"),
            ("TEAMS", "data", "is not group=team"),
            ("TEAMS", "data=no name", "GIG_OIDC_TEAMS"),
            ("DEFAULT_ROLE", "everybody", "no such role"),
            ("SCOPES", "profile", "lacks openid"),
            ("ISSUER", "idp.example", "https://"),
            ("ISSUER", "https://a@idp.example", "https://"),
            ("CLIENT_ID", "", "needs GIG_OIDC_CLIENT_ID"),
            ("CLIENT_SECRET_FILE", "/nowhere/at/all", "cannot read"),
            ("CLIENT_SECRET_FILE", empty.as_str(), "one line of text"),
        ] {
            let mut pairs = base.to_vec();
            pairs.retain(|(known, _)| *known != word);
            pairs.push((word, value));
            let refused = settings(&pairs).err().unwrap();
            assert!(format!("{refused:#}").contains(said), "{word}: {refused:#}");
        }
        let both = [("CLIENT_SECRET", "a"), ("CLIENT_SECRET_FILE", "b")];
        let refused = settings(&[&base[..], &both[..]].concat()).err().unwrap();
        assert!(refused.to_string().contains("which is it"), "{refused}");
    }
}
