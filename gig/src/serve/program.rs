//! A registered server as a sandbox's specification.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, anyhow, bail};
use gig_policy::SandboxId;
use gig_sandbox::{Bind, BindMode, CpuShare, Kept, ResourceLimits, SeccompProfile, Spec, Stdio};
use gig_vault::Secret;
use gig_web::store::{Server, ServerSpec};
use tokio::runtime::Handle;

use crate::{args::value, private_places, secrets::shown};

/// What of a sandbox is the appliance's, and not the server's.
pub(super) struct Surroundings {
    pub(super) id: SandboxId,
    pub(super) ca_pem: Option<String>,
    pub(super) explicit_port: u16,
    /// Variables with sentinels; they win over the server's own.
    pub(super) sentinels: Vec<(OsString, OsString)>,
    pub(super) stdio: Stdio,
    /// What is kept of the server's files, as it was registered.
    pub(super) kept: Option<Kept>,
    /// What the server's own folders must not show, beside all that no sandbox may see.
    pub(super) private: Option<PathBuf>,
}

/// The specification.
///
/// # Errors
/// When the server names what is not there.
pub(super) fn spec(server: &ServerSpec, around: Surroundings) -> anyhow::Result<Spec> {
    let mut command = server.command.iter();
    let Some(named) = command.next() else {
        bail!("the server has no command");
    };
    let source = server.source.as_ref();
    let binds: Vec<Bind> = server
        .read_only
        .iter()
        .map(|text| bind(text))
        .collect::<anyhow::Result<_>>()?;
    let server_program = match source {
        // What is named is in what is kept.
        Some(_) => None,
        None => file_of(named, &binds),
    };
    let program = match &server_program {
        Some(_) => SERVER_PROGRAM.into(),
        None => named.into(),
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
        program,
        args: command.map(Into::into).collect(),
        env,
        image_env: source.map_or_else(Vec::new, |source| {
            let pairs = source.env.iter();
            pairs
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        }),
        binds,
        workdir: source
            .and_then(|source| source.workdir.as_ref())
            .map(PathBuf::from),
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
        file_mask: None,
        server_program,
        kept: around.kept,
        private: private_places::all()
            .into_iter()
            .chain(around.private)
            .collect(),
    })
}

/// The program's file, where nothing else shows it to the sandbox: it is then at [`SERVER_PROGRAM`]. One of
/// the system, or in a folder that is shown, keeps its place: it may look for its own files beside it.
fn file_of(program: &str, binds: &[Bind]) -> Option<PathBuf> {
    let file = Path::new(program);
    let mut shown = binds.iter().map(|bind| &bind.dest);
    let seen = gig_sandbox::is_shown(file) || shown.clone().any(|path| file.starts_with(path));
    // Nothing can be put below what is shown from the host.
    let taken = shown.any(|path| {
        Path::new(SERVER_PROGRAM).starts_with(path) || path.starts_with(SERVER_PROGRAM)
    });
    let is_file = file.is_absolute() && file.is_file();
    (is_file && !seen && !taken).then(|| file.to_owned())
}

/// What there is to say of files that show a value to the program; written to gig's log, and for the start's record.
///
/// # Errors
/// When gig goes down meanwhile.
pub(super) async fn shows_values(
    server: &Server,
    (secrets, kept): (Vec<Arc<Secret>>, Option<&Kept>),
    runtime: &Handle,
) -> anyhow::Result<Vec<String>> {
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    let paths = shown(&server.spec, kept);
    let looking =
        runtime.spawn_blocking(move || shown::told(paths.iter().map(PathBuf::as_path), &secrets));
    let told = looking.await.context("the start was lost")?;
    for words in &told {
        tracing::warn!(server = %server.name, "{words}");
    }
    Ok(told)
}

/// The files and folders of this machine that it shows to its program.
fn shown(server: &ServerSpec, kept: Option<&Kept>) -> Vec<PathBuf> {
    let read_only = server.read_only.iter();
    let binds = read_only.filter_map(|text| Some(bind(text).ok()?.source));
    let kept = kept.and_then(|kept| match kept {
        Kept::Folder(path) => Some(path.clone()),
        // The one is a root, at whose top no files are; the other a program.
        Kept::Image(_) | Kept::Program(_) => None,
    });
    binds.chain(kept).collect()
}

/// `PATH[:DEST]`, as `gig run --ro` takes it.
fn bind(text: &str) -> anyhow::Result<Bind> {
    let arg =
        value::bind(text).map_err(|why| anyhow!("cannot show {text:?} to the program: {why}"))?;
    let source = arg.source.canonicalize().with_context(|| {
        let path = arg.source.display();
        format!("cannot show {path} to the program: it must exist")
    })?;
    Ok(Bind {
        source,
        dest: arg.dest.unwrap_or(arg.source),
        mode: BindMode::Ro,
    })
}

/// Where a registered server's own file is in its sandbox (interface).
const SERVER_PROGRAM: &str = "/app/server";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nothing_shows_is_the_servers_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server");
        let named = file.to_str().unwrap();
        assert_eq!(file_of(named, &[]), None, "there is none");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        assert_eq!(file_of(named, &[]).as_deref(), Some(file.as_path()));
        let beside = folder.path().to_str().unwrap().to_owned();
        let at = |dest: &str| bind(&format!("{beside}:{dest}")).unwrap();
        assert_eq!(file_of(named, &[at(&beside)]), None, "it is shown");
        assert_eq!(file_of(named, &[at("/app")]), None, "no place");
        let elsewhere = file_of(named, &[at("/srv")]);
        assert_eq!(
            elsewhere.as_deref(),
            Some(file.as_path()),
            "shown, but not there"
        );
        assert_eq!(file_of("/bin/sh", &[]), None, "the system's");
        assert_eq!(file_of("sh", &[]), None, "looked up inside");
        assert_eq!(file_of(folder.path().to_str().unwrap(), &[]), None);
    }
}
