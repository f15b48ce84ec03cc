//! What is said of a command line that is none, beside what clap says of it.

use std::{
    error::Error as _, io, net::AddrParseError, num::IntErrorKind, num::ParseIntError,
    process::ExitCode,
};

use clap::{
    CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    args::Arguments, error_chain, exit_status::ExitStatus, output::printable, stderr::tell,
};

/// Help and version end well; a mistake ends as every failure of gig's own does, so that a program's
/// own status 2 is never mistaken for it.
pub(crate) fn told(mut mistake: clap::Error) -> ExitCode {
    let asked_for = !mistake.use_stderr();
    if let Some(words) = of_a_secret(&mistake).or_else(|| of_a_value(&mistake)) {
        error_chain::print(&anyhow::anyhow!(words));
        return ExitStatus::GIG_FAILED.into();
    }
    if mistake.kind() == ErrorKind::UnknownArgument {
        // That it may be a value behind `--`: it would be run as a program.
        mistake.remove(ContextKind::Suggested);
    }
    let printed = mistake.print();
    if let (Err(error), true) = (&printed, asked_for)
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        return ExitStatus::READER_LEFT.into();
    }
    if printed.is_err() || !asked_for {
        if let Some(words) = of_a_program(&mistake).or_else(|| of_another_tool(&mistake)) {
            tell(&words);
        }
        return ExitStatus::GIG_FAILED.into();
    }
    ExitCode::SUCCESS
}

/// What `gig run` does not know.
fn unknown_of_run(mistake: &clap::Error) -> Option<&str> {
    let runs = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    match mistake.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if mistake.kind() == ErrorKind::UnknownArgument => {
            runs.then_some(word)
        }
        _ => None,
    }
}

/// What else there is to say where a word stands that is no option: it was meant for a program.
fn of_a_program(mistake: &clap::Error) -> Option<String> {
    let word = unknown_of_run(mistake)?;
    (!word.starts_with('-')).then(|| {
        let word = printable(word);
        format!("\nWrite the program and its arguments behind `--`: gig run … -- {word} …\n")
    })
}

/// What is meant by an option of `docker run` and the like.
fn of_another_tool(mistake: &clap::Error) -> Option<String> {
    let said = match unknown_of_run(mistake)?.split('=').next()? {
        "-v" | "--volume" | "--mount" => {
            "folders are shown by --ro PATH[:DEST] and --rw PATH[:DEST]"
        }
        "-e" => "variables are set by --env NAME=VALUE",
        "-w" => "the program starts where --workdir says",
        "-p" | "--publish" => "nothing connects into a sandbox: there is no port to publish",
        "--config" | "--settings" => "a policy is given by --policy FILE",
        "--network" | "--net" => {
            "where a program may go is said by --allow, --policy and --profile"
        }
        _ => return None,
    };
    Some(format!("\nHere {said}.\n"))
}

/// What is wrong with a `--secret` or `--capture`, in gig's own words: clap would show what was typed, which may be a
/// value (`--secret NAME=VALUE`), and logs keep it.
fn of_a_secret(mistake: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = mistake.get(ContextKind::InvalidArg) else {
        return None;
    };
    let option = argument.split(' ').next()?;
    let is_one = matches!(option, "--secret" | "--capture");
    let why = mistake.source()?;
    (is_one && mistake.kind() == ErrorKind::ValueValidation).then(|| format!("{option}: {why}"))
}

/// What is wrong with a number or an address, in words; and of what a variable gave, which one.
fn of_a_value(mistake: &clap::Error) -> Option<String> {
    let of = |kind| match mistake.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (argument, value) = (of(ContextKind::InvalidArg)?, of(ContextKind::InvalidValue)?);
    let why = mistake.source()?;
    let known = why.downcast_ref::<ParseIntError>().map(of_a_number);
    let known = known.or_else(|| why.is::<AddrParseError>().then_some("it is no IP address"));
    let variable = variable_of(argument);
    if known.is_none() && variable.is_none() {
        return None;
    }
    let by = variable.map_or_else(String::new, |name| format!(" ({name})"));
    let why = known.map_or_else(|| why.to_string(), str::to_owned);
    let (argument, value, why) = (printable(argument), printable(value), printable(&why));
    Some(format!("{argument}{by} cannot be {value:?}: {why}"))
}

fn of_a_number(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::Empty => "it is empty, and a whole number is wanted",
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "that number is too large",
        _ => "it is not a whole number",
    }
}

/// The variable that an option was read from, where the command line does not have it.
fn variable_of(argument: &str) -> Option<String> {
    let option = argument.split(' ').next()?.strip_prefix("--")?;
    let written = std::env::args_os().any(|word| {
        let word = word.to_string_lossy();
        let name = word.strip_prefix("--").unwrap_or_default();
        name.split('=').next() == Some(option)
    });
    let all = Arguments::command();
    let variable = all.get_subcommands().find_map(|command| {
        let mut arguments = command.get_arguments();
        arguments
            .find(|one| one.get_long() == Some(option))?
            .get_env()
    });
    let variable = variable.filter(|name| !written && std::env::var_os(name).is_some());
    variable.map(|name| name.to_string_lossy().into_owned())
}
