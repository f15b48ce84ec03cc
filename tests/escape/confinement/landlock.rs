//! Landlock beneath the namespaces, seen by what it alone refuses.
//!
//! The kernel itself is asked how much of it there is: what gig says of it is no witness.

use std::process::Command;

use gig_tests::lab::{Lab, skipped};

/// The kernel's ABI of Landlock; below 1 where it has none or it is turned off.
fn abi() -> i32 {
    // The number of `landlock_create_ruleset`, which is the same everywhere, and its flag that asks for the version.
    let ask = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))";
    let output = Command::new("/usr/bin/python3").args(["-c", ask]).output();
    let output = output.expect("python");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.trim().parse().expect("a number")
}

/// The kernel lets anybody make the device 0:0, which marks what overlays hide; without Landlock it would be made.
#[test]
fn no_device_is_made_not_even_one_that_needs_no_capability() {
    if abi() < 2 {
        return skipped("the kernel has no Landlock ABI 2: nothing refuses the device 0:0");
    }
    let lab = Lab::new();
    let run = lab.gig().python(
        "import os, stat\n\
         os.mknod('/tmp/fifo', 0o600 | stat.S_IFIFO)\n\
         for kind in stat.S_IFCHR, stat.S_IFBLK:\n\
         \x20try: os.mknod('/tmp/device', 0o600 | kind, os.makedev(0, 0)); print('MADE')\n\
         \x20except OSError as e: print('refused', e.errno)",
    );
    // EACCES is Landlock's; a capability that is missing is EPERM, which a block device would meet later.
    assert_eq!(
        run.clone().success().text(),
        "refused 13\nrefused 13\n",
        "{run}"
    );
}

/// The first process of the sandbox has the program's own user: nothing but the scope stands between them.
#[test]
fn the_first_process_of_the_sandbox_takes_no_signal_of_the_program() {
    if abi() < 6 {
        return skipped("the kernel has no Landlock ABI 6: nothing keeps signals from process 1");
    }
    let lab = Lab::new();
    let run = lab.gig().python(
        "import os, time\n\
         ids = lambda of: [l.split()[1:] for l in open(f'/proc/{of}/status') if l.startswith('Uid:')]\n\
         print('same user', ids(1) == ids('self'))\n\
         child = os.fork()\n\
         if child == 0: time.sleep(60); os._exit(0)\n\
         for name, pid in ('its own', child), ('the first', 1):\n\
         \x20try: os.kill(pid, 0); print(name, 'takes it')\n\
         \x20except OSError as e: print(name, e.errno)\n\
         os.kill(child, 9)",
    );
    let said = "same user True\nits own takes it\nthe first 1\n";
    assert_eq!(run.clone().success().text(), said, "{run}");
}
