//! What the host shows a second time: by a mount of its own, by another name, by a pipe with one.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{
    Lab,
    network::{Side, text},
};

const KEY: &str = "PRIVATE-KEY";

#[test]
fn credentials_are_hidden_whatever_mount_leads_to_them() {
    let lab = Lab::new();
    let home = lab.home();
    fs::create_dir_all(home.join(".ssh")).expect("make a folder");
    fs::write(home.join(".ssh/id_rsa"), KEY).expect("write a key");
    let around = home.with_file_name("around");
    let second = around.join("vol/second");
    fs::create_dir_all(&second).expect("make a folder");
    lab.network.run(
        Side::Host,
        &format!("mount --bind {} {}", text(&home), text(&second)),
    );
    for (mode, shown) in [("--ro", &around), ("--rw", &around), ("--ro", &second)] {
        let bind = format!("{}:/shown", text(shown));
        let run = lab
            .gig()
            .option([mode, &bind])
            .sh("find /shown -name 'id_*' -exec cat {} + 2>&1; echo looked");
        assert!(!run.text().contains(KEY), "{mode} {run}");
        let _all = run.says("looked");
    }
}

#[test]
fn the_record_is_out_of_reach_whatever_mount_leads_to_it() {
    let lab = Lab::new();
    let folder = lab.home().join("work");
    let second = lab.home().join("second");
    for made in [&folder, &second] {
        fs::create_dir_all(made).expect("make a folder");
        let user = lab.user();
        std::os::unix::fs::chown(made, Some(user.uid), Some(user.gid)).expect("give it away");
    }
    lab.network.run(
        Side::Host,
        &format!("mount --bind {} {}", text(&folder), text(&second)),
    );
    let bind = format!("{}:/shown", text(&second));
    let run = lab
        .gig()
        .option(["--rw", &bind])
        .recording_to(&folder.join("audit"))
        .sh("echo WRITABLE > /shown/other && cat /shown/other; \
             : > /shown/audit; echo FORGED > /shown/audit; rm -f /shown/audit; true");
    // What stands beside it is the program's to write: it is the record that is not.
    let run = run.says("WRITABLE");
    let begun = run.audit.of(gig_audit::Event::SandboxStart).count();
    assert_eq!(begun, 1, "{run}");
}

#[test]
fn a_pipe_with_a_name_takes_nothing_where_it_is_shown_to_be_read() {
    let lab = Lab::new();
    let folder = lab.home().join("work");
    fs::create_dir_all(&folder).expect("make a folder");
    let (fifo, got) = (text(&folder.join("fifo")), text(&folder.join("got")));
    lab.network.run(
        Side::Host,
        &format!(
            "mkfifo -m 666 {fifo} && \
             (timeout 100 sh -c 'while :; do cat {fifo}; done' >{got} 2>/dev/null </dev/null &)"
        ),
    );
    let bind = format!("{}:/shown", text(&folder));
    let run = lab
        .gig()
        .option(["--ro", &bind])
        .sh("timeout 2 sh -c 'echo leaked >/shown/fifo'; echo tried");
    let _all = run.says("tried");
    // Whoever reads it is there, and takes what the host writes.
    let write = format!("timeout 20 sh -c 'echo by the host >{fifo}'");
    lab.network.run(Side::Host, &write);
    let begun = Instant::now();
    loop {
        let taken = fs::read_to_string(&got).expect("what was taken");
        assert!(!taken.contains("leaked"), "{taken}");
        if taken.contains("by the host") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{taken}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A chroot's /proc, the host's /dev/shm by another name: known by what they are, and covered, or refused where they
/// cannot be.
#[test]
fn views_into_the_kernel_are_hidden_wherever_they_are_mounted() {
    let lab = Lab::new();
    let (around, memory) = (lab.folder("around"), lab.folder("memory"));
    let mount = |words: &str, place: &Path| {
        fs::create_dir_all(place).expect("make a folder");
        fs::write(place.with_file_name("notes"), "an ordinary file\n").expect("write a file");
        lab.network
            .run(Side::Host, &format!("mount {words} {}", text(place)));
    };
    mount("-t proc proc", &around.join("proc"));
    mount("--bind /dev/shm", &memory.join("shm"));
    let look = "cat /t/notes; ls -A /t/proc /t/shm 2>/dev/null | grep -v :; cat /t/proc/1/comm /t/proc/net/dev 2>/dev/null; \
                echo x 2>/dev/null >/t/shm/by-gig; echo looked";
    for option in ["--ro", "--rw"] {
        let run = lab
            .gig()
            .option([option, &format!("{}:/t", text(&memory))])
            .sh(look);
        assert_eq!(run.text(), "an ordinary file\nlooked\n", "{option}: {run}");
        let run = lab
            .gig()
            .option([option, &format!("{}:/t", text(&around))])
            .sh(look);
        if lab.user().is_root() {
            // Ids of its own cannot be given such a file system, whatever covers it.
            let _refused = run.exits(125).complains("maps no ids");
            continue;
        }
        assert_eq!(run.text(), "an ordinary file\nlooked\n", "{option}: {run}");
    }
    lab.network.run(Side::Host, "test ! -e /dev/shm/by-gig");
    for view in [
        around.join("proc"),
        around.join("proc/self/net"),
        memory.join("shm"),
    ] {
        let run = lab
            .gig()
            .option(["--ro", &format!("{}:/t", text(&view))])
            .sh(look);
        let _refused = run.exits(125).complains("it would show the host");
    }
}
