//! `gig run`, resolved: every option read, checked and made into what the parts take.

use std::{
    ffi::OsString,
    net::Ipv4Addr,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use gig_audit::Durability;
use gig_policy::Policy;
use gig_proxy::{
    resolve::ResolveOverride, tls::roots::Roots, upstream::connect_proxy::UpstreamProxy,
};
use gig_sandbox::{Bind, BindMode, ResourceLimits, Root, SeccompProfile};

use super::{drawn, policy, secrets::Secrets, summary::RulesFrom, warnings};
use crate::args::{
    run::{EngineArg, NetworkArg, ProfileArg, RunArgs, SeccompArg},
    value::{BindArg, EnvArg},
};
use crate::{
    images::{self, Image},
    record_place::RecordPlace,
};

/// Where the record goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuditPlace {
    /// As `--audit` names it.
    Named(RecordPlace),
    /// A file of its own in the data directory.
    DataDir,
}

/// A run, as gig will do it.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    /// Of the policy document, where there is one.
    pub(crate) digest: Option<String>,
    pub(crate) rules_from: RulesFrom,
    pub(crate) connected: bool,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<EnvArg>,
    pub(crate) secrets: Option<Secrets>,
    pub(crate) binds: Vec<Bind>,
    /// What a person should know before the program starts.
    pub(crate) warnings: Vec<String>,
    pub(crate) workdir: Option<PathBuf>,
    pub(crate) root: Option<Root>,
    /// Whose files those are; it stays while this is held.
    pub(crate) image: Option<Image>,
    pub(crate) limits: ResourceLimits,
    pub(crate) seccomp: SeccompProfile,
    pub(crate) timeout: Option<Duration>,
    pub(crate) audit: AuditPlace,
    pub(crate) durability: Durability,
    pub(crate) quiet: bool,
    pub(crate) resolve: Vec<ResolveOverride>,
    pub(crate) upstream_ca: Option<Vec<u8>>,
    pub(crate) upstream_proxy: Option<UpstreamProxy>,
    pub(crate) explicit_port: u16,
    pub(crate) subnet: gig_netns::Ipv4Net,
    pub(crate) profile: &'static str,
}

impl Settings {
    /// Reads files and variables; nothing is started yet.
    ///
    /// # Errors
    /// When an option cannot be had as given. Options that this host or build cannot enforce are
    /// refused, never ignored.
    pub(crate) fn resolve(args: RunArgs) -> anyhow::Result<Self> {
        refuse_other_engines(args.engine)?;
        let connected = connected(args.network, args.profile)?;
        let (policy, digest) = policy::from_args(&args, connected)?;
        let secrets = Secrets::resolve(&args, &policy, connected)?;
        let upstream_ca = read_roots(&args.upstream_ca)?;
        let upstream_proxy = own_proxy()?;
        let written = args.rw.iter().map(|arg| &arg.source);
        let links = warnings::of_links(written.chain(&args.audit));
        let binds = resolve_binds(args.ro, args.rw)?;
        let obeyed = args.policy.iter().chain(&args.upstream_ca);
        let mut warnings = warnings::of_writable(obeyed, &binds);
        warnings.extend(links);
        warnings.extend(warnings::of_other_names(&binds));
        warnings.extend(warnings::of_expired(args.policy.as_deref(), &policy));
        let workdir = args.workdir.map(resolve_workdir).transpose()?;
        let audit = match args.audit {
            None => AuditPlace::DataDir,
            Some(name) => AuditPlace::Named(RecordPlace::to_write(&name)?),
        };
        let explicit_port = variable("GIG_PROXY_PORT", DEFAULT_PROXY_PORT)?;
        let subnet = variable("GIG_SUBNET", DEFAULT_SUBNET)?;
        // Last: what is wrong with another option is said before anything is pulled.
        let outside = images::outside(
            upstream_ca.as_deref(),
            upstream_proxy.as_ref(),
            args.image_clear_text,
        );
        let image = args.image.map(|named| images::obtain(&named, &outside));
        let image = image.transpose()?;
        let mut program = program(args.program, image.as_ref())?.into_iter();
        let Some(name) = program.next() else {
            bail!("no program is named; give one after --");
        };
        let images_own = image
            .as_ref()
            .and_then(|image| image.about.workdir.as_ref());
        let images_own = images_own.map(PathBuf::from);
        Ok(Self {
            policy,
            digest,
            rules_from: RulesFrom {
                document: args.policy.map(|path| path.display().to_string()),
                proxy: drawn::own_place(subnet).map(|(proxy, _)| proxy),
                sandbox: drawn::own_place(subnet).map(|(_, sandbox)| sandbox),
            },
            connected,
            program: name,
            args: program.collect(),
            env: args.env,
            secrets,
            binds,
            warnings,
            workdir: workdir.or(images_own),
            root: match &image {
                Some(image) => Some(Root::Image(image.root())),
                None => args.rootfs.map(Root::Folder),
            },
            image,
            limits: ResourceLimits {
                memory: args.memory,
                pids: args.pids,
                cpus: args.cpus,
                tmp_size: args.tmp_size,
            },
            seccomp: filter(args.seccomp),
            timeout: args.timeout,
            audit,
            durability: args.audit_durability.into(),
            quiet: args.quiet,
            resolve: args.resolve,
            upstream_ca,
            upstream_proxy,
            explicit_port,
            subnet,
            profile: match args.profile {
                ProfileArg::External => "external",
                ProfileArg::Local => "local",
                ProfileArg::Disconnected => "disconnected",
            },
        })
    }
}

