//! The constructed root: what is there, what is not, what may be written.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::lab::{Test, Who, everybody, give, own_directory, run, shell};

pub(crate) const TESTS: &[Test] = &[
    (
        "root_is_read_only_and_private_directories_are_not",
        writable,
    ),
    ("fixed_isolation_wins_over_the_callers_mounts", collisions),
    (
        "a_start_writes_nothing_through_the_callers_mounts",
        written_through,
    ),
    ("host_is_not_to_be_seen", host),
    (
        "writable_bind_belongs_to_its_owner_on_the_host",
        writable_bind,
    ),
    (
        "read_only_bind_of_a_private_directory_can_be_read",
        read_only_bind,
    ),
    (
        "credential_directories_are_covered_below_a_bound_parent",
        credentials,
    ),
    ("credential_directory_itself_is_refused", credential_source),
    ("host_root_and_kernel_views_are_refused", refused),
    (
        "unix_socket_of_the_host_is_bound_by_its_own_path_alone",
        unix_socket,
    ),
    ("server_program_is_read_only_at_its_place", server),
    ("authority_is_trusted_in_every_form", authority),
    ("built_etc_says_nothing_of_the_host", etc),
    ("etc_is_shared_but_for_what_names_a_sandbox", shared_etc),
    ("what_proc_says_of_the_host_is_covered", proc_masks),
    ("real_programs_still_work", real_programs),
];

fn writable() {
    for who in everybody() {
        let out = shell(
            *who,
            &[],
            "for d in / /usr /etc /dev /home /usr/bin /proc/sys/kernel /app; do touch $d/x 2>/dev/null && echo wrote $d; done; for d in /tmp /var /var/tmp /var/lib /home/sandbox /run /dev/shm; do touch $d/x || echo no $d; done; ls -A /home/sandbox; pwd",
        );
        assert_eq!(out, "x\n/home/sandbox\n", "{who:?}");
        let again = shell(
            *who,
            &[],
            "ls -A /tmp /home/sandbox /run | grep -cx x || true",
        );
        assert_eq!(again, "0\n");
    }
}

fn collisions() {
    for who in everybody() {
        let dir = own_directory(*who);
        fs::write(dir.path().join("planted"), "").unwrap();
        let source = dir.path().to_str().unwrap();
        let binds: Vec<String> = [
            "/proc",
            "/tmp",
            "/dev",
            "/etc",
            "/proc/sys",
            "/etc/resolv.conf",
        ]
        .iter()
        .flat_map(|dest| ["--rw".to_owned(), format!("{source}:{dest}")])
        .collect();
        let binds: Vec<&str> = binds.iter().map(String::as_str).collect();
        let out = shell(
            *who,
            &binds,
            "find /proc/planted /tmp /dev /etc /proc/sys/planted -maxdepth 1 -name planted 2>/dev/null; [ -e /proc/self/status ] && [ -c /dev/null ] && cat /etc/resolv.conf",
        );
        assert!(out.starts_with("nameserver"), "{who:?}: {out}");
        let below = shell(
            *who,
            &["--rw", &format!("{source}:/tmp/below/here")],
            "ls /tmp/below/here",
        );
        assert_eq!(below, "planted\n");
    }
}

/// What gig writes into its own /etc goes neither into a bind there, nor to where a link in one leads.
fn written_through() {
    for who in everybody() {
        let dir = own_directory(*who);
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("ssl/certs")).unwrap();
        for name in ["file", "victim", "ssl/certs/ca-certificates.crt"] {
            fs::write(path(name), "own\n").unwrap();
            give(*who, &path(name));
        }
        for name in ["ssl", "ssl/certs"] {
            give(*who, &path(name));
        }
        symlink(path("victim"), path("ssl/openssl.cnf")).unwrap();
        let outside = Path::new("/oldroot").join(path("victim").strip_prefix("/").unwrap());
        symlink(outside, path("ssl/cert.pem")).unwrap();
        let untouched = || {
            for name in ["file", "victim", "ssl/certs/ca-certificates.crt"] {
                let now = fs::read_to_string(path(name)).unwrap();
                assert_eq!(now, "own\n", "{who:?} {name}");
            }
            let names = fs::read_dir(path("ssl")).unwrap().count();
            assert_eq!(names, 3, "{who:?}");
        };
        for dest in ["localtime", "os-release", "services", "new/place"] {
            let option = format!("{}:/etc/{dest}", path("file").display());
            let ended = run(
                *who,
                &["--rw", &option, "--", "cat", &format!("/etc/{dest}")],
            );
            untouched();
            assert_eq!(ended.out, "own\n", "{who:?} {dest}: {ended:?}");
        }
        for dest in ["ssl", "ssl/certs"] {
            let option = format!("{}:/etc/{dest}", path(dest).display());
            let size = "wc -c < /etc/ssl/certs/ca-certificates.crt";
            let ended = run(*who, &["--rw", &option, "--", "sh", "-c", size]);
            untouched();
            let bytes: usize = ended.out.trim().parse().unwrap();
            assert!(bytes > 1000, "{who:?} {dest}: gig's own: {ended:?}");
        }
    }
}

