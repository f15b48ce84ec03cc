//! The default engine: bubblewrap, started by the hub.
//!
//! bwrap makes the namespaces and the root, then becomes the bootstrap, which
//! waits. bwrap's arguments travel in a file and its environment is empty, so
//! that nothing of the host can be read from it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use gig_netns::{HostIds, IdMapFds, MapWriter, Tree};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::bootstrap::{self, orders};
use crate::design::{Design, Place};
use crate::engine::Engine;
use crate::error::StartSandboxError;
use crate::facts::{self, Facts, ProcMask};
use crate::layer::{Layer, LayerReport};
use crate::layers::binds::{self, Hidden};
use crate::layers::mounts::VettedBind;
use crate::layers::user::{self, IdMode};
use crate::layers::{base, cgroup, env, fds, landlock, mounts, rlimits, seccomp, streams};
use crate::other_root::OtherRoot;
use crate::plan::{self, Plan, Wanted};
use crate::process::Sockets;
use crate::spec::{Kept, Root, Spec, Stdio};
use crate::watch::{Unwatched, Watch};
use crate::{handshake, trust_bundle};

/// bubblewrap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bwrap;

/// Where distributions install it. Not looked up in `PATH`: it is trusted.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];

impl Engine for Bwrap {
    fn design(
        &self,
        spec: Spec,
        host_ids: HostIds,
        place: Option<Place>,
    ) -> Result<Design, StartSandboxError> {
        let program = find()?;
        streams::vet(&spec.stdio)?;
        let ids = IdMode::of(host_ids);
        if ids == IdMode::Range {
            streams::open_by_name(&spec.stdio);
        }
        let terminal = streams::terminal(&spec.stdio).filter(|_| by_root(host_ids));
        let terminal = terminal.map(OwnedFd::try_clone).transpose();
        let terminal = terminal.map_err(|source| StartSandboxError::Resource {
            what: "a copy of the terminal",
            source,
        })?;
        let (mut orders, mut layers) = orders(&spec, ids, place)?;
        let limits = cgroup::plan(&spec.limits, format!("gig-{}", spec.id))?;
        layers.push(limits.report());
        let Planned {
            plan,
            tree,
            masks,
            roots,
            watch,
            covered,
        } = plan_for(&spec, host_ids, place)?;
        orders.masks = masks;
        layers.push(if plan.covered.is_empty() {
            LayerReport::enforced(Layer::Mounts)
        } else {
            LayerReport::partial(Layer::Mounts, covered_words(&plan.covered))
        });
        orders.shown = binds::identities(&plan.shown)?;
        orders.shown.extend(roots);
        let Handed {
            args,
            fds,
            id_map,
            sockets,
            attach,
        } = hand(plan, &orders, spec.stdio)?;
        Ok(Design {
            program,
            args,
            fds,
            id_map,
            sockets,
            layers,
            limits,
            attach,
            terminal,
            watch,
            covered,
            tree,
            ids: host_ids,
            place,
        })
    }
}

/// What bwrap is given, and our ends of it.
struct Handed {
    args: Vec<OsString>,
    fds: Vec<(OwnedFd, i32)>,
    id_map: Option<IdMapFds>,
    sockets: Sockets,
    attach: Vec<VettedBind>,
}

fn covered_words(covered: &[PathBuf]) -> String {
    let paths: Vec<String> = covered
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    format!(
        "the sandbox's own directories cover the mount on {}",
        paths.join(", ")
    )
}

fn find() -> Result<PathBuf, StartSandboxError> {
    bwrap().ok_or(StartSandboxError::NoEngine)
}