const fn filter(asked: SeccompArg) -> SeccompProfile {
    match asked {
        SeccompArg::Default => SeccompProfile::Default,
        SeccompArg::Strict => SeccompProfile::Strict,
    }
}

/// What is to run: as typed, or what the image runs by itself.
fn program(typed: Vec<OsString>, image: Option<&Image>) -> anyhow::Result<Vec<OsString>> {
    match image.filter(|_| typed.is_empty()) {
        Some(image) => image.program(),
        None => Ok(typed),
    }
}

fn refuse_other_engines(engine: EngineArg) -> anyhow::Result<()> {
    match engine {
        EngineArg::Auto | EngineArg::Bwrap => Ok(()),
        EngineArg::Landlock => bail!(
            "--engine landlock: this gig has no Landlock engine; use --engine bwrap (gig doctor says \
             whether this host lets it work)"
        ),
        EngineArg::Gvisor => bail!(
            "--engine gvisor: this gig has no gVisor engine; use --engine bwrap (gig doctor says \
             whether this host lets it work)"
        ),
    }
}

fn connected(network: Option<NetworkArg>, profile: ProfileArg) -> anyhow::Result<bool> {
    match (network, profile) {
        (Some(NetworkArg::Full), ProfileArg::Disconnected) => bail!(
            "--network full and --profile disconnected contradict each other; leave one of them out"
        ),
        (Some(NetworkArg::Disconnected), _) | (_, ProfileArg::Disconnected) => Ok(false),
        (Some(NetworkArg::Full) | None, _) => Ok(true),
    }
}

fn resolve_binds(ro: Vec<BindArg>, rw: Vec<BindArg>) -> anyhow::Result<Vec<Bind>> {
    let count = ro.len() + rw.len();
    if count > MOST_BINDS {
        bail!("{count} --ro and --rw are more than {MOST_BINDS}: show folders above them");
    }
    let ro = ro.into_iter().map(|bind| resolve_bind(bind, BindMode::Ro));
    let rw = rw.into_iter().map(|bind| resolve_bind(bind, BindMode::Rw));
    ro.chain(rw).collect()
}

fn resolve_bind(arg: BindArg, mode: BindMode) -> anyhow::Result<Bind> {
    let source = arg.source.canonicalize().with_context(|| {
        format!(
            "cannot show {} to the program: it must exist",
            arg.source.display()
        )
    })?;
    let dest = match arg.dest {
        Some(dest) => dest,
        None => own_path(&arg.source)
            .with_context(|| format!("cannot make {} absolute", arg.source.display()))?,
    };
    Ok(Bind { source, dest, mode })
}

