//! Loads the ruleset, once, by the `nft` program.
//!
//! Promises that the rules are in force when `Loading::finish` returns. The
//! program runs beside the making of the first slot, which costs more.

use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities,
};

use crate::hub_protocol::{Failure, Step};

/// Where distributions put the program.
const PROGRAMS: [&str; 3] = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"];

/// An `nft` that is at work.
#[derive(Debug)]
pub(crate) struct Loading {
    program: Child,
}

impl Loading {
    /// Starts loading in the calling thread's network namespace.
    pub(crate) fn start(ruleset: &str) -> Result<Self, Failure> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        lend_net_admin(true).map_err(|error| Failure::io(Step::Firewall, &error))?;
        for program in PROGRAMS {
            #[expect(clippy::disallowed_methods, reason = "the one home of nft")]
            let started = Command::new(program)
                .args(["-f", "-"])
                .env_clear()
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            match started {
                Ok(mut program) => {
                    lend_net_admin(false).map_err(|error| Failure::io(Step::Firewall, &error))?;
                    if let Some(mut input) = program.stdin.take() {
                        // A program that ends early says why on its standard error.
                        drop(input.write_all(ruleset.as_bytes()));
                    }
                    return Ok(Self { program });
                }
                Err(error) => last = error,
            }
        }
        Err(Failure::new(
            Step::Firewall,
            last.raw_os_error(),
            "the nft program could not be started; install nftables",
        ))
    }

    /// Waits until the rules are in force.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let mut said = String::new();
        if let Some(errors) = self.program.stderr.take() {
            // What it said is an explanation only; its status decides.
            drop(errors.take(4096).read_to_string(&mut said));
        }
        let status = self
            .program
            .wait()
            .map_err(|error| Failure::io(Step::Firewall, &error))?;
        if status.success() {
            return Ok(());
        }
        let first = said.lines().next().unwrap_or("no reason given");
        Err(Failure::new(
            Step::Firewall,
            None,
            format!("nft refused the ruleset: {first}"),
        ))
    }
}

/// Lets the next program keep CAP_NET_ADMIN though the hub's id is not 0, or ends that.
fn lend_net_admin(lend: bool) -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable = if lend {
        CapabilitySet::NET_ADMIN
    } else {
        CapabilitySet::empty()
    };
    if !lend {
        clear_ambient_capability_set()?;
    }
    set_capabilities(None, sets)?;
    if lend {
        configure_capability_in_ambient_set(CapabilitySet::NET_ADMIN, true)?;
    }
    Ok(())
}