fn host() {
    for who in everybody() {
        let out = shell(
            *who,
            &[],
            "ls -d /sys /root /boot /mnt /srv /opt /host /oldroot /newroot 2>/dev/null; ls -A /home; cat /etc/shadow /etc/machine-id /proc/kcore /proc/keys 2>/dev/null | wc -c; ls /dev | tr '\\n' ' '",
        );
        assert!(out.starts_with("sandbox\n0\n"), "{who:?}: {out}");
        for device in ["vda", "sda", "kvm", "mem", "fuse", "loop0"] {
            assert!(!out.split_whitespace().any(|name| name == device), "{out}");
        }
    }
}

fn writable_bind() {
    for who in everybody() {
        let dir = own_directory(*who);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let option = format!("{}:/work", dir.path().display());
        shell(
            *who,
            &["--rw", &option, "--workdir", "/work"],
            "echo hello > new && cat new && chmod 4755 new 2>/dev/null; chmod 755 new",
        );
        let made = fs::metadata(dir.path().join("new")).unwrap();
        assert_eq!(
            made.uid(),
            fs::metadata(dir.path()).unwrap().uid(),
            "{who:?}"
        );
        assert_eq!(made.mode() & 0o7777, 0o755, "{who:?}: no set-id bit");
        shell(*who, &["--rw", &option], "rm /work/new");
        assert!(!dir.path().join("new").exists());
    }
}

