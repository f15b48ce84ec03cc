//! The system call filter.
//!
//! One program for the kernel, made from the tables in [`rules`] and
//! [`strict`], where every entry has its reason. Other architectures' calls end
//! the process, x32's included.

mod program;
mod rules;
mod strict;

use std::sync::OnceLock;

use crate::spec::SeccompProfile;
use program::Instruction;

/// Why no filter was made: a table and the compiler disagree.
#[derive(Debug, thiserror::Error)]
#[error("the system call filter for this architecture cannot be made")]
pub struct CompileFilterError;

/// The filters as bytes, in the order of loading.
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
    let program = program::program(profile).ok_or(CompileFilterError)?;
    Ok(vec![bytes(&program)])
}

fn bytes(program: &[Instruction]) -> Vec<u8> {
    program
        .iter()
        .flat_map(|instruction| {
            let [a, b] = instruction.code.to_ne_bytes();
            let [w, x, y, z] = instruction.value.to_ne_bytes();
            [a, b, instruction.when, instruction.otherwise, w, x, y, z]
        })
        .collect()
}

#[cfg(test)]
mod tests;
