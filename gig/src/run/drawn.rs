//! What of a run needs no hub: made on a second thread while the hub comes up.

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use anyhow::Context;
use gig_netns::{HostIds, SubnetPool};
use gig_policy::SandboxId;
use gig_proxy::{credential::Wallet, tls::authority_key::Authority};
use gig_sandbox::{Design, Place, Spec, Stdio};

use super::{environment, record::Record, settings::Settings, terminal::Streams, wire::SLOTS};

/// The record, opened before anything else, and the sandbox, worked out.
pub(super) struct Drawn {
    pub(super) record: Record,
    pub(super) authority: Authority,
    pub(super) wallet: Option<Arc<Wallet>>,
    pub(super) design: Design,
}

impl Drawn {
    /// Makes them.
    ///
    /// # Errors
    /// When one cannot be had.
    pub(super) fn new(
        settings: &Settings,
        sandbox: SandboxId,
        ids: HostIds,
        streams: Streams,
    ) -> anyhow::Result<Self> {
        let record = Record::open(&settings.audit, sandbox)?;
        let wallet = match &settings.secrets {
            Some(secrets) => Some(secrets.wallet(sandbox)?),
            None => None,
        };
        let authority =
            Authority::generate().context("cannot make the certificate authority of this run")?;
        let spec = Spec {
            id: sandbox,
            program: settings.program.clone(),
            args: settings.args.clone(),
            env: variables(settings, wallet.as_deref(), streams.controlling_terminal)?,
            binds: settings.binds.clone(),
            workdir: settings.workdir.clone(),
            rootfs: settings.rootfs.clone(),
            ca_pem: settings.connected.then(|| authority.ca_pem().to_owned()),
            explicit_port: settings.explicit_port,
            limits: settings.limits.clone(),
            stdio: Stdio {
                stdin: streams.stdin,
                stdout: streams.stdout,
                stderr: streams.stderr,
                controlling_terminal: streams.controlling_terminal,
            },
            seccomp: settings.seccomp,
            server_program: None,
            private: private_paths(&record),
        };
        let place = match settings.connected {
            true => Some(first_place(settings)?),
            false => None,
        };
        let design = Design::new(spec, ids, place).context("cannot start the sandbox")?;
        Ok(Self {
            record,
            authority,
            wallet,
            design,
        })
    }
}

/// Where the first sandbox of a new hub is.
fn first_place(settings: &Settings) -> anyhow::Result<Place> {
    let pool = SubnetPool::new(settings.subnet, SLOTS)
        .context("GIG_SUBNET cannot be used for the sandbox's network")?;
    Ok(Place {
        gateway: pool.gateway(0),
        address: pool.address(0),
    })
}

/// The variables inside: what the options say, and sentinels.
fn variables(
    settings: &Settings,
    wallet: Option<&Wallet>,
    terminal: bool,
) -> anyhow::Result<Vec<(OsString, OsString)>> {
    let mut variables = environment::variables(&settings.env, terminal)?;
    if let (Some(secrets), Some(wallet)) = (&settings.secrets, wallet) {
        variables.extend(secrets.variables(wallet));
    }
    Ok(variables)
}

/// What no bind may show: the record is not the program's to read or write.
fn private_paths(record: &Record) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = crate::data_dir::path().into_iter().collect();
    paths.extend(record.place().map(PathBuf::from));
    paths
}
