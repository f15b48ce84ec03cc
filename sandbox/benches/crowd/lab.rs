//! The program that is started, and how.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio as Std};

use gig_netns::{HostIds, Hub, HubConfig, Lease, Listeners};
use gig_sandbox::{
    Design, Network, Place, ResourceLimits, Running, SeccompProfile, Spec, Starting, Stdio,
};

/// Says that it runs, then lives as long as its standard input.
const PROGRAM: &str = "#include <unistd.h>
int main(void) { char c = 'x'; if (write(1, &c, 1) != 1) return 1; while (read(0, &c, 1) > 0); return 0; }
";
const PORT: u16 = 8081;

/// A place with the program in it.
#[derive(Debug)]
pub(crate) struct Lab {
    dir: tempfile::TempDir,
}

/// A sandbox whose program runs.
#[derive(Debug)]
pub(crate) struct Alive {
    pub(crate) running: Running,
    pub(crate) lease: Lease,
    stdin: io::PipeWriter,
}

impl Lab {
    /// Compiles the program.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        let source = dir.path().join("program.c");
        fs::write(&source, PROGRAM).expect("the program's source");
        let status = Command::new("cc")
            .args(["-O2", "-static", "-o"])
            .args([&dir.path().join("program"), &source])
            .status()
            .expect("cc: apt-get install build-essential");
        assert!(status.success(), "cc ended with {status}");
        Self { dir }
    }

    /// Where the program is.
    pub(crate) fn program(&self) -> PathBuf {
        self.dir.path().join("program")
    }

    /// What gig would start: a registered server's program with an authority to trust.
    pub(crate) fn design(&self, hub: &Hub, lease: &Lease) -> (Design, io::PipeWriter, PipeReader) {
        let (stdin, keeps_it_alive) = io::pipe().expect("a pipe");
        let (says, stdout) = io::pipe().expect("a pipe");
        let stderr = File::options()
            .write(true)
            .open("/dev/null")
            .expect("/dev/null");
        let spec = Spec {
            id: gig_policy::SandboxId::new(uuid::Uuid::from_u128(u128::from(lease.slot()))),
            program: OsString::from("/app/server"),
            args: Vec::new(),
            env: Vec::new(),
            binds: Vec::new(),
            workdir: None,
            image_env: Vec::new(),
            rootfs: None,
            ca_pem: Some(AUTHORITY.to_owned()),
            explicit_port: PORT,
            limits: ResourceLimits::default(),
            stdio: Stdio {
                stdin: stdin.into(),
                stdout: stdout.into(),
                stderr: stderr.into(),
                controlling_terminal: false,
            },
            seccomp: SeccompProfile::Default,
            file_mask: None,
            server_program: Some(self.program()),
            kept: None,
            private: Vec::new(),
        };
        let design = Design::new(spec, hub.ids(), Some(Place::from(lease))).expect("a design");
        (design, keeps_it_alive, says)
    }

    /// The plain bwrap that a start is held against: as many namespaces, the
    /// same system directories, the same program.
    pub(crate) fn bwrap(&self) -> Command {
        let mut command = Command::new("bwrap");
        command.args([
            "--unshare-all",
            "--die-with-parent",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]);
        for directory in ["/usr", "/bin", "/sbin", "/lib", "/lib64"] {
            if fs::exists(directory).is_ok_and(|there| there) {
                command.args(["--ro-bind", directory, directory]);
            }
        }
        command
            .arg("--ro-bind")
            .arg(self.program())
            .args(["/app/server", "--", "/app/server"])
            .stdin(Std::piped())
            .stdout(Std::piped());
        command
    }
}

/// A certificate's place: nobody here verifies anything by it.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

/// A hub for so many sandboxes.
pub(crate) fn hub(slots: u16) -> (Hub, Listeners) {
    let config = HubConfig {
        slots,
        subnet: "10.200.0.0/16".parse().expect("a subnet"),
        explicit_port: PORT,
        ids: HostIds::detect_for(slots),
    };
    Hub::start(&config).expect("a hub; gig doctor says what the host lacks")
}

/// One whole start, but for what the program says.
pub(crate) fn begin(lab: &Lab, hub: &Hub) -> (Starting, Lease, io::PipeWriter, PipeReader) {
    let lease = hub.lease().expect("a lease");
    let (design, stdin, says) = lab.design(hub, &lease);
    let starting = design.start(hub, Network::Leased(&lease)).expect("a start");
    (starting, lease, stdin, says)
}

/// Until the program's first instruction has run.
pub(crate) fn finish(begun: (Starting, Lease, io::PipeWriter, PipeReader)) -> Alive {
    let (starting, lease, stdin, mut says) = begun;
    let running = starting
        .meet()
        .and_then(gig_sandbox::Prepared::go)
        .expect("a program");
    says.read_exact(&mut [0]).expect("the program's word");
    Alive {
        running,
        lease,
        stdin,
    }
}

impl Alive {
    /// Ends it and waits until it is gone.
    pub(crate) fn end(self, hub: &Hub, runtime: &tokio::runtime::Runtime) {
        let Self {
            mut running,
            lease,
            stdin,
        } = self;
        drop(stdin);
        let status = runtime.block_on(running.wait()).expect("its end");
        assert_eq!(status.code(), 0, "the program ended otherwise");
        hub.release(lease).expect("the slot back");
    }
}
