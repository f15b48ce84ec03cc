//! One probe for each system call that no sandboxed program may make.

use super::{answered, probe};

/// The filter ends the process (SIGSYS is 31).
fn killed(call: &str) {
    let run = probe(&["call", call]);
    assert!(run.text().contains("killed by signal 31"), "{call}: {run}");
}

macro_rules! calls {
    ($check:ident: $($test:ident = $call:literal),+ $(,)?) => {$(
        #[test]
        fn $test() {
            $check($call);
        }
    )+};
}

calls! { killed:
    unshare_kills = "unshare",
    setns_kills = "setns",
    clone_with_a_new_mount_namespace_kills = "CLONE_NEWNS",
    clone_with_a_new_cgroup_namespace_kills = "CLONE_NEWCGROUP",
    clone_with_a_new_uts_namespace_kills = "CLONE_NEWUTS",
    clone_with_a_new_ipc_namespace_kills = "CLONE_NEWIPC",
    clone_with_a_new_user_namespace_kills = "CLONE_NEWUSER",
    clone_with_a_new_pid_namespace_kills = "CLONE_NEWPID",
    clone_with_a_new_network_namespace_kills = "CLONE_NEWNET",
    mount_kills = "mount",
    umount2_kills = "umount2",
    pivot_root_kills = "pivot_root",
    chroot_kills = "chroot",
    open_tree_kills = "open_tree",
    open_tree_attr_kills = "open_tree_attr",
    move_mount_kills = "move_mount",
    fsopen_kills = "fsopen",
    mount_setattr_kills = "mount_setattr",
    ptrace_kills = "ptrace",
    process_vm_readv_kills = "process_vm_readv",
    process_vm_writev_kills = "process_vm_writev",
    keyctl_kills = "keyctl",
    add_key_kills = "add_key",
    request_key_kills = "request_key",
    bpf_kills = "bpf",
    perf_event_open_kills = "perf_event_open",
    kexec_load_kills = "kexec_load",
    init_module_kills = "init_module",
    finit_module_kills = "finit_module",
    delete_module_kills = "delete_module",
    fsconfig_kills = "fsconfig",
    fsmount_kills = "fsmount",
    fspick_kills = "fspick",
    kexec_file_load_kills = "kexec_file_load",
    userfaultfd_kills = "userfaultfd",
    open_by_handle_at_kills = "open_by_handle_at",
    pidfd_getfd_kills = "pidfd_getfd",
    process_madvise_kills = "process_madvise",
}

/// Answered as an older kernel would (ENOSYS), so that libraries fall back.
fn unknown(call: &str) {
    answered(&["call", call], 38);
}

calls! { unknown:
    io_uring_setup_is_unknown = "io_uring_setup",
    io_uring_enter_is_unknown = "io_uring_enter",
    io_uring_register_is_unknown = "io_uring_register",
    clone3_is_unknown_so_that_threads_fall_back = "clone3",
}

/// EPERM, which a kernel without the filter does not answer here.
fn not_permitted(call: &str) {
    answered(&["call", call], 1);
}

calls! { not_permitted:
    personality_is_refused = "personality",
}

/// Its numbers mean other calls than those of the tables.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_the_x32_interface_kill() {
    killed("x32_getpid");
}

#[test]
fn pushing_characters_into_a_terminal_is_refused() {
    answered(&["ioctl", "5412"], 1);
}

#[test]
fn pasting_a_selection_into_a_console_is_refused() {
    answered(&["ioctl", "541C"], 1);
}

#[test]
fn filter_is_inherited_over_exec() {
    let lab = gig_tests::lab::Lab::new();
    let run = lab.gig().sh("sh -c 'unshare -U true'; echo status $?");
    assert!(run.text().contains("status 159"), "SIGSYS is wanted: {run}");
}
