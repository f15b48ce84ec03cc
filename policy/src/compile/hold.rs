//! `hold`: for how long what is denied for want of a rule waits for a person.

use std::time::Duration;

use crate::{
    compile_error::Problem,
    document::Located,
    policy::Settings,
    verdict::{DenyStyle, Mode},
};

/// Reads `30s` or `2m`; `settings` are those that were read before, which must leave something to wait for.
pub(super) fn time(
    raw: &Located<String>,
    settings: &Settings,
    problems: &mut Vec<Problem>,
) -> Option<Duration> {
    let mut refuse = |message: String| {
        problems.push(Problem::at(raw.at, message));
        None
    };
    if settings.mode == Mode::Observe {
        let message = "`hold` has nothing to hold with `mode: observe`, which lets everything pass: \
                       take one of the two out";
        return refuse(message.to_owned());
    }
    if settings.deny == DenyStyle::Reset {
        let message = "`hold` ends in an answer that says what was asked, and `deny: reset` gives none: \
                       take one of the two out";
        return refuse(message.to_owned());
    }
    match seconds(&raw.value) {
        Some(seconds) if (1..=LONGEST).contains(&seconds) => Some(Duration::from_secs(seconds)),
        _ => refuse(format!(
            "`hold: {}` is not a time: write seconds or minutes, from 1s to {}m, as in 30s",
            raw.value,
            LONGEST / 60
        )),
    }
}

fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        _ => return None,
    };
    if number.is_empty() || !number.bytes().all(|octet| octet.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// In seconds. Few programs wait longer for an answer, and a person who does not see it by then will not.
const LONGEST: u64 = 600;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::Policy;

    fn held(settings: &str) -> Result<Option<Duration>, String> {
        let text = format!("version: 1\n{settings}\negress: []\n");
        let compiled = Policy::compile(&text, "p");
        compiled
            .map(|policy| policy.hold())
            .map_err(|refused| refused.problems[0].message.clone())
    }

    #[test]
    fn a_policy_says_for_how_long_it_holds() {
        assert_eq!(held("mode: enforce"), Ok(None));
        assert_eq!(held("hold: 30s"), Ok(Some(Duration::from_secs(30))));
        assert_eq!(held("hold: 10m"), Ok(Some(Duration::from_secs(600))));
        for wrong in [
            "0s",
            "11m",
            "s",
            "1h",
            "+1s",
            "30",
            "'30 s'",
            "99999999999999999999s",
            "é",
        ] {
            let why = held(&format!("hold: {wrong}")).unwrap_err();
            assert!(why.contains("hold"), "{wrong}: {why}");
        }
    }

    #[test]
    fn what_answers_nothing_or_denies_nothing_cannot_hold() {
        for other in ["mode: observe", "deny: reset"] {
            let why = held(&format!("{other}\nhold: 30s")).unwrap_err();
            assert!(why.contains("take one of the two out"), "{why}");
        }
    }

    #[test]
    fn a_change_of_it_is_a_change() {
        let old = Policy::compile("version: 1\negress: []\n", "p").unwrap();
        let new = Policy::compile("version: 1\nhold: 30s\negress: []\n", "p").unwrap();
        assert_eq!(
            old.difference(&new).to_string(),
            "~ hold: nobody is asked -> 30s"
        );
    }
}
