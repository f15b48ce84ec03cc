//! `gig doctor` for the console: by a process of its own, because it makes hubs and sandboxes of its own
//! and may leave nothing of them in a gig that serves.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use gig_web::control::Examined;
use serde_json::Value;

/// What it found. Blocks for some seconds.
///
/// # Errors
/// When it cannot be run, or says nothing that is understood.
pub(super) fn apart() -> anyhow::Result<Vec<Examined>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "gig itself, which sandboxes nothing here"
    )]
    let mut command = Command::new("/proc/self/exe");
    command.args(["doctor", "--json"]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start gig doctor")?;
    let mut stdout = child.stdout.take().context("gig doctor has no output")?;
    let reading = std::thread::spawn(move || {
        let mut said = Vec::new();
        stdout.read_to_end(&mut said).map(|_| said)
    });
    // What it tries ends by itself; a host so broken that it does not is found out here.
    let mut waited = Duration::ZERO;
    while child
        .try_wait()
        .context("cannot wait for gig doctor")?
        .is_none()
    {
        if waited >= PATIENCE {
            child.kill().context("cannot end gig doctor")?;
            child.wait().context("cannot wait for gig doctor")?;
            anyhow::bail!(
                "gig doctor did not end within {} seconds",
                PATIENCE.as_secs()
            );
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    let said = reading
        .join()
        .map_err(|_| anyhow::anyhow!("the reader ended"))?;
    let said = said.context("cannot read what gig doctor says")?;
    let said: Value = serde_json::from_slice(&said).context("gig doctor did not answer in JSON")?;
    let checks = said.get("checks").and_then(Value::as_array);
    let checks = checks.context("gig doctor named no checks")?;
    ensure!(!checks.is_empty(), "gig doctor tried nothing");
    let text = |check: &Value, name: &str| {
        let text = check.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let examined = checks.iter().map(|check| Examined {
        name: text(check, "name"),
        state: text(check, "state"),
        found: text(check, "found"),
        costs: text(check, "costs"),
        cure: text(check, "cure"),
    });
    Ok(examined.collect())
}

/// Less than a page may take: who asked is told.
const PATIENCE: Duration = Duration::from_secs(50);
const STEP: Duration = Duration::from_millis(20);
