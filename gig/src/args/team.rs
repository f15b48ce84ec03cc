//! `gig team …`, and where a policy is put in force, as typed.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum TeamCommand {
    /// Make a team, or add people to one
    Add(TeamArgs),
    /// Take people out of a team; without names, remove a team to which nothing is assigned
    Rm(TeamArgs),
    /// List teams and who is of them
    Ls(OutputArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TeamArgs {
    /// The team's name
    pub(crate) name: String,
    /// Users, or people whom a gateway serves, by name
    #[arg(value_name = "PERSON")]
    pub(crate) members: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Where.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct PlaceArgs {
    /// This server, whoever it runs for
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Those who are of this team, whatever server runs for them
    #[arg(long, value_name = "NAME")]
    pub(crate) team: Option<String>,
    /// This person, whatever server runs for them
    #[arg(long = "for", value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    /// All that have none more specific (of a floor: everybody)
    #[arg(long)]
    pub(crate) all: bool,
}

impl PlaceArgs {
    /// Whether any is named.
    pub(crate) fn is_said(&self) -> bool {
        self.all || self.server.is_some() || self.team.is_some() || self.profile.is_some()
    }

    /// In words.
    pub(crate) fn words(&self) -> String {
        let named = [
            ("server", &self.server),
            ("team", &self.team),
            ("profile", &self.profile),
        ];
        let named = named
            .into_iter()
            .find_map(|(what, name)| Some((what, name.as_ref()?)));
        named.map_or_else(
            || "all servers".to_owned(),
            |(what, name)| format!("{what} {name}"),
        )
    }

    /// With a policy, as the API takes it; `None` takes it away.
    pub(crate) fn body(&self, policy: Option<&str>) -> Value {
        let Self {
            server,
            team,
            profile,
            all: _,
        } = self;
        json!({"server": server, "team": team, "profile": profile, "policy": policy})
    }
}
