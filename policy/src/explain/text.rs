//! An explanation as a person reads it in a terminal.

use std::fmt;

use crate::{
    deny_reason::DenyReason,
    explain::{Ended, Explanation},
};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict.to_uppercase())?;
        match self.reason {
            Some(reason) => writeln!(f, " {reason}: {}", self.sentence(reason))?,
            None => writeln!(f)?,
        }
        let Self {
            method,
            protocol,
            host,
            port,
            path,
            ..
        } = self;
        if *protocol == "tcp" {
            writeln!(f, "  asked    tcp://{host}:{port}")?;
        } else {
            writeln!(f, "  asked    {method} {protocol}://{host}:{port}{path}")?;
        }
        writeln!(
            f,
            "  policy   {} version {}",
            self.policy, self.policy_version
        )?;
        if let Some(rule) = &self.rule {
            let word = if self.reason.is_some() {
                "nearest "
            } else {
                "rule    "
            };
            writeln!(f, "  {word} {rule}")?;
        }
        if let Some(handling) = self.handling {
            writeln!(f, "  handling {handling}")?;
        }
        if !self.secrets.is_empty() {
            writeln!(f, "  secrets  {}", self.secrets.join(", "))?;
        }
        if let Some(hint) = &self.hint {
            writeln!(f, "  ask for  {hint}")?;
        }
        for considered in &self.considered {
            let mark = if considered.matches { '+' } else { '-' };
            write!(f, "  {mark} {} {}", considered.rule, considered.target)?;
            if let Some(line) = considered.line {
                write!(f, " (line {line})")?;
            }
            writeln!(f, ": {}", considered.outcome)?;
        }
        if self.more > 0 {
            writeln!(f, "  - and {} more rules of this host", self.more)?;
        }
        for level in &self.levels {
            let word = if level.floor { "floor   " } else { "assigned" };
            let verdict = level.verdict;
            write!(
                f,
                "  {word} {} version {}: {verdict}",
                level.policy, level.policy_version
            )?;
            if let Some(reason) = level.reason {
                write!(f, " {reason}")?;
            }
            match &level.rule {
                Some(rule) => writeln!(f, " ({rule})")?,
                None => writeln!(f)?,
            }
        }
        for note in &self.notes {
            writeln!(f, "  note     {note}")?;
        }
        Ok(())
    }
}

impl Explanation {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other reasons are not a policy's and the word says enough"
    )]
    fn sentence(&self, reason: DenyReason) -> String {
        let Self {
            host,
            port,
            method,
            path,
            protocol,
            ..
        } = self;
        if let Some(Ended { rule, policy, at }) = &self.ended {
            return format!("{rule} of {policy} ended at {at}; until then it let this pass");
        }
        match reason {
            DenyReason::HostNotAllowed => format!("no rule names {host}"),
            DenyReason::IpNotAllowed => format!("no rule names the address {host}"),
            DenyReason::PortNotAllowed => format!("rules name {host}, none of them port {port}"),
            DenyReason::ProtocolNotAllowed => {
                format!("rules name {host} port {port}, none of them {protocol}")
            }
            DenyReason::MethodNotAllowed => format!("no rule of {host} has method {method}"),
            DenyReason::PathNotAllowed => format!("no rule of {host} fits {method} {path}"),
            DenyReason::PrivateAddress => format!("{host} is not a public address"),
            DenyReason::PublicAddress => format!("{host} is a public address"),
            DenyReason::MalformedRequest => "it is refused before any rule is asked".to_owned(),
            DenyReason::NeverOpenable => format!("nothing opens {host}"),
            other => other.as_str().to_owned(),
        }
    }
}
