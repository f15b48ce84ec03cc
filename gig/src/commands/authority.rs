//! `gig ca show`: the certificate authority that the sandboxes of the appliance on this machine trust.

use std::{fs, os::unix::net::UnixStream};

use anyhow::{Context, bail};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    args::{CaCommand, OutputArgs},
    data_dir,
    exit_status::ExitStatus,
    output,
    serve::{AUTHORITY, SOCKET, SocketPath},
};

/// Does what the command line says.
///
/// # Errors
/// When no appliance serves here, or it has no authority.
pub(super) fn execute(command: &CaCommand) -> anyhow::Result<ExitStatus> {
    let CaCommand::Show(args) = command;
    show(args)
}

/// The certificate alone: its key never leaves the memory of the appliance.
fn show(args: &OutputArgs) -> anyhow::Result<ExitStatus> {
    let dir = data_dir::path()?;
    // What a former appliance left is nobody's authority.
    let serves = SocketPath::of(dir.join(SOCKET)).and_then(|it| UnixStream::connect(it.path()));
    if serves.is_err() {
        bail!(
            "no appliance serves from {}: each start of gig serve makes an authority of its own, and so does \
             each gig run, whose program finds it at /etc/gig-ca.pem",
            dir.display()
        );
    }
    let path = dir.join(AUTHORITY);
    let shown = path.display();
    let pem = fs::read_to_string(&path).with_context(|| {
        format!("cannot read {shown}: an appliance that can start no sandbox has none (gig doctor)")
    })?;
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
    let certificate = certificate.with_context(|| format!("{shown} holds no certificate"))?;
    let digest = Sha256::digest(&certificate);
    let fingerprint: Vec<String> = digest.iter().map(|octet| format!("{octet:02X}")).collect();
    let document = json!({
        "ca_pem": pem,
        "sha256": fingerprint.join(":"),
        "file": path.display().to_string(),
    });
    output::print(args.json, &document, pem.trim_end())?;
    Ok(ExitStatus::SUCCESS)
}