/// A relative one is the caller's, which is also where a bind of one goes.
fn resolve_workdir(given: PathBuf) -> anyhow::Result<PathBuf> {
    if given.is_absolute() {
        return Ok(given);
    }
    own_path(&given).with_context(|| {
        format!(
            "--workdir {}: cannot tell which directory that is; write it from the root",
            given.display()
        )
    })
}

/// A path as it is written, from the root. The links in front of `..` are followed, as the kernel does: what it
/// leads to has no other name.
pub(crate) fn own_path(path: &Path) -> std::io::Result<PathBuf> {
    if !path.components().any(|part| part == Component::ParentDir) {
        return std::path::absolute(path);
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(folder.canonicalize()?.join(name)),
        _ => path.canonicalize(),
    }
}

pub(crate) fn read_roots(files: &[PathBuf]) -> anyhow::Result<Option<Vec<u8>>> {
    if files.is_empty() {
        return Ok(None);
    }
    let mut pem = Vec::new();
    for file in files {
        let text = std::fs::read(file)
            .with_context(|| format!("--upstream-ca: cannot read {}", file.display()))?;
        pem.extend_from_slice(&text);
        pem.push(b'\n');
    }
    Ok(Some(pem))
}

/// Whom gig trusts out there: the system's roots, and those that `--upstream-ca` names.
///
/// # Errors
/// When those are none.
pub(crate) fn trusted_roots(named: Option<&[u8]>) -> anyhow::Result<Roots> {
    let roots = Roots::system();
    match named {
        None => Ok(roots),
        Some(pem) => roots
            .with_pem(pem)
            .context("--upstream-ca: cannot use these roots"),
    }
}

/// Through what gig goes out, where its environment names something.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn own_proxy() -> anyhow::Result<Option<UpstreamProxy>> {
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(name) = UpstreamProxy::overlooked(variable) {
        tracing::warn!(
            "{name} is set in gig's own environment and HTTPS_PROXY is not: gig goes to origins directly; to go by \
             that proxy, set HTTPS_PROXY"
        );
    }
    UpstreamProxy::from_env(variable)
        .context("cannot use the proxy that gig's own environment names")
}

/// A variable of gig's own environment, or its default.
///
/// # Errors
/// When it is set to something unusable.
pub(crate) fn variable<T: std::str::FromStr>(name: &str, default: T) -> anyhow::Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{name} is {text:?}, which is not usable")),
        Err(std::env::VarError::NotPresent) => Ok(default),
        Err(error) => Err(error).with_context(|| format!("{name} is not usable")),
    }
}

/// Where explicit proxies of this kind have long listened (interface: GIG_PROXY_PORT).
pub(crate) const DEFAULT_PROXY_PORT: u16 = 8081;
/// Each may be a descriptor of the sandbox's first process, which has some beside them.
const MOST_BINDS: usize = 900;
/// Exists inside the hub only, so that it clashes with nothing on the host (interface: GIG_SUBNET).
pub(crate) const DEFAULT_SUBNET: gig_netns::Ipv4Net =
    gig_netns::Ipv4Net::new_assert(Ipv4Addr::new(10, 200, 0, 0), 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_the_callers_and_has_no_dots() {
        let here = std::env::current_dir().unwrap();
        let above = here.parent().unwrap().to_owned();
        for (given, expected) in [
            (".", here.clone()),
            ("./src/", here.join("src")),
            ("..", above.clone()),
            ("src/..", here.clone()),
            ("../absent", above.join("absent")),
            ("/a/b", "/a/b".into()),
        ] {
            let told = resolve_workdir(given.into()).unwrap();
            assert_eq!(told, expected, "{given}");
        }
        assert!(resolve_workdir("absent/../..".into()).is_err());
        let arg = BindArg {
            source: "..".into(),
            dest: None,
        };
        let bind = resolve_bind(arg, BindMode::Rw).unwrap();
        assert_eq!((&bind.source, &bind.dest), (&above, &above));
    }
}
