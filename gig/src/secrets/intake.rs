//! How values and passphrases come in: from a file, a descriptor, standard input, or typed unseen.
//! Never from the command line, which every process can read.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Read, Write as _},
    path::Path,
};

use anyhow::{Context, bail};
use gig_vault::{SecretBytes, vault::LARGEST};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::args::secret::PassphraseArgs;

/// A value and what was left out of it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) value: SecretBytes,
    /// A line end stood after it and is not part of it.
    pub(crate) stripped: bool,
}

/// Reads a value from `file`, from standard input, or from the terminal when that is one.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn value(file: Option<&Path>, keep_newline: bool) -> anyhow::Result<Taken> {
    let taken = match file {
        Some(path) => {
            let shown = path.display();
            let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
            bounded(file).with_context(|| format!("cannot read the value from {shown}"))?
        }
        None if io::stdin().is_terminal() => typed("value: ")?,
        None => bounded(io::stdin()).context("cannot read the value from standard input")?,
    };
    Ok(if keep_newline {
        Taken {
            value: taken,
            stripped: false,
        }
    } else {
        without_line_end(&taken)
    })
}

/// A new password, from standard input, or typed twice unseen: nobody reads what was typed.
///
/// # Errors
/// When it cannot be read, or two different ones were typed.
pub(crate) fn password() -> anyhow::Result<Taken> {
    if !io::stdin().is_terminal() {
        return value(None, false);
    }
    let once = typed("password: ")?;
    if typed("once more: ")? != once {
        bail!("the two passwords are not the same");
    }
    Ok(without_line_end(&once))
}

/// The passphrase, from where the options say, or typed at the terminal; typed twice when it is the
/// first one.
///
/// # Errors
/// When there is none to be had.
pub(crate) fn passphrase(
    from: &PassphraseArgs,
    prompt: &str,
    first: bool,
) -> anyhow::Result<SecretBytes> {
    let read = match (&from.passphrase_file, from.passphrase_fd) {
        (Some(path), _) => {
            let shown = path.display();
            let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
            bounded(file).with_context(|| format!("cannot read the passphrase from {shown}"))?
        }
        (None, Some(fd)) => {
            let file = File::open(format!("/proc/self/fd/{fd}"))
                .with_context(|| format!("--passphrase-fd {fd}: no such descriptor was given"))?;
            bounded(file).with_context(|| format!("cannot read the passphrase from {fd}"))?
        }
        (None, None) => {
            let once = typed(prompt)?;
            if first && typed("once more: ")? != once {
                bail!("the two passphrases are not the same");
            }
            once
        }
    };
    Ok(without_line_end(&read).value)
}

/// Reads to the end, or to what is more than any value; the buffer never grows, so that no copy is
/// left behind.
fn bounded(source: impl Read) -> io::Result<SecretBytes> {
    let mut octets = Vec::with_capacity(LARGEST + 3);
    let read = source.take(LARGEST as u64 + 3).read_to_end(&mut octets);
    let value = SecretBytes::new(octets);
    read.map(|_| value)
}

fn without_line_end(taken: &SecretBytes) -> Taken {
    let octets = taken.expose();
    let kept = octets.strip_suffix(b"\n").unwrap_or(octets);
    let kept = match kept.len() == octets.len() {
        true => kept,
        false => kept.strip_suffix(b"\r").unwrap_or(kept),
    };
    Taken {
        value: SecretBytes::copy_of(kept),
        stripped: kept.len() != octets.len(),
    }
}

/// How what is asked for is given where nobody can be asked.
fn instead(asked: &str) -> &'static str {
    match asked {
        "new passphrase" => "give it by --new-passphrase-file",
        "value" => "give it by --file",
        "password" | "once more" => "pipe it in",
        // Of some secret.
        _ => "give it by --passphrase-file",
    }
}

/// Asks at the controlling terminal, with what is typed unseen.
fn typed(prompt: &str) -> anyhow::Result<SecretBytes> {
    let terminal = File::options()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .with_context(|| {
            let asked = prompt.trim_end_matches([':', ' ']);
            format!(
                "there is no terminal to ask at for the {asked}: {}",
                instead(asked)
            )
        })?;
    let before = tcgetattr(&terminal).context("cannot ask at the terminal")?;
    let _unseen = Unseen::begin(&terminal, before)?;
    (&terminal).write_all(prompt.as_bytes())?;
    let mut line = Vec::with_capacity(LARGEST);
    let mut octet = [0];
    while line.len() < LARGEST && (&terminal).read(&mut octet)? == 1 && octet != *b"\n" {
        line.extend_from_slice(&octet);
    }
    (&terminal).write_all(b"\n")?;
    Ok(SecretBytes::new(line))
}

/// Puts the terminal back as it was.
struct Unseen<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Unseen<'a> {
    fn begin(terminal: &'a File, before: Termios) -> anyhow::Result<Self> {
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &unseen)
            .context("cannot ask at the terminal")?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        // The terminal is gone when this fails.
        tcsetattr(self.terminal, OptionalActions::Now, &self.before).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_asked_is_told_the_option_of_what_is_wanted() {
        for (asked, option) in [
            ("value", "--file"),
            ("passphrase", "--passphrase-file"),
            ("passphrase of T", "--passphrase-file"),
            ("new passphrase", "--new-passphrase-file"),
        ] {
            assert!(instead(asked).ends_with(&format!("by {option}")), "{asked}");
        }
    }

    #[test]
    fn one_line_end_is_left_out() {
        for (given, value, stripped) in [
            ("a\n", "a", true),
            ("a\r\n", "a", true),
            ("a\n\n", "a\n", true),
            ("a", "a", false),
            ("a\r", "a\r", false),
            ("\n", "", true),
        ] {
            let taken = without_line_end(&SecretBytes::from(given));
            assert_eq!(
                (taken.value, taken.stripped),
                (SecretBytes::from(value), stripped)
            );
        }
    }

    #[test]
    fn a_value_without_end_is_cut_past_the_largest() {
        let taken = bounded(io::repeat(b'a')).unwrap();
        assert!(taken.len() > LARGEST && taken.len() < LARGEST + 10);
    }
}
