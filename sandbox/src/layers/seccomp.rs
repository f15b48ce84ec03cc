//! The system call filter.
//!
//! Several filters are loaded, one for each kind of answer; the kernel takes
//! the strictest answer that any of them gives. Compiled from the tables in
//! [`rules`] and [`strict`], where every entry has its reason. Other
//! architectures' calls end the process, x32's included.

mod rules;
mod strict;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::spec::SeccompProfile;
use rules::{Answer, When};

/// Why no filter was made: a table and the compiler disagree.
#[derive(Debug, thiserror::Error)]
#[error("the system call filter for this architecture cannot be made: {0}")]
pub struct CompileFilterError(String);

/// The filters as bytes, in the order of loading: the allowlist last, because
/// after it loading another is no longer a matter of course.
///
/// Compiled once: the tables are the program's own.
pub(crate) fn compile(profile: SeccompProfile) -> Result<Vec<Vec<u8>>, CompileFilterError> {
    static COMPILED: [OnceLock<Vec<Vec<u8>>>; 2] = [const { OnceLock::new() }; 2];
    let [usual, strict] = &COMPILED;
    let place = match profile {
        SeccompProfile::Default => usual,
        SeccompProfile::Strict => strict,
    };
    if let Some(filters) = place.get() {
        return Ok(filters.clone());
    }
    let filters = compile_anew(profile)?;
    Ok(place.get_or_init(|| filters).clone())
}

fn compile_anew(profile: SeccompProfile) -> Result<Vec<Vec<u8>>, CompileFilterError> {
    let fault = |error: &dyn std::fmt::Display| CompileFilterError(error.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| fault(&error))?;
    let mut filters = Vec::new();
    for answer in Answer::ALL {
        filters.push(bytes(
            &denying(answer, arch).map_err(|error| fault(&error))?,
        ));
    }
    if cfg!(target_arch = "x86_64") {
        filters.push(bytes(&x32()));
    }
    if profile == SeccompProfile::Strict {
        filters.push(bytes(&allowing(arch).map_err(|error| fault(&error))?));
    }
    Ok(filters)
}

/// Gives `answer` to the calls of its table and lets the others pass.
fn denying(answer: Answer, arch: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for rule in rules::RULES.iter().filter(|rule| rule.answer == answer) {
        let chain = calls.entry(rule.call).or_default();
        for condition in conditions(rule.when)? {
            chain.push(SeccompRule::new(condition)?);
        }
    }
    SeccompFilter::new(calls, SeccompAction::Allow, answer.action(), arch)?.try_into()
}

/// Lets the calls of the strict table pass and answers ENOSYS to the others,
/// as an older kernel would: programs have a way to go on from that.
fn allowing(arch: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = strict::CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    let enosys = SeccompAction::Errno(errno(libc::ENOSYS));
    SeccompFilter::new(calls, enosys, SeccompAction::Allow, arch)?.try_into()
}

/// Ends a process that makes a call of the x32 interface: the numbers of the
/// tables would not match there.
fn x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let load_number = sock_filter {
        code: 0x20,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let jump_if_at_least = sock_filter {
        code: 0x35,
        jt: 0,
        jf: 1,
        k: X32_BIT,
    };
    let kill = sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: u32::from(SeccompAction::KillProcess),
    };
    let allow = sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: u32::from(SeccompAction::Allow),
    };
    vec![load_number, jump_if_at_least, kill, allow]
}

type Conditions = Vec<Vec<SeccompCondition>>;

/// The condition as alternatives, each a list of which all must hold. An
/// empty outer list is the compiler's "always".
fn conditions(when: When) -> Result<Conditions, seccompiler::BackendError> {
    let word = SeccompCmpArgLen::Dword;
    let masked = |argument: u8, mask: u64, value: u64| {
        SeccompCondition::new(argument, word.clone(), SeccompCmpOp::MaskedEq(mask), value)
    };
    Ok(match when {
        When::Always => Vec::new(),
        When::AnyBit { argument, bits } => single_bits(bits)
            .map(|bit| Ok(vec![masked(argument, bit, bit)?]))
            .collect::<Result<_, seccompiler::BackendError>>()?,
        When::Equals { argument, value } => {
            vec![vec![SeccompCondition::new(
                argument,
                word,
                SeccompCmpOp::Eq,
                value,
            )?]]
        }
        When::MaskedEquals {
            argument,
            mask,
            value,
        } => vec![vec![masked(argument, mask, value)?]],
        When::InetOfType(value) => rules::INET_FAMILIES
            .iter()
            .map(|family| {
                Ok(vec![
                    SeccompCondition::new(0, word.clone(), SeccompCmpOp::Eq, *family)?,
                    masked(1, rules::SOCKET_TYPE, value)?,
                ])
            })
            .collect::<Result<_, seccompiler::BackendError>>()?,
        When::NoneOf { argument, values } => vec![
            values
                .iter()
                .map(|value| {
                    SeccompCondition::new(argument, word.clone(), SeccompCmpOp::Ne, *value)
                })
                .collect::<Result<_, _>>()?,
        ],
        When::Creates { flags, mode, bits } => {
            let mut alternatives = Vec::new();
            for creating in rules::CREATING_FLAGS {
                for bit in single_bits(bits) {
                    alternatives.push(vec![
                        masked(flags, creating, creating)?,
                        masked(mode, bit, bit)?,
                    ]);
                }
            }
            alternatives
        }
    })
}

fn single_bits(bits: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS)
        .map(|shift| 1_u64 << shift)
        .filter(move |bit| bits & bit != 0)
}

fn bytes(program: &BpfProgram) -> Vec<u8> {
    program
        .iter()
        .flat_map(|instruction| {
            let [a, b] = instruction.code.to_ne_bytes();
            let [w, x, y, z] = instruction.k.to_ne_bytes();
            [a, b, instruction.jt, instruction.jf, w, x, y, z]
        })
        .collect()
}

/// An error number as the filter carries it.
pub(super) const fn errno(number: libc::c_int) -> u32 {
    number.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_profiles_compile_within_the_kernels_limit() {
        for profile in [SeccompProfile::Default, SeccompProfile::Strict] {
            for filter in compile(profile).unwrap() {
                assert!(!filter.is_empty());
                assert!(filter.len() / 8 <= 4096, "{}", filter.len() / 8);
            }
        }
    }

    #[test]
    fn the_strict_profile_allows_nothing_that_is_always_answered() {
        for rule in rules::RULES
            .iter()
            .filter(|rule| matches!(rule.when, When::Always))
        {
            assert!(!strict::CALLS.contains(&rule.call), "{}", rule.name);
        }
    }

    #[test]
    fn every_rule_has_a_reason_and_one_place() {
        let mut seen = std::collections::BTreeSet::new();
        for rule in rules::RULES {
            assert!(rule.reason.len() > 10, "{}", rule.name);
            assert!(
                seen.insert((rule.call, format!("{:?}", rule.when))),
                "{} twice",
                rule.name
            );
        }
    }
}
