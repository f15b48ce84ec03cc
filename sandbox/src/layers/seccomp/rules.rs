//! The calls that are answered otherwise than the kernel would, each with its reason.

/// One call and its answer.
#[derive(Debug)]
pub(super) struct Rule {
    /// Its name.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by the tests and by people")
    )]
    pub(super) name: &'static str,
    /// Its number.
    pub(super) call: i64,
    /// For which arguments.
    pub(super) when: When,
    /// What happens.
    pub(super) answer: Answer,
    /// Why.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by the tests and by people")
    )]
    pub(super) reason: &'static str,
}

/// What happens to a process that makes the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The process ends by SIGSYS: no honest program makes this call.
    Kill,
    /// As an older kernel would answer: callers have another way.
    NoSuchCall,
    /// Not permitted.
    NotPermitted,
    /// As a kernel without that protocol would answer.
    NoSuchProtocol,
    /// As a kernel without that protocol family would answer.
    NoSuchFamily,
}

/// For which arguments a rule holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// All.
    Always,
    /// One or more of the bits.
    AnyBit {
        /// Its place.
        argument: u8,
        /// The bits.
        bits: u64,
    },
    /// This value, 32 bits wide: the kernel looks at no more.
    Equals {
        /// Its place.
        argument: u8,
        /// The value.
        value: u64,
    },
    /// This value under a mask.
    MaskedEquals {
        /// Its place.
        argument: u8,
        /// The mask.
        mask: u64,
        /// The value.
        value: u64,
    },
    /// A socket of IPv4 or IPv6 with this type.
    InetOfType(u64),
    /// None of these values.
    NoneOf {
        /// Its place.
        argument: u8,
        /// The values.
        values: &'static [u64],
    },
    /// A call that makes a file (the mode counts only then) with one of the bits.
    Creates {
        /// Place of the flags.
        flags: u8,
        /// Place of the mode.
        mode: u8,
        /// The bits.
        bits: u64,
    },
}

impl Answer {
    /// All of them, in the order of loading: of two that would answer alike, the later one does.
    pub(super) const ALL: [Self; 5] = [
        Self::NoSuchProtocol,
        Self::Kill,
        Self::NoSuchCall,
        Self::NotPermitted,
        Self::NoSuchFamily,
    ];

    /// The error that the caller gets; none for the process that gets none any more.
    pub(super) const fn errno(self) -> Option<u16> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "error numbers are small and positive"
        )]
        const fn number(errno: i32) -> Option<u16> {
            Some(errno as u16)
        }
        match self {
            Self::Kill => None,
            Self::NoSuchCall => number(libc::ENOSYS),
            Self::NotPermitted => number(libc::EPERM),
            Self::NoSuchProtocol => number(libc::EPROTONOSUPPORT),
            Self::NoSuchFamily => number(libc::EAFNOSUPPORT),
        }
    }
}

/// O_CREAT, and the bit that O_TMPFILE has beyond O_DIRECTORY.
pub(super) const CREATING_FLAGS: [u64; 2] = [0o100, 0o20_000_000];

/// `CLONE_NEW*`: ns, cgroup, uts, ipc, user, pid, net, and time, whose bit is
/// clone's exit signal and means a namespace to unshare and clone3 only.
const NEW_NAMESPACES: u64 = 0x7E02_0000;
const SET_ID_BITS: u64 = 0o6000;
/// Low bits of a socket's type; the others are flags.
pub(super) const SOCKET_TYPE: u64 = 0xF;
const SOCK_RAW: u64 = 3;
const SOCK_RDM: u64 = 4;
const SOCK_SEQPACKET: u64 = 5;
const SOCK_DCCP: u64 = 6;
const SOCK_PACKET: u64 = 10;
/// AF_UNIX, AF_INET, AF_INET6.
const FAMILIES: &[u64] = &[1, 2, 10];
/// AF_INET, AF_INET6.
pub(super) const INET_FAMILIES: [u64; 2] = [2, 10];
/// The family's own, PF_UNIX (which is ICMP's number too: there are no ping sockets here), TCP, UDP.
const PROTOCOLS: &[u64] = &[0, 1, 6, 17];
const TIOCLINUX: u64 = 0x541C;
const TIOCSTI: u64 = 0x5412;
const TIOCCONS: u64 = 0x541D;
const TIOCSETD: u64 = 0x5423;
const F_SETLEASE: u64 = 1024;
const F_NOTIFY: u64 = 1026;
/// Linux 6.19.
const F_SETDELEG: u64 = 1040;
/// Ordinary Linux, and the query of what is set.
const PERSONALITIES: &[u64] = &[0, 0xFFFF_FFFF];

/// The same number on every architecture; libc has it for some only.
const FCHMODAT2: i64 = 452;
/// Linux 6.15.
const OPEN_TREE_ATTR: i64 = 467;

