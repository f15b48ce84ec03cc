//! The program against the tables, and against an independent compiler's.

use std::collections::{BTreeMap, BTreeSet};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::program::{
    ALLOW, AND, ANSWER, ERRNO, IF_ANY_BIT, IF_AT_LEAST, IF_EQUAL, JUMP, KILL_PROCESS, LOAD, NATIVE,
};
use super::rules::{Answer, When};
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
    let mut seen = BTreeSet::new();
    for rule in rules::RULES {
        assert!(rule.reason.len() > 10, "{}", rule.name);
        assert!(
            seen.insert((rule.call, format!("{:?}", rule.when))),
            "{} twice",
            rule.name
        );
    }
}

/// A call as a filter sees it.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: u32,
    architecture: u32,
    arguments: [u64; 6],
}

impl Call {
    /// A word of `struct seccomp_data`, on a machine with the low half first.
    fn word(&self, at: u32) -> u32 {
        match at {
            0 => self.number,
            4 => self.architecture,
            16.. => {
                let argument = self.arguments[(at as usize - 16) / 8];
                {
                    let half = if at.is_multiple_of(8) {
                        argument
                    } else {
                        argument >> 32
                    };
                    u32::try_from(half & u64::from(u32::MAX)).unwrap()
                }
            }
            _ => panic!("a word that nobody asks for: {at}"),
        }
    }
}

/// Runs a filter as the kernel does; the answer, and after how many steps.
fn run(program: &[Instruction], call: &Call) -> (u32, usize) {
    let (mut at, mut accumulator) = (0, 0_u32);
    for step in 1.. {
        let Instruction {
            code,
            when,
            otherwise,
            value,
        } = program[at];
        at += 1;
        let mut jump = |holds: bool| at += usize::from(if holds { when } else { otherwise });
        match code {
            LOAD => accumulator = call.word(value),
            AND => accumulator &= value,
            JUMP => at += value as usize,
            IF_EQUAL => jump(accumulator == value),
            IF_AT_LEAST => jump(accumulator >= value),
            IF_ANY_BIT => jump(accumulator & value != 0),
            ANSWER => return (value, step),
            _ => panic!("an instruction that nobody emits: {code:#x}"),
        }
    }
    unreachable!()
}

/// The strictest of several filters, the latest of those that are alike, as the kernel has it.
fn strictest(filters: &[Vec<Instruction>], call: &Call) -> u32 {
    const KIND: u32 = 0xFFFF_0000;
    filters.iter().rev().fold(ALLOW, |answer, filter| {
        let (own, _) = run(filter, call);
        let rank = |answer: u32| (answer & KIND).cast_signed();
        if rank(own) < rank(answer) {
            own
        } else {
            answer
        }
    })
}

/// Calls that try every rule: each with arguments that hold, nearly hold and do not.
fn calls() -> impl Iterator<Item = Call> {
    const WORDS: [u64; 23] = [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        10,
        17,
        0o100,
        0o4000,
        0o6000,
        1024,
        1026,
        1040,
        0x5412,
        0x541C,
        0x0200_0000,
        0x1000_0000,
        0o20_000_000,
        0xFFFF_FFFF,
        0x1_0000_0000,
        0x1_0000_5412,
    ];
    let native = NATIVE.unwrap();
    let by_argument: BTreeSet<i64> = rules::RULES
        .iter()
        .filter(|rule| !matches!(rule.when, When::Always))
        .map(|rule| rule.call)
        .collect();
    let numbers = (0..600).chain([0x4000_0000, 0x4000_0001, 0x4000_0200, u32::MAX]);
    numbers.flat_map(move |number| {
        let words = if by_argument.contains(&i64::from(number)) {
            &WORDS[..]
        } else {
            &WORDS[..2]
        };
        let call = move |architecture, [first, second, third]: [u64; 3]| Call {
            number,
            architecture,
            arguments: [first, second, third, second, third, 0],
        };
        let foreign = [0x4000_0003, 0].map(|architecture| call(architecture, [0; 3]));
        let own = words.iter().flat_map(move |first| {
            words.iter().flat_map(move |second| {
                [0, 6, 0o2000, 0o6777].map(|third| call(native, [*first, *second, third]))
            })
        });
        own.chain(foreign)
    })
}

#[test]
fn another_compilers_filters_answer_every_call_alike() {
    for profile in [SeccompProfile::Default, SeccompProfile::Strict] {
        let own = program::program(profile).unwrap();
        let others = stacked(profile);
        for call in calls() {
            let (answer, _) = run(&own, &call);
            assert_eq!(answer, strictest(&others, &call), "{profile:?} {call:?}");
        }
    }
}

#[test]
fn an_answer_takes_few_steps() {
    for profile in [SeccompProfile::Default, SeccompProfile::Strict] {
        let own = program::program(profile).unwrap();
        let steps = calls().map(|call| run(&own, &call).1).max();
        assert!(steps <= Some(50), "{profile:?}: {steps:?}");
        let read = Call {
            number: u32::try_from(libc::SYS_read).unwrap(),
            architecture: NATIVE.unwrap(),
            arguments: [0; 6],
        };
        let (answer, steps) = run(&own, &read);
        assert_eq!(answer, ALLOW);
        assert!(steps <= 24, "{profile:?}: {steps}");
    }
}

#[test]
fn the_worst_answer_is_the_one_that_ends_the_process() {
    let own = program::program(SeccompProfile::Strict).unwrap();
    let answers: BTreeSet<u32> = calls().map(|call| run(&own, &call).0).collect();
    assert!(answers.contains(&KILL_PROCESS) && answers.contains(&ALLOW));
    let errors = answers
        .iter()
        .filter(|answer| **answer & 0xFFFF_0000 == ERRNO);
    assert_eq!(errors.count() + 2, answers.len());
}

/// The tables as filters of another compiler, one for each kind of answer, as the kernel stacks them.
fn stacked(profile: SeccompProfile) -> Vec<Vec<Instruction>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let mut filters: Vec<BpfProgram> = Answer::ALL
        .into_iter()
        .map(|answer| denying(answer, arch).unwrap())
        .collect();
    if profile == SeccompProfile::Strict {
        filters.push(allowing(arch).unwrap());
    }
    let mut filters: Vec<Vec<Instruction>> = filters
        .iter()
        .map(|filter| {
            let own = filter.iter().map(|foreign| Instruction {
                code: foreign.code,
                when: foreign.jt,
                otherwise: foreign.jf,
                value: foreign.k,
            });
            own.collect()
        })
        .collect();
    if cfg!(target_arch = "x86_64") {
        let one = |code, value, when, otherwise| Instruction {
            code,
            when,
            otherwise,
            value,
        };
        filters.push(vec![
            one(LOAD, 0, 0, 0),
            one(IF_AT_LEAST, 0x4000_0000, 0, 1),
            one(ANSWER, KILL_PROCESS, 0, 0),
            one(ANSWER, ALLOW, 0, 0),
        ]);
    }
    filters
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
    SeccompFilter::new(calls, SeccompAction::Allow, action(answer), arch)?.try_into()
}

/// Lets the calls of the strict table pass and answers ENOSYS to the others,
/// as an older kernel would: programs have a way to go on from that.
fn allowing(arch: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = strict::CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    let enosys = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    SeccompFilter::new(calls, enosys, SeccompAction::Allow, arch)?.try_into()
}

fn action(answer: Answer) -> SeccompAction {
    answer.errno().map_or(SeccompAction::KillProcess, |number| {
        SeccompAction::Errno(number.into())
    })
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
