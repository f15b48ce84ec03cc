//! A registered server as a sandbox's specification.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gig_policy::SandboxId;
use gig_sandbox::{Bind, BindMode, CpuShare, ResourceLimits, SeccompProfile, Spec, Stdio};
use gig_web::store::ServerSpec;

use crate::data_dir;

/// What of a sandbox is the appliance's, and not the server's.
pub(super) struct Surroundings {
    pub(super) id: SandboxId,
    pub(super) ca_pem: Option<String>,
    pub(super) explicit_port: u16,
    /// Variables with sentinels; they win over the server's own.
    pub(super) sentinels: Vec<(OsString, OsString)>,
    pub(super) stdio: Stdio,
}

/// The specification.
///
/// # Errors
/// When the server names what is not there.
pub(super) fn spec(server: &ServerSpec, around: Surroundings) -> anyhow::Result<Spec> {
    let mut command = server.command.iter();
    let Some(program) = command.next() else {
        bail!("the server has no command");
    };
    let mut env: Vec<(OsString, OsString)> = server
        .env
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    env.retain(|(name, _)| !around.sentinels.iter().any(|(taken, _)| taken == name));
    env.extend(around.sentinels);
    Ok(Spec {
        id: around.id,
        program: program.into(),
        args: command.map(Into::into).collect(),
        env,
        binds: server
            .read_only
            .iter()
            .map(bind)
            .collect::<anyhow::Result<_>>()?,
        workdir: None,
        rootfs: None,
        ca_pem: around.ca_pem,
        explicit_port: around.explicit_port,
        limits: ResourceLimits {
            memory: server.memory,
            pids: server.pids,
            cpus: server.cpu_millis.and_then(CpuShare::from_millis),
            tmp_size: None,
        },
        stdio: around.stdio,
        seccomp: SeccompProfile::Default,
        server_program: None,
        private: data_dir::path().into_iter().collect(),
    })
}

fn bind(path: &String) -> anyhow::Result<Bind> {
    let source = Path::new(path)
        .canonicalize()
        .with_context(|| format!("cannot show {path} to the program: it must exist"))?;
    Ok(Bind {
        source,
        dest: PathBuf::from(path),
        mode: BindMode::Ro,
    })
}
