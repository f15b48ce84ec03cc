//! What of a run needs no hub: made on a second thread while the hub comes up.

use std::{
    ffi::OsString,
    net::IpAddr,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use gig_netns::{HostIds, SubnetPool};
use gig_policy::SandboxId;
use gig_proxy::{credential::Wallet, tls::authority_key::Authority};
use gig_sandbox::{BindMode, Design, Place, Spec, Stdio};

use super::{
    environment,
    record::Record,
    settings::{AuditPlace, Settings},
    terminal::Streams,
    wire::SLOTS,
};
use crate::{images::Image, private_places, record_place::RecordPlace};

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
        refuse_writable_database(settings)?;
        let record = Record::open(&settings.audit, settings.durability, sandbox)?;
        refuse_linked_record(settings, &record)?;
        let wallet = match &settings.secrets {
            Some(secrets) => {
                secrets.follow(record.recorder(), sandbox)?;
                Some(secrets.wallet(sandbox)?)
            }
            None => None,
        };
        let authority =
            Authority::generate().context("cannot make the certificate authority of this run")?;
        let spec = Spec {
            id: sandbox,
            program: settings.program.clone(),
            args: settings.args.clone(),
            env: variables(settings, wallet.as_deref(), streams.controlling_terminal)?,
            image_env: settings
                .image
                .as_ref()
                .map_or_else(Vec::new, Image::variables),
            binds: settings.binds.clone(),
            workdir: settings.workdir.clone(),
            rootfs: settings.root.clone(),
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
            file_mask: own_file_mask(),
            server_program: None,
            kept: None,
            private: private_paths(settings, &record),
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

/// Where gig's own proxy is inside, and where the sandbox is.
pub(super) fn own_place(subnet: gig_netns::Ipv4Net) -> Option<(IpAddr, IpAddr)> {
    let pool = SubnetPool::new(subnet, SLOTS).ok()?;
    Some((pool.gateway(0).into(), pool.address(0).into()))
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

/// A database believes what lies beside it under its name (a journal to roll back): no sandbox may put
/// anything there.
fn refuse_writable_database(settings: &Settings) -> anyhow::Result<()> {
    let AuditPlace::Named(RecordPlace::Sqlite(path)) = &settings.audit else {
        return Ok(());
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder
        .canonicalize()
        .with_context(|| format!("cannot find the folder of {}", path.display()))?;
    for bind in settings
        .binds
        .iter()
        .filter(|bind| bind.mode == BindMode::Rw)
    {
        let source = bind
            .source
            .canonicalize()
            .unwrap_or_else(|_| bind.source.clone());
        if folder.starts_with(&source) || source.parent() == Some(&folder) && !source.is_dir() {
            bail!(
                "the program may write beside the audit database {}: keep the database in a folder \
                 that no --rw shows",
                path.display()
            );
        }
    }
    Ok(())
}

/// A file that is shown by another name is covered by none: it could be written there.
fn refuse_linked_record(settings: &Settings, record: &Record) -> anyhow::Result<()> {
    if !settings.binds.iter().any(|bind| bind.mode == BindMode::Rw) {
        return Ok(());
    }
    for path in record.files() {
        let found = path.metadata().ok().filter(|found| found.is_file());
        if found.is_some_and(|found| found.nlink() > 1) {
            bail!(
                "the audit file {} has other names (hard links), by which a program with --rw could write it: \
                 remove them, or keep the record in another file",
                path.display()
            );
        }
    }
    Ok(())
}

/// What no bind may show: the record is not the program's to read or write.
fn private_paths(settings: &Settings, record: &Record) -> Vec<PathBuf> {
    if settings.binds.is_empty() && settings.root.is_none() {
        return Vec::new();
    }
    let mut paths = private_places::all();
    paths.extend(record.files());
    paths
}

/// As whoever runs gig wants files to be made (`Umask`, proc_pid_status(5), Linux 4.7).
fn own_file_mask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let told = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(told.trim(), 8).ok()
}