fn read_only_bind() {
    for who in everybody() {
        let dir = own_directory(*who);
        let file = dir.path().join("file");
        fs::write(&file, "inside\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        give(*who, &file);
        let options = [
            "--ro".to_owned(),
            format!("{}:/work", dir.path().display()),
            "--ro".to_owned(),
            format!("{}:/home/sandbox/deep/er/file", file.display()),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let out = shell(
            *who,
            &options,
            "cat /work/file ~/deep/er/file; echo x > /work/file || echo refused; touch /work/new || echo refused",
        );
        assert_eq!(out, "inside\ninside\nrefused\nrefused\n", "{who:?}");
    }
}

fn home_with_keys(who: Who) -> tempfile::TempDir {
    let dir = own_directory(who);
    for name in [".ssh", ".aws", ".config/gcloud", ".kube", "project"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("key"), "SECRET").unwrap();
    }
    fs::write(dir.path().join(".git-credentials"), "SECRET").unwrap();
    fs::create_dir(dir.path().join("project/linked")).unwrap();
    fs::write(dir.path().join("project/linked/key"), "SECRET").unwrap();
    symlink("project/linked", dir.path().join(".docker")).unwrap();
    fs::write(dir.path().join("project/key"), "open").unwrap();
    dir
}

fn credentials() {
    for who in everybody() {
        let dir = home_with_keys(*who);
        for (mode, dest) in [
            ("--ro", "/work"),
            ("--rw", "/work"),
            ("--rw", "/home/sandbox"),
        ] {
            let option = format!("{}:{dest}", dir.path().display());
            let out = shell(
                *who,
                &[mode, &option],
                &format!(
                    "grep -r SECRET {dest} 2>/dev/null; cat {dest}/.git-credentials {dest}/.ssh/key 2>/dev/null; cat {dest}/project/key"
                ),
            );
            assert_eq!(out, "open", "{who:?} {mode} {dest}");
        }
    }
}

fn credential_source() {
    for who in everybody() {
        let dir = home_with_keys(*who);
        let link = dir.path().join("project/way");
        symlink(dir.path().join(".ssh"), &link).unwrap();
        for source in [dir.path().join(".ssh"), dir.path().join(".ssh/key"), link] {
            let option = format!("{}:/work", source.display());
            let ended = run(*who, &["--ro", &option, "--", "/bin/true"]);
            assert_eq!(ended.code, Some(125), "{ended:?}");
            assert!(ended.err.contains("holds credentials"), "{ended:?}");
        }
    }
}

fn refused() {
    for who in everybody() {
        for source in ["/", "/proc", "/sys", "/dev", "/no/such/path"] {
            let ended = run(
                *who,
                &["--ro", &format!("{source}:/work"), "--", "/bin/true"],
            );
            assert_eq!(ended.code, Some(125), "{ended:?}");
            assert!(ended.err.contains("cannot be shown"), "{ended:?}");
        }
        let own = own_directory(*who);
        let path = own.path().to_str().unwrap();
        let ended = run(*who, &["--private", path, "--rw", path, "--", "/bin/true"]);
        assert!(ended.err.contains("gig's own"), "{ended:?}");
    }
}

fn unix_socket() {
    for who in everybody() {
        let dir = own_directory(*who);
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        give(*who, &path);
        let answer = std::thread::spawn(move || {
            use std::io::Write as _;
            listener
                .accept()
                .unwrap()
                .0
                .write_all(b"from the host")
                .unwrap();
        });
        let folder = format!("{}:/run/db", dir.path().display());
        let option = format!("{}:/run/db/socket", path.display());
        let script = "import socket; s=socket.socket(socket.AF_UNIX); s.connect('/run/db/socket'); print(s.recv(99).decode())";
        let ask = ["--", "/usr/bin/python3", "-c", script];
        // The folder that it lies in shows it to nobody, also where it is moved or removed first.
        for (how, first) in [
            ("--ro", ""),
            ("--rw", "os.rename('/run/db/socket', '/run/db/other')"),
            ("--rw", "os.unlink('/run/db/socket')"),
        ] {
            let script = format!("import os\ntry: {first}\nexcept OSError: pass\n{script}");
            let script = if first.is_empty() { ask[3] } else { &script };
            let ended = run(
                *who,
                &[how, &folder, "--", "/usr/bin/python3", "-c", script],
            );
            assert_ne!(ended.code, Some(0), "{ended:?}");
            assert!(!ended.out.contains("from the host"), "{ended:?}");
        }
        assert!(path.exists());
        let ended = run(
            *who,
            &[&["--ro", &folder, "--rw", &option][..], &ask].concat(),
        );
        assert_eq!(ended.out, "from the host\n", "{ended:?}");
        answer.join().unwrap();
    }
}

fn server() {
    for who in everybody() {
        let dir = own_directory(*who);
        let program = dir.path().join("server");
        fs::write(
            &program,
            "#!/bin/sh\necho served by $0; touch $0 || echo fixed\n",
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o555)).unwrap();
        give(*who, &program);
        let ended = run(
            *who,
            &["--server", program.to_str().unwrap(), "--", "/app/server"],
        );
        assert_eq!(
            ended.out, "served by /app/server\nfixed\n",
            "{who:?}: {ended:?}"
        );
    }
}

fn authority() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=gig test",
            "-keyout",
        ])
        .arg(dir.path().join("key"))
        .arg("-out")
        .arg(dir.path().join("ca.pem"))
        .output()
        .unwrap();
    assert!(made.status.success());
    let ca = dir.path().join("ca.pem");
    let body = fs::read_to_string(&ca).unwrap();
    let line = body.lines().nth(3).unwrap();
    for who in everybody() {
        let script = format!(
            "for f in $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS $CURL_CA_BUNDLE $npm_config_cafile /etc/gig-ca.pem /etc/gigmcp-ca.pem /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do grep -cF '{line}' $f; done"
        );
        let out = shell(*who, &["--ca", ca.to_str().unwrap()], &script);
        assert_eq!(out, "1\n".repeat(9), "{who:?}");
        if Path::new("/usr/bin/keytool").exists() {
            let out = shell(
                *who,
                &["--ca", ca.to_str().unwrap()],
                "keytool -list -v -keystore /etc/ssl/certs/java/cacerts -storepass changeit 2>&1 | grep -c 'Owner: CN=gig test'",
            );
            assert_eq!(out, "1\n");
        }
    }
}

