//! One program out of both tables, for the kernel's classic BPF.
//!
//! The kernel runs a filter on every call that it cannot prove harmless, and
//! at loading once for every call that there is, so the way to an answer is
//! short: a search by halves over the call numbers, then the rules of that
//! number alone. Promises the strictest answer that any rule has for a call,
//! and to end what is made by another architecture's numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{self, Answer, When};
use super::strict;
use crate::spec::SeccompProfile;

/// One instruction, as the kernel's `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) when: u8,
    pub(super) otherwise: u8,
    pub(super) value: u32,
}

/// Loads a word of `struct seccomp_data`.
pub(super) const LOAD: u16 = 0x20;
/// Keeps the bits of a mask.
pub(super) const AND: u16 = 0x54;
/// Jumps, by as many instructions as the value says.
pub(super) const JUMP: u16 = 0x05;
pub(super) const IF_EQUAL: u16 = 0x15;
pub(super) const IF_AT_LEAST: u16 = 0x35;
pub(super) const IF_ANY_BIT: u16 = 0x45;
/// Ends with an answer.
pub(super) const ANSWER: u16 = 0x06;

/// `SECCOMP_RET_*`.
pub(super) const ALLOW: u32 = 0x7FFF_0000;
pub(super) const ERRNO: u32 = 0x0005_0000;
pub(super) const KILL_PROCESS: u32 = 0x8000_0000;

/// Places in `struct seccomp_data`: the call's number, the architecture, and
/// the low halves of the arguments: the kernel looks at no more of those that
/// rules are about.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `AUDIT_ARCH_*` of what this program is built for.
#[cfg(target_arch = "x86_64")]
pub(super) const NATIVE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
pub(super) const NATIVE: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const NATIVE: Option<u32> = None;

/// Calls of the x32 interface have this bit: the numbers of the tables would
/// not match there.
const X32: u32 = 0x4000_0000;

/// The program; none for an architecture whose numbers are not known, or if a
/// table has a rule that it cannot say.
pub(super) fn program(profile: SeccompProfile) -> Option<Vec<Instruction>> {
    let mut program = vec![
        load(ARCHITECTURE),
        branch(IF_EQUAL, NATIVE?, 1, 0),
        answer(KILL_PROCESS),
        load(NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        program.extend([branch(IF_AT_LEAST, X32, 0, 1), answer(KILL_PROCESS)]);
    }
    let other = match profile {
        SeccompProfile::Default => ALLOW,
        SeccompProfile::Strict => of_answer(Answer::NoSuchCall),
    };
    program.extend(search(&pieces(profile, other)?)?);
    Some(program)
}

/// What is said to the numbers from one on, to the next piece's.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    from: u32,
    says: Vec<Instruction>,
}

/// All numbers, in order, neighbours with the same answer together.
fn pieces(profile: SeccompProfile, other: u32) -> Option<Vec<Piece>> {
    let mut calls: BTreeMap<u32, Vec<Instruction>> = BTreeMap::new();
    let listed: BTreeSet<i64> = match profile {
        SeccompProfile::Default => BTreeSet::new(),
        SeccompProfile::Strict => strict::CALLS.iter().copied().collect(),
    };
    let ruled = rules::RULES.iter().map(|rule| rule.call);
    for call in ruled.chain(listed.iter().copied()) {
        let at_last = if listed.contains(&call) { ALLOW } else { other };
        calls.insert(u32::try_from(call).ok()?, of_call(call, at_last)?);
    }
    let mut pieces = vec![Piece {
        from: 0,
        says: vec![answer(other)],
    }];
    let mut next = 0;
    let mut add = |from, says: Vec<Instruction>| {
        if pieces.last().is_none_or(|last| last.says != says) {
            pieces.push(Piece { from, says });
        }
    };
    for (number, says) in calls {
        if number > next {
            add(next, vec![answer(other)]);
        }
        add(number, says);
        next = number.checked_add(1)?;
    }
    add(next, vec![answer(other)]);
    // A first call of number 0 leaves the piece before it empty.
    if let [_, second, ..] = pieces.as_slice()
        && second.from == 0
    {
        pieces.remove(0);
    }
    Some(pieces)
}

