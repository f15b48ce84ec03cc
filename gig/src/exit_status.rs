//! What gig exits with: the program's own status, or one of three that say why there is none.

use std::process::ExitCode;

use gig_sandbox::StartSandboxError;

/// What the record says of a program that the kernel killed for want of memory.
pub(crate) const OUT_OF_MEMORY: &str = "killed: it wanted more memory than its limit";
/// What the record says of a program that was ended because it could have seen a credential, or written what it is only
/// shown.
pub(crate) const UNCOVERED: &str = "ended: something on the host changed a place where a credential is covered, or where what is shown read-only is";
/// What the record says of files that the program left in a folder it may write, and that the host runs by itself.
pub(crate) const LEFT: &str = "changed during the run, and run by the host itself";

/// An exit status, 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitStatus(pub(crate) u8);

impl ExitStatus {
    /// All is well; for `policy test`: allowed.
    pub(crate) const SUCCESS: Self = Self(0);
    /// The question was answered with no: denied, not valid, not whole.
    pub(crate) const NO: Self = Self(1);
    /// gig could not do it, as `env`, `timeout` and container runtimes say it.
    pub(crate) const GIG_FAILED: Self = Self(125);
    /// Nobody reads what it prints any more: as who is ended by SIGPIPE, 128 and that.
    pub(crate) const READER_LEFT: Self = Self(141);
    /// The program is not there.
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// What a failure of gig's ends with: 127 when the program is not there, 126 when it cannot be
    /// executed, else 125.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let mut causes = error.chain();
        let start = causes.find_map(|cause| cause.downcast_ref::<StartSandboxError>());
        start.map_or(Self::GIG_FAILED, |error| Self(error.exit_code()))
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.0)
    }
}