fn etc() {
    for who in everybody() {
        let out = shell(
            *who,
            &[],
            "cat /etc/passwd /etc/group /etc/hosts /etc/hostname /etc/nsswitch.conf; ls /etc; id -un; hostname",
        );
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(!out.lines().any(|line| line == host.trim()), "{out}");
        for name in [
            "shadow",
            "sudoers",
            "ssh",
            "fstab",
            "cron.d",
            "gitconfig",
            "machine-id",
            // Where proxies with their passwords, and tokens, are set for everybody.
            "profile",
            "profile.d",
            "bash.bashrc",
            "environment",
        ] {
            assert!(!out.lines().any(|line| line == name), "{name}: {out}");
        }
        assert!(out.ends_with("sandbox\nsandbox\n"), "{out}");
        assert!(!out.contains("daemon:"));
    }
}

/// With and without a mount that needs a root of the sandbox's own: the same /etc.
fn shared_etc() {
    const LOOK: &str = "cat /etc/resolv.conf /etc/hosts; cd /etc; \
         find -L . -type f -readable ! -name mtab | sort | xargs sha256sum | sha256sum; \
         for f in $(find . -type f) resolv.conf hosts passwd; do { echo x > $f; } 2>/dev/null && echo wrote $f; done; \
         { rm -f resolv.conf || ln -sf /tmp hosts || touch /dev/sandbox/new || chmod 777 /etc; } 2>/dev/null && echo changed; \
         [ -r ld.so.cache ] && [ -r ssl/certs/ca-certificates.crt ] && echo whole";
    for who in everybody() {
        let dir = own_directory(*who);
        let option = format!("{}:/a/place/of/its/own", dir.path().display());
        let shared = shell(*who, &[], LOOK);
        let own = shell(*who, &["--ro", &option], LOOK);
        assert!(
            shared.starts_with("nameserver 10.200."),
            "{who:?}: {shared}"
        );
        assert!(shared.ends_with("whole\n"), "{who:?}: {shared}");
        assert_eq!(shared, own, "{who:?}");
        assert!(
            !shared.contains("wrote") && !shared.contains("changed"),
            "{shared}"
        );
    }
}

fn proc_masks() {
    for who in everybody() {
        for more in [&[][..], &["--ro", "/usr/share:/a/place/of/its/own"][..]] {
            let out = shell(
                *who,
                more,
                "cd /proc; for f in cmdline interrupts kcore keys key-users kallsyms latency_stats sched_debug timer_list timer_stats; do \
                 [ ! -e $f ] || { cat $f >/dev/null; } 2>/dev/null && [ -e $f ] && echo read $f; \
                 { echo > $f; } 2>/dev/null && echo wrote $f; done; \
                 for d in acpi asound scsi; do ls -A $d 2>/dev/null; { echo > $d/new; } 2>/dev/null && echo wrote $d; done; \
                 head -c 4 meminfo; grep -c MHz cpuinfo >/dev/null && echo; wc -l < self/status | tr -d '[0-9]'",
            );
            assert_eq!(out, "MemT\n\n", "{who:?} {more:?}");
        }
    }
}

fn real_programs() {
    let programs: [(&str, &str); 7] = [
        ("/bin/bash", "echo $((6*7))"),
        (
            "/usr/bin/python3",
            "python3 -c 'import ssl,threading,subprocess; t=threading.Thread(target=print,args=(42,)); t.start(); t.join()'",
        ),
        (
            "/usr/bin/node",
            "node -e 'require(\"child_process\").exec(\"echo 42\",(e,o)=>process.stdout.write(o))'",
        ),
        ("/usr/bin/npm", "npm --version >/dev/null && echo 42"),
        (
            "/usr/bin/git",
            "cd /tmp && git init -q r && cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m 42 && git log --format=%s",
        ),
        (
            "/usr/bin/go",
            "cd /tmp && printf 'package main\\nfunc main(){go func(){}();println(42)}' > a.go && go run a.go 2>&1",
        ),
        (
            "/usr/bin/java",
            "cd /tmp && printf 'class A{public static void main(String[] a){new Thread(()->System.out.println(42)).start();}}' > A.java && java A.java",
        ),
    ];
    for who in everybody() {
        for profile in [&[][..], &["--strict"][..]] {
            for (path, script) in programs {
                if Path::new(path).exists() {
                    let out = shell(*who, profile, script);
                    assert_eq!(out, "42\n", "{who:?} {profile:?} {script}");
                }
            }
        }
    }
}
