//! Runs one sandbox: `confine [OPTION…] -- PROGRAM [ARG…]`, with its own
//! standard streams, and ends as it does.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use gig_netns::{HostIds, Hub, HubConfig};
use gig_sandbox::{
    Bind, BindMode, CpuShare, Network, ResourceLimits, Root, SeccompProfile, Spec, Stdio, prepare,
};
use rustix::process::Signal;

pub(crate) const ARGUMENT: &str = "confine";

struct Wish {
    spec: Spec,
    single: bool,
    disconnected: bool,
    layers: bool,
    term_after: Option<u64>,
    kill_after: Option<u64>,
    /// What the program makes, and is not to be there before the go.
    makes: Option<PathBuf>,
    go: Go,
}

/// Whether the program is told to go.
#[derive(PartialEq)]
enum Go {
    Given,
    Never,
}

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let wish = parse(args);
    let ids = if wish.single {
        HostIds::Single
    } else {
        HostIds::detect()
    };
    let config = HubConfig {
        slots: 4,
        subnet: "10.200.0.0/16".parse().expect("a subnet"),
        explicit_port: 8081,
        ids,
    };
    let (hub, _listeners) = match Hub::start(&config) {
        Ok(started) => started,
        Err(error) => return say(&error, 125),
    };
    run(&hub, wish)
}

fn run(hub: &Hub, wish: Wish) -> ExitCode {
    let Wish {
        spec,
        disconnected,
        layers,
        term_after,
        kill_after,
        makes,
        go,
        ..
    } = wish;
    let lease = (!disconnected).then(|| hub.lease().expect("a lease"));
    let network = lease
        .as_ref()
        .map_or(Network::Disconnected, Network::Leased);
    let prepared = match prepare(spec, hub, network) {
        Ok(prepared) => prepared,
        Err(error) => return say(&error, error.exit_code()),
    };
    if layers {
        for report in prepared.layers() {
            println!("{}: {:?}", report.layer.name(), report.enforcement);
        }
    }
    let nothing_is_made = || {
        std::thread::sleep(LONG_ENOUGH);
        makes.as_ref().is_none_or(|path| !path.exists())
    };
    assert!(makes.is_none() || nothing_is_made(), "it ran before the go");
    if go == Go::Never {
        drop(prepared);
        assert!(nothing_is_made(), "it ran without a go");
        return ExitCode::SUCCESS;
    }
    let mut running = match prepared.go() {
        Ok(running) => running,
        Err(error) => return say(&error, error.exit_code()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let ended = runtime.block_on(async {
        let first = term_after.or(kill_after);
        if let Some(first) = first {
            let early = tokio::time::timeout(Duration::from_millis(first), running.wait()).await;
            if let Ok(ended) = early {
                return ended;
            }
            if term_after.is_some() {
                running.signal(Signal::TERM)
            } else {
                running.kill()
            }
        }
        running.wait().await
    });
    drop(running);
    if let Some(lease) = lease {
        hub.release(lease).expect("the slot back");
    }
    match ended {
        Ok(status) => ExitCode::from(status.code()),
        Err(error) => say(&error, 125),
    }
}

/// For a program that does not wait to show itself.
const LONG_ENOUGH: Duration = Duration::from_millis(300);

fn say(error: &dyn std::error::Error, code: u8) -> ExitCode {
    eprint!("confine: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        eprint!(": {cause}");
        source = cause.source();
    }
    eprintln!();
    ExitCode::from(code)
}

fn stdio() -> Stdio {
    let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().expect("a stream");
    Stdio {
        stdin: own(std::io::stdin().as_fd()),
        stdout: own(std::io::stdout().as_fd()),
        stderr: own(std::io::stderr().as_fd()),
        controlling_terminal: false,
    }
}

fn parse(args: Vec<OsString>) -> Wish {
    let mut wish = Wish {
        spec: Spec {
            id: gig_policy::SandboxId::new(uuid::Uuid::from_u128(7)),
            program: OsString::new(),
            args: Vec::new(),
            env: Vec::new(),
            binds: Vec::new(),
            workdir: None,
            image_env: Vec::new(),
            rootfs: None,
            ca_pem: None,
            explicit_port: 8081,
            limits: ResourceLimits::default(),
            stdio: stdio(),
            seccomp: SeccompProfile::Default,
            file_mask: None,
            server_program: None,
            kept: None,
            private: Vec::new(),
        },
        single: false,
        disconnected: false,
        layers: false,
        term_after: None,
        kill_after: None,
        makes: None,
        go: Go::Given,
    };
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let option = arg.into_string().expect("an option in UTF-8");
        if option == "--" {
            break;
        }
        if flag(&mut wish, &option) {
            continue;
        }
        let value = args
            .next()
            .expect("a value")
            .into_string()
            .expect("a value in UTF-8");
        let number = || value.parse().expect("a number");
        match option.as_str() {
            "--term-after" => wish.term_after = Some(number()),
            "--kill-after" => wish.kill_after = Some(number()),
            "--makes" => wish.makes = Some(value.into()),
            _ => set(&mut wish.spec, &option, &value),
        }
    }
    wish.spec.program = args.next().expect("a program");
    wish.spec.args = args.collect();
    wish
}

fn flag(wish: &mut Wish, option: &str) -> bool {
    match option {
        "--single" => wish.single = true,
        "--disconnected" => wish.disconnected = true,
        "--layers" => wish.layers = true,
        "--abandon" => wish.go = Go::Never,
        "--strict" => wish.spec.seccomp = SeccompProfile::Strict,
        "--terminal" => wish.spec.stdio.controlling_terminal = true,
        _ => return false,
    }
    true
}

fn set(spec: &mut Spec, option: &str, value: &str) {
    let bind = |mode| {
        let (source, dest) = value.split_once(':').unwrap_or((value, value));
        Bind {
            source: PathBuf::from(source),
            dest: PathBuf::from(dest),
            mode,
        }
    };
    let number = || value.parse::<u64>().expect("a number");
    match option {
        "--ro" => spec.binds.push(bind(BindMode::Ro)),
        "--rw" => spec.binds.push(bind(BindMode::Rw)),
        "--env" => {
            let (name, value) = value.split_once('=').expect("NAME=VALUE");
            spec.env.push((name.into(), value.into()));
        }
        "--workdir" => spec.workdir = Some(value.into()),
        "--rootfs" => spec.rootfs = Some(Root::Folder(value.into())),
        "--image-root" => spec.rootfs = Some(Root::Image(value.into())),
        "--ca" => spec.ca_pem = Some(std::fs::read_to_string(value).expect("a certificate")),
        "--server" => spec.server_program = Some(value.into()),
        "--private" => spec.private.push(value.into()),
        "--memory" => spec.limits.memory = Some(number()),
        "--pids" => spec.limits.pids = u32::try_from(number()).ok(),
        "--cpus" => spec.limits.cpus = u32::try_from(number()).ok().and_then(CpuShare::from_millis),
        "--tmp-size" => spec.limits.tmp_size = Some(number()),
        "--id" => {
            let id = u128::from_str_radix(value.trim_start_matches("0x"), 16).expect("a number");
            spec.id = gig_policy::SandboxId::new(uuid::Uuid::from_u128(id));
        }
        other => panic!("{other} is no option"),
    }
}