/// Where bubblewrap is on this host, if it is: the file that sandboxes are started with.
#[must_use]
pub fn bwrap() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// What the bootstrap is told, and the layers that it puts on.
fn orders(
    spec: &Spec,
    ids: IdMode,
    place: Option<Place>,
) -> Result<(orders::Orders, Vec<LayerReport>), StartSandboxError> {
    if let Some(name) = env::bad_name(&spec.env).or_else(|| env::bad_name(&spec.image_env)) {
        return Err(StartSandboxError::Variable {
            name: name.to_string_lossy().into_owned(),
        });
    }
    let env = env::build(&env::Surroundings {
        id: spec.id,
        proxy: place.map(|place| (place.gateway, spec.explicit_port)),
        own: place.map(|place| place.address),
        authority: spec.ca_pem.is_some(),
        image: &spec.image_env,
        listed: &spec.env,
    });
    let (rights, landlock) = landlock::detect();
    let path = env
        .get(std::ffi::OsStr::new("PATH"))
        .cloned()
        .unwrap_or_default();
    let workdir = spec
        .workdir
        .clone()
        .unwrap_or_else(|| PathBuf::from(env::HOME));
    let bytes = |text: &OsString| text.as_encoded_bytes().to_vec();
    let orders = orders::Orders {
        network: place.map_or(orders::NetworkCheck::Disconnected, |place| {
            orders::NetworkCheck::Gateway(place.gateway.octets())
        }),
        set_ids: ids == IdMode::Range,
        controlling_terminal: spec.stdio.controlling_terminal,
        file_mask: spec.file_mask.unwrap_or(USUAL_FILE_MASK),
        landlock_fs: rights.fs,
        landlock_scoped: rights.scoped,
        masks: Vec::new(),
        owned: mounts::owned(&spec.binds),
        shown: Vec::new(),
        workdir: workdir.into_os_string().into_encoded_bytes(),
        program: bytes(&spec.program),
        path: bytes(&path),
        args: std::iter::once(&spec.program)
            .chain(&spec.args)
            .map(bytes)
            .collect(),
        env: env::lines(&env),
        rlimits: rlimits::limits(&spec.limits),
        filters: seccomp::compile(spec.seccomp)?,
    };
    let layers = vec![
        LayerReport::enforced(Layer::Namespaces),
        LayerReport::enforced(Layer::Network),
        user::report(ids),
        LayerReport::enforced(Layer::Capabilities),
        rlimits::report(),
        landlock,
        LayerReport::enforced(Layer::Seccomp),
    ];
    Ok((orders, layers))
}

/// What bwrap is to do, and what others do beside it.
struct Planned {
    plan: Plan,
    /// The root that the hub is to have.
    tree: Option<Arc<Tree>>,
    /// What the bootstrap covers of /proc.
    masks: Vec<orders::Masked>,
    /// What must stand where another root's directories are shown.
    roots: Vec<orders::Shown>,
    /// Covers that may come away.
    watch: Option<Watch>,
    /// What of a project is covered, and where inside.
    covered: Vec<(PathBuf, PathBuf)>,
}

fn plan_for(
    spec: &Spec,
    host_ids: HostIds,
    place: Option<Place>,
) -> Result<Planned, StartSandboxError> {
    let hidden = Hidden::read(&spec.private);
    let kept = spec.kept.as_ref();
    let rootfs = match (kept, &spec.rootfs) {
        (Some(Kept::Image(path)), _) | (_, Some(Root::Image(path))) => {
            Some(OtherRoot::of_image(path)?)
        }
        (_, Some(Root::Folder(path))) => Some(OtherRoot::vet(path, &hidden)?),
        (_, None) => None,
    };
    let server_program = match (kept, &spec.server_program) {
        (Some(Kept::Program(path)), _) => Some(path.clone()),
        (_, Some(path)) => Some(binds::vet_source(path, &hidden)?),
        (_, None) => None,
    };
    let trust = trust_bundle::build(rootfs.as_ref(), spec.ca_pem.as_deref());
    let console = spec
        .stdio
        .controlling_terminal
        .then(|| terminal(&spec.stdio));
    let mut binds = binds::vet(&spec.binds, &hidden)?;
    if let Some(Kept::Folder(path)) = kept {
        binds.push(mounts::kept_folder(path.clone()));
    }
    if let Some(root) = &rootfs {
        binds::refuse_led_out(&binds, root)?;
        facts::refuse_large_etc(root)?;
    }
    let watch = watch(&binds, rootfs.as_ref())?;
    let covered = binds::covered_in_projects(&binds, &hidden);
    // A place elsewhere would have to be made in what all sandboxes share.
    let shared = rootfs.is_none() && binds.iter().all(|bind| mounts::is_private(&bind.dest));
    let tree = shared
        .then(|| {
            base::of(&base::Wanted {
                trust: Arc::clone(&trust),
                server: server_program.is_some(),
            })
        })
        .transpose()
        .map_err(|source| StartSandboxError::Resource {
            what: "the description of the root",
            source,
        })?;
    let facts = if shared {
        Facts::of_kernel()
    } else {
        Facts::read(rootfs.as_ref())
    };
    let ids = IdMode::of(host_ids);
    let mut masks = Vec::new();
    if ids == IdMode::Range {
        masks.extend(facts.proc_masks.iter().map(masked));
    }
    let wanted = Wanted {
        binds,
        server_program,
        base: tree.as_deref().map(Tree::place),
        ids,
        attach: by_root(host_ids),
        network: place.map(|place| (place.gateway, place.address)),
        trust: &trust,
        tmp_size: spec.limits.tmp_size,
        console: console.flatten(),
    };
    let plan = plan::plan(wanted, &facts);
    let roots = rootfs.map_or_else(|| Ok(Vec::new()), |root| root.identities(&plan.system));
    Ok(Planned {
        plan,
        tree,
        masks,
        watch,
        covered,
        roots: roots.map_err(|source| StartSandboxError::Resource {
            what: "a view of the other root",
            source,
        })?,
    })
}