macro_rules! rule {
    ($answer:ident $call:ident $when:expr, $reason:literal) => {
        Rule {
            name: stringify!($call),
            call: libc::$call as i64,
            when: $when,
            answer: Answer::$answer,
            reason: $reason,
        }
    };
}

const fn typed(value: u64) -> When {
    When::MaskedEquals {
        argument: 1,
        mask: SOCKET_TYPE,
        value,
    }
}

const fn mode_of(argument: u8) -> When {
    When::AnyBit {
        argument,
        bits: SET_ID_BITS,
    }
}

const fn control(value: u64) -> When {
    When::Equals { argument: 1, value }
}

/// Every rule. On each architecture those of its calls that exist.
pub(super) const RULES: &[Rule] = &[
    // Namespaces: a new one would give capabilities over a fresh part of the kernel.
    rule!(Kill SYS_unshare When::Always, "makes namespaces: kernel surface behind capabilities"),
    rule!(Kill SYS_setns When::Always, "enters a namespace by descriptor"),
    rule!(Kill SYS_clone When::AnyBit { argument: 0, bits: NEW_NAMESPACES }, "makes namespaces"),
    rule!(NoSuchCall SYS_clone3 When::Always, "its flags are in memory; libraries fall back to clone"),
    // Mounts: the root was built for the program, not by it.
    rule!(Kill SYS_mount When::Always, "changes the constructed root"),
    rule!(Kill SYS_umount2 When::Always, "uncovers what is masked"),
    rule!(Kill SYS_pivot_root When::Always, "changes the root"),
    rule!(Kill SYS_chroot When::Always, "changes the root"),
    rule!(Kill SYS_open_tree When::Always, "clones mounts"),
    Rule {
        name: "SYS_open_tree_attr",
        call: OPEN_TREE_ATTR,
        when: When::Always,
        answer: Answer::Kill,
        reason: "clones mounts and changes their attributes",
    },
    rule!(Kill SYS_move_mount When::Always, "moves mounts"),
    rule!(Kill SYS_fsopen When::Always, "opens a file system for mounting"),
    rule!(Kill SYS_fsmount When::Always, "makes a mount"),
    rule!(Kill SYS_fsconfig When::Always, "parses mount options in the kernel"),
    rule!(Kill SYS_fspick When::Always, "changes a mounted file system"),
    rule!(Kill SYS_mount_setattr When::Always, "makes read-only mounts writable"),
    // Other processes' memory and descriptors.
    rule!(Kill SYS_ptrace When::Always, "controls other processes"),
    rule!(Kill SYS_process_vm_readv When::Always, "reads other processes' memory"),
    rule!(Kill SYS_process_vm_writev When::Always, "writes other processes' memory"),
    rule!(Kill SYS_process_madvise When::Always, "acts on other processes' memory"),
    rule!(Kill SYS_pidfd_getfd When::Always, "takes descriptors out of other processes"),
    rule!(NotPermitted SYS_kcmp When::Always, "compares kernel pointers of processes"),
    // Key rings are per user, not per sandbox.
    rule!(Kill SYS_keyctl When::Always, "reads and changes key rings that namespaces do not part"),
    rule!(Kill SYS_add_key When::Always, "adds to key rings that namespaces do not part"),
    rule!(Kill SYS_request_key When::Always, "makes the host look keys up"),
    // Large kernel surface that only the host's owner needs.
    rule!(Kill SYS_bpf When::Always, "loads programs into the kernel"),
    rule!(Kill SYS_perf_event_open When::Always, "observes processes and the kernel"),
    rule!(Kill SYS_userfaultfd When::Always, "stalls the kernel in the middle of a copy"),
    rule!(Kill SYS_open_by_handle_at When::Always, "opens files past the mount tree"),
    rule!(Kill SYS_kexec_load When::Always, "replaces the kernel"),
    rule!(Kill SYS_kexec_file_load When::Always, "replaces the kernel"),
    rule!(Kill SYS_init_module When::Always, "loads code into the kernel"),
    rule!(Kill SYS_finit_module When::Always, "loads code into the kernel"),
    rule!(Kill SYS_delete_module When::Always, "unloads code from the kernel"),
    rule!(Kill SYS_reboot When::Always, "stops the machine"),
    rule!(Kill SYS_swapon When::Always, "changes the host's swap"),
    rule!(Kill SYS_swapoff When::Always, "changes the host's swap"),
    rule!(Kill SYS_acct When::Always, "turns process accounting on or off"),
    rule!(Kill SYS_quotactl When::Always, "changes disk quotas"),
    rule!(Kill SYS_quotactl_fd When::Always, "changes disk quotas"),
    rule!(Kill SYS_fanotify_init When::Always, "watches whole file systems"),
    rule!(Kill SYS_lookup_dcookie When::Always, "profiler's view of kernel paths"),
    rule!(Kill SYS_settimeofday When::Always, "sets the host's clock"),
    rule!(Kill SYS_clock_settime When::Always, "sets the host's clock"),
    rule!(NotPermitted SYS_syslog When::Always, "reads the kernel's log, addresses and all"),
    // io_uring makes calls that no filter sees; libraries fall back when it is not there.
    rule!(NoSuchCall SYS_io_uring_setup When::Always, "its operations pass by every filter"),
    rule!(NoSuchCall SYS_io_uring_enter When::Always, "its operations pass by every filter"),
    rule!(NoSuchCall SYS_io_uring_register When::Always, "its operations pass by every filter"),
    // Execution domains switch off address randomisation and more.
    rule!(NotPermitted SYS_personality When::NoneOf { argument: 0, values: PERSONALITIES },
        "weakens address randomisation and memory protection"),
    // Sockets: what is not Unix or IP has no policy, so it is not there.
    rule!(NoSuchFamily SYS_socket When::NoneOf { argument: 0, values: FAMILIES },
        "netlink, packet, vsock and the rest reach the kernel or the host past the proxy"),
    rule!(NoSuchFamily SYS_socketpair When::NoneOf { argument: 0, values: &[1] },
        "pairs exist in the Unix family; others only reach their code"),
    rule!(NoSuchProtocol SYS_socket When::NoneOf { argument: 2, values: PROTOCOLS },
        "MPTCP, SCTP, UDP-Lite and the rest have no policy; callers fall back to TCP"),
    rule!(NoSuchProtocol SYS_socket When::InetOfType(SOCK_SEQPACKET),
        "SCTP by its type: the kernel would load its module"),
    rule!(NotPermitted SYS_socket typed(SOCK_RAW), "forges packets"),
    rule!(NotPermitted SYS_socket typed(SOCK_RDM), "unused protocol code"),
    rule!(NotPermitted SYS_socket typed(SOCK_DCCP), "unused protocol code"),
    rule!(NotPermitted SYS_socket typed(SOCK_PACKET), "forges packets"),
    // Terminals: what is typed into the shared one runs outside.
    rule!(NotPermitted SYS_ioctl control(TIOCSTI), "types into the terminal's input"),
    rule!(NotPermitted SYS_ioctl control(TIOCLINUX), "pastes into the console's input"),
    rule!(NotPermitted SYS_ioctl control(TIOCCONS), "takes the console's output"),
    rule!(NotPermitted SYS_ioctl control(TIOCSETD), "loads line disciplines: kernel modules"),
    // Leases: on a file that sandboxes share, its owner's id does too.
    rule!(NotPermitted SYS_fcntl control(F_SETLEASE), "stalls whoever opens the file, in other sandboxes too"),
    rule!(NotPermitted SYS_fcntl control(F_SETDELEG), "stalls whoever changes the directory or file"),
    rule!(NotPermitted SYS_fcntl control(F_NOTIFY), "obsolete way to watch directories; inotify is there"),
    // Files that change ids: on a writable bind they would work on the host.
    rule!(NotPermitted SYS_fchmod mode_of(1), "makes set-id files on writable binds"),
    rule!(NotPermitted SYS_fchmodat mode_of(2), "makes set-id files on writable binds"),
    Rule {
        name: "SYS_fchmodat2",
        call: FCHMODAT2,
        when: mode_of(2),
        answer: Answer::NotPermitted,
        reason: "makes set-id files on writable binds",
    },
    rule!(NotPermitted SYS_mknodat mode_of(2), "makes set-id files on writable binds"),
    rule!(NotPermitted SYS_openat When::Creates { flags: 2, mode: 3, bits: SET_ID_BITS },
        "makes set-id files on writable binds"),
    rule!(NoSuchCall SYS_openat2 When::Always, "its mode is in memory; callers fall back to openat"),
    #[cfg(target_arch = "x86_64")]
    rule!(NotPermitted SYS_chmod mode_of(1), "makes set-id files on writable binds"),
    #[cfg(target_arch = "x86_64")]
    rule!(NotPermitted SYS_creat mode_of(1), "makes set-id files on writable binds"),
    #[cfg(target_arch = "x86_64")]
    rule!(NotPermitted SYS_mknod mode_of(1), "makes set-id files on writable binds"),
    #[cfg(target_arch = "x86_64")]
    rule!(NotPermitted SYS_open When::Creates { flags: 1, mode: 2, bits: SET_ID_BITS },
        "makes set-id files on writable binds"),
    #[cfg(target_arch = "x86_64")]
    rule!(Kill SYS_iopl When::Always, "gives access to hardware ports"),
    #[cfg(target_arch = "x86_64")]
    rule!(Kill SYS_ioperm When::Always, "gives access to hardware ports"),
    #[cfg(target_arch = "x86_64")]
    rule!(NoSuchCall SYS_modify_ldt When::Always, "16-bit segments: rarely tested kernel code"),
    #[cfg(target_arch = "x86_64")]
    rule!(NoSuchCall SYS_uselib When::Always, "obsolete loader in the kernel"),
];