/// The rules of one call, strictest first. Of two errors the one wins whose
/// kind comes later in [`Answer::ALL`]; `at_last` is said when no rule holds,
/// and before any error when it is itself one: the call is not there at all.
fn of_call(call: i64, at_last: u32) -> Option<Vec<Instruction>> {
    let by_strictness = [Answer::Kill].into_iter().chain(
        Answer::ALL
            .into_iter()
            .rev()
            .filter(|kind| *kind != Answer::Kill && at_last == ALLOW),
    );
    let mut says = Vec::new();
    for kind in by_strictness {
        for rule in rules::RULES
            .iter()
            .filter(|rule| rule.call == call && rule.answer == kind)
        {
            says.extend(when(rule.when, of_answer(kind))?);
            if matches!(rule.when, When::Always) {
                return Some(says);
            }
        }
    }
    says.push(answer(at_last));
    Some(says)
}

/// Gives the answer when the condition holds, and goes on behind it when not.
fn when(condition: When, says: u32) -> Option<Vec<Instruction>> {
    let argument = |at: u8| load(ARGUMENTS + 8 * u32::from(at));
    let word = |value: u64| u32::try_from(value).ok();
    Some(match condition {
        When::Always => vec![answer(says)],
        When::AnyBit { argument: at, bits } => vec![
            argument(at),
            branch(IF_ANY_BIT, word(bits)?, 0, 1),
            answer(says),
        ],
        When::Equals {
            argument: at,
            value,
        } => vec![
            argument(at),
            branch(IF_EQUAL, word(value)?, 0, 1),
            answer(says),
        ],
        When::MaskedEquals {
            argument: at,
            mask,
            value,
        } => vec![
            argument(at),
            plain(AND, word(mask)?),
            branch(IF_EQUAL, word(value)?, 0, 1),
            answer(says),
        ],
        When::InetOfType(value) => {
            let [v4, v6] = rules::INET_FAMILIES;
            vec![
                argument(0),
                branch(IF_EQUAL, word(v4)?, 1, 0),
                branch(IF_EQUAL, word(v6)?, 0, 4),
                argument(1),
                plain(AND, word(rules::SOCKET_TYPE)?),
                branch(IF_EQUAL, word(value)?, 0, 1),
                answer(says),
            ]
        }
        When::NoneOf {
            argument: at,
            values,
        } => {
            let mut list = vec![argument(at)];
            for (rest, value) in (1..=values.len()).rev().zip(values) {
                list.push(branch(IF_EQUAL, word(*value)?, u8::try_from(rest).ok()?, 0));
            }
            list.push(answer(says));
            list
        }
        When::Creates { flags, mode, bits } => {
            let [create, temporary] = rules::CREATING_FLAGS;
            vec![
                argument(flags),
                branch(IF_ANY_BIT, word(create | temporary)?, 0, 3),
                argument(mode),
                branch(IF_ANY_BIT, word(bits)?, 0, 1),
                answer(says),
            ]
        }
    })
}

/// Finds the piece of the number in the accumulator.
fn search(pieces: &[Piece]) -> Option<Vec<Instruction>> {
    let [only] = pieces else {
        let (low, high) = pieces.split_at_checked(pieces.len() / 2)?;
        let (first, low, high) = (high.first()?.from, search(low)?, search(high)?);
        let mut both = vec![branch(IF_AT_LEAST, first, 0, 1)];
        both.push(plain(JUMP, u32::try_from(low.len()).ok()?));
        both.extend(low);
        both.extend(high);
        return Some(both);
    };
    Some(only.says.clone())
}

fn of_answer(answer: Answer) -> u32 {
    match answer.errno() {
        None => KILL_PROCESS,
        Some(number) => ERRNO | u32::from(number),
    }
}

const fn plain(code: u16, value: u32) -> Instruction {
    branch(code, value, 0, 0)
}

const fn load(from: u32) -> Instruction {
    plain(LOAD, from)
}

const fn answer(value: u32) -> Instruction {
    plain(ANSWER, value)
}

const fn branch(code: u16, value: u32, when: u8, otherwise: u8) -> Instruction {
    Instruction {
        code,
        when,
        otherwise,
        value,
    }
}
