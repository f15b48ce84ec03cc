//! Which class of the schema a record is of, and which of its activities.

use super::doing::Doing;
use crate::{export::has_failed, row::Row};

/// A class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Dns,
    Http,
    Network,
    Finding,
    Entity,
    Account,
    Authentication,
    Lifecycle,
    /// A refusal by role.
    Api,
    /// A later gig's event.
    Base,
}

impl Class {
    pub(super) fn of(row: &Row) -> Self {
        match row.event.as_str() {
            "dns" => Self::Dns,
            "connect" => Self::Network,
            // Of many requests together there is no URL.
            "request" if row.host.is_none() && crate::counted(&row.findings).is_some() => {
                Self::Network
            }
            "request" => Self::Http,
            "secret.use" => Self::Http,
            "response" if row.method.is_some() => Self::Http,
            "response" => Self::Network,
            "secret.misuse" | "finding" | "audit.gap" => Self::Finding,
            "policy.change" | "secret.change" | "admin" | "auth" => match Doing::of(row) {
                Some(Doing::Session(..)) => Self::Authentication,
                Some(Doing::Account(..)) => Self::Account,
                Some(Doing::Thing(..)) => Self::Entity,
                Some(Doing::Refusal(_)) => Self::Api,
                None => Self::Base,
            },
            "sandbox.start" | "sandbox.exit" => Self::Lifecycle,
            _ => Self::Base,
        }
    }

    pub(super) const fn uid(self) -> u32 {
        match self {
            Self::Dns => 4003,
            Self::Http => 4002,
            Self::Network => 4001,
            Self::Finding => 2004,
            Self::Entity => 3004,
            Self::Account => 3001,
            Self::Authentication => 3002,
            Self::Lifecycle => 6002,
            Self::Api => 6003,
            Self::Base => 0,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dns => "DNS Activity",
            Self::Http => "HTTP Activity",
            Self::Network => "Network Activity",
            Self::Finding => "Detection Finding",
            Self::Entity => "Entity Management",
            Self::Account => "Account Change",
            Self::Authentication => "Authentication",
            Self::Lifecycle => "Application Lifecycle",
            Self::Api => "API Activity",
            Self::Base => "Base Event",
        }
    }

    pub(super) const fn category(self) -> &'static str {
        match self {
            Self::Dns | Self::Http | Self::Network => "Network Activity",
            Self::Finding => "Findings",
            Self::Entity | Self::Account | Self::Authentication => "Identity & Access Management",
            Self::Lifecycle | Self::Api => "Application Activity",
            Self::Base => "Uncategorized",
        }
    }

    /// The profile whose fields it has beside its own.
    pub(super) const fn profile(self) -> Option<&'static str> {
        match self {
            Self::Dns | Self::Http | Self::Network => Some("security_control"),
            Self::Entity => Some("host"),
            Self::Finding
            | Self::Account
            | Self::Authentication
            | Self::Lifecycle
            | Self::Api
            | Self::Base => None,
        }
    }

    pub(super) const fn is_traffic(self) -> bool {
        matches!(self, Self::Dns | Self::Http | Self::Network)
    }

    pub(super) fn activity(self, row: &Row) -> (u32, String) {
        let denied = row.verdict.as_deref() == Some("deny");
        let method = row.method.as_deref().unwrap_or_default();
        let (id, name) = match self {
            Self::Dns => (1, "Query"),
            Self::Http => match method {
                "CONNECT" => (1, "Connect"),
                "DELETE" => (2, "Delete"),
                "GET" => (3, "Get"),
                "HEAD" => (4, "Head"),
                "OPTIONS" => (5, "Options"),
                "POST" => (6, "Post"),
                "PUT" => (7, "Put"),
                "TRACE" => (8, "Trace"),
                other => return (OTHER, other.to_owned()),
            },
            Self::Network => match row.event.as_str() {
                "response" if denied || has_failed(row) => (4, "Fail"),
                "response" => (2, "Close"),
                _ if denied => (5, "Refuse"),
                _ => (1, "Open"),
            },
            Self::Finding => (1, "Create"),
            Self::Entity | Self::Account | Self::Authentication | Self::Api => {
                match Doing::of(row).map(Doing::activity) {
                    Some(activity) => activity,
                    None => (OTHER, row.event.as_str()),
                }
            }
            Self::Lifecycle if row.event == "sandbox.exit" => (4, "Stop"),
            Self::Lifecycle => (3, "Start"),
            Self::Base => (OTHER, row.event.as_str()),
        };
        (id, name.to_owned())
    }
}

/// `Other` of every enumeration.
pub(super) const OTHER: u32 = 99;