/// Whether who starts it is root and gives it ids that nobody else has.
const fn by_root(ids: HostIds) -> bool {
    matches!(
        ids,
        HostIds::Range {
            via: MapWriter::Root,
            ..
        }
    )
}

/// Over what is covered in them.
fn watch(
    binds: &[VettedBind],
    root: Option<&OtherRoot>,
) -> Result<Option<Watch>, StartSandboxError> {
    let root = root.map(|root| (root.path(), root.masks()));
    let watch = Watch::over(binds, root);
    watch.map_err(|Unwatched { path, source }| StartSandboxError::Watch { path, source })
}

fn masked(mask: &ProcMask) -> orders::Masked {
    orders::Masked {
        path: mask.path.as_os_str().as_encoded_bytes().to_vec(),
        directory: mask.directory,
    }
}

/// The terminal's name on the host, so that it has one inside.
fn terminal(stdio: &Stdio) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    let terminal = streams::terminal(stdio)?;
    let link = format!("/proc/self/fd/{}", terminal.as_raw_fd());
    std::fs::read_link(link)
        .ok()
        .filter(|path| path.starts_with("/dev/"))
}

/// Makes everything that the hub will hand on.
fn hand(plan: Plan, orders: &orders::Orders, stdio: Stdio) -> Result<Handed, StartSandboxError> {
    let made = |what| move |source: io::Error| StartSandboxError::Resource { what, source };
    let (control, their_control) = handshake::pair().map_err(made("a socket"))?;
    let (program_socket, their_program) = handshake::pair().map_err(made("a socket"))?;
    let (complaints, their_complaints) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
        .map_err(|error| made("a pipe")(error.into()))?;
    let orders_file =
        fds::sealed("gig-orders", &orders.encode()).map_err(made("a file in memory"))?;
    let bootstrap = bootstrap::program().map_err(made("a file in memory"))?;

    let Plan {
        args,
        mut files,
        id_map,
        attach,
        ..
    } = plan;
    let args_number = files.reserve();
    let mut passed: Vec<(OwnedFd, i32)> = vec![
        (null().map_err(made("a descriptor of /dev/null"))?, 0),
        (null().map_err(made("a descriptor of /dev/null"))?, 1),
        (their_complaints, 2),
        (their_control, orders::CONTROL_FD),
        (their_program, orders::PROGRAM_FD),
        (orders_file, orders::ORDERS_FD),
        (stdio.stdin, orders::STDIO_FD),
        (stdio.stdout, orders::STDIO_FD + 1),
        (stdio.stderr, orders::STDIO_FD + 2),
        (bootstrap, orders::BOOTSTRAP_FD),
    ];
    for (number, bytes) in files.into_contents() {
        passed.push((
            fds::sealed("gig-file", &bytes).map_err(made("a file in memory"))?,
            number,
        ));
    }
    let packed = fds::sealed("gig-arguments", &pack(&args)).map_err(made("a file in memory"))?;
    passed.push((packed, args_number));

    let mut outer = vec![
        OsString::from("--args"),
        OsString::from(args_number.to_string()),
    ];
    outer.extend(plan::command());
    Ok(Handed {
        args: outer,
        fds: passed,
        id_map: id_map.map(|(info_fd, block_fd)| IdMapFds { info_fd, block_fd }),
        sockets: Sockets {
            control,
            program: program_socket,
            complaints,
        },
        attach,
    })
}

fn null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?
        .into())
}

/// As `--args` reads them: each ended by a NUL byte.
fn pack(args: &[OsString]) -> Vec<u8> {
    args.iter()
        .flat_map(|arg| arg.as_encoded_bytes().iter().copied().chain([0]))
        .collect()
}
/// As most systems have it: nobody but the owner writes.
const USUAL_FILE_MASK: u32 = 0o022;
