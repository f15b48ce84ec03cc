//! What a program finds inside: variables, folders, /etc, the authority.

use std::{
    fs,
    io::Write as _,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
    time::Duration,
};

use gig_tests::lab::{Lab, network::text, place::User};

#[test]
fn nothing_of_the_callers_environment_is_inherited() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .host_env("CALLERS", "value")
        .run(["env"])
        .success();
    assert!(!run.text().contains("CALLERS"), "{run}");
    for name in [
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "GIG_SANDBOX_ID",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "https_proxy",
        "http_proxy",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "PIP_CERT",
        "AWS_CA_BUNDLE",
        "DENO_CERT",
        "CARGO_HTTP_CAINFO",
        "npm_config_cafile",
    ] {
        assert!(
            run.text()
                .lines()
                .any(|line| line.starts_with(&format!("{name}="))),
            "{name}: {run}"
        );
    }
    let proxy = run
        .text()
        .lines()
        .find_map(|line| line.strip_prefix("HTTPS_PROXY=").map(str::to_owned));
    let proxy = proxy.unwrap_or_default();
    assert!(
        proxy.starts_with("http://10.200.") && proxy.ends_with(":8081"),
        "{proxy}"
    );
}

#[test]
fn variables_are_set_and_passed_as_asked() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .host_env("PASSED", "through")
        .option(["--env", "PASSED"]);
    let run = run.env("SET", "a=b c").run(["env"]).success();
    let _run = run.says("PASSED=through\n").says("SET=a=b c\n");
}

#[test]
fn etc_is_built_not_the_hosts() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .sh("ls /etc; cat /etc/resolv.conf /etc/hosts /etc/passwd /etc/group /etc/nsswitch.conf")
        .success();
    assert!(
        !run.text()
            .lines()
            .any(|line| line.starts_with("shadow") && !line.contains(':')),
        "{run}"
    );
    assert!(
        !run.text().contains("postgres"),
        "the host's accounts are not told: {run}"
    );
    let _run = run
        .says("nameserver 10.200.")
        .says("localhost")
        .says("65534");
}

#[test]
fn the_authority_is_where_every_program_looks() {
    let lab = Lab::new();
    let run = lab.gig().sh(
        "openssl x509 -in /etc/gig-ca.pem -noout -subject && cmp /etc/gig-ca.pem /etc/gigmcp-ca.pem && \
         for f in $SSL_CERT_FILE $REQUESTS_CA_BUNDLE $CURL_CA_BUNDLE /etc/ssl/certs/ca-certificates.crt; do \
         python3 - $f <<'P'\nimport sys\n\
         own = open('/etc/gig-ca.pem').read().strip()\n\
         print('trusted' if own in open(sys.argv[1]).read() else 'MISSING', sys.argv[1])\nP\ndone",
    );
    let run = run.success();
    assert!(!run.text().contains("MISSING"), "{run}");
    let trusted = run.text().matches("trusted /").count();
    assert_eq!(trusted, 4, "three variables and the system's place: {run}");
}

#[test]
fn the_authority_is_another_one_each_time() {
    let lab = Lab::new();
    let first = lab.gig().run(["cat", "/etc/gig-ca.pem"]).success();
    let second = lab.gig().run(["cat", "/etc/gig-ca.pem"]).success();
    assert_ne!(first.text(), second.text());
    assert!(!first.text().contains("PRIVATE"), "{first}");
}

#[test]
fn tmp_and_home_are_private_and_empty() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .sh("ls -A /tmp; ls -A $HOME; echo x > /tmp/x && echo x > $HOME/x && echo both")
        .success();
    assert_eq!(run.text(), "both\n", "{run}");
    let run = lab.gig().sh("ls -A /tmp; ls -A $HOME").success();
    assert_eq!(run.text(), "", "nothing persists: {run}");
}

#[test]
fn binds_appear_where_they_are_asked_for() {
    let lab = Lab::new();
    let data = lab.folder("data");
    fs::write(data.join("file"), "content").expect("write");
    let option = format!("{}:/srv/data", text(&data));
    let run = lab
        .gig()
        .option(["--rw", &option, "--workdir", "/srv/data"]);
    let run = run.sh("pwd; cat file; echo new > made-inside").success();
    let _run = run.says("/srv/data\ncontent");
    assert_eq!(
        fs::read_to_string(data.join("made-inside")).expect("read"),
        "new\n"
    );
}

/// A root with a shell in it.
fn make_root(root: &Path) {
    let busybox = "set -e; cd \"$0\"; mkdir -p bin lib lib64 usr etc/ssl/certs tmp; cp /bin/sh bin/; \
        ldd /bin/sh | grep -o '/[^ ]*' | while read f; do mkdir -p .$(dirname $f); cp $f .$f; done; \
        echo marker > marker";
    let made = Command::new("sh")
        .args(["-c", busybox, &text(root)])
        .status();
    assert!(made.expect("a shell").success());
}

#[test]
fn a_root_file_system_of_ones_own_is_used() {
    let lab = Lab::new();
    let root = lab.folder("rootfs");
    make_root(&root);
    // As many as a whole distribution has, and more.
    for below in ["etc", "var/lib"] {
        fs::create_dir_all(root.join(below)).expect("a folder");
        for number in 0..150 {
            fs::write(root.join(below).join(format!("{number}.conf")), "x").expect("a file");
        }
    }
    let run = lab.gig().option(["--rootfs", &text(&root)]);
    let run = run.run([
        "/bin/sh",
        "-c",
        "read x < /marker; echo $x; (: > /planted) 2>/dev/null && echo WROTE; [ -e /usr/bin/env ] || echo own; \
         set -- /etc/[0-9]*.conf; echo $# files",
    ]);
    let run = run.says("marker").says("own").says("150 files");
    assert!(
        !run.text().contains("WROTE"),
        "the root is read-only: {run}"
    );
}

/// Whoever made it chose its links, and gig may read what they lead to.
#[test]
fn a_root_that_others_made_shows_nothing_of_the_host() {
    let lab = Lab::new();
    let (root, home) = (lab.folder("rootfs"), lab.folder("home"));
    make_root(&root);
    let key = home.join("key");
    fs::write(&key, "SECRET\n").expect("write");
    let owner = fs::metadata(&home).expect("the home");
    chown(&key, Some(owner.uid()), Some(owner.gid())).expect("give it away");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("close it");
    for link in [
        "etc/ssl/certs/ca-certificates.crt",
        "etc/ssl/openssl.cnf",
        "etc/own",
    ] {
        symlink(&key, root.join(link)).expect("a link");
    }
    fs::create_dir(root.join(".ssh")).expect("a folder");
    fs::write(root.join(".ssh/id"), "SECRET\n").expect("write");
    let script = "for f in /etc/ssl/certs/ca-certificates.crt /etc/ssl/openssl.cnf /etc/own /.ssh/id; do \
        while read -r line; do echo $line; done < $f; done 2>/dev/null; echo done";
    let run = lab.gig().option(["--rootfs", &text(&root)]);
    let run = run.run(["/bin/sh", "-c", script]).says("done");
    assert!(!run.text().contains("SECRET"), "{run}");
}

#[test]
fn a_home_is_refused_as_a_root() {
    let lab = Lab::new();
    fs::create_dir_all(lab.home().join("bin")).expect("a folder");
    let run = lab.gig().option(["--rootfs", &text(&lab.home())]);
    let _run = run.run(["true"]).exits(125).complains("somebody's home");
}

/// Neither the memory in which the kernel gave it to gig nor what gig gives to those that it starts.
#[test]
fn no_environment_of_a_running_gig_shows_a_secret() {
    const VALUE: &str = "real-value-7Qx2mZ0pLr";
    let key = "5f".repeat(32);
    let lab = Lab::new();
    let nobody = User {
        uid: 65534,
        gid: 65534,
    };
    let mut users = vec![User::of_this_process()];
    if users[0].uid == 0 {
        users.push(nobody);
    }
    for user in users {
        let subject = lab
            .gig()
            .recording_to("-".as_ref())
            .user(user)
            .host_env("TOKEN", VALUE)
            .host_env("GIG_MASTER_KEY", &key)
            .host_env("GIG_TOKEN", VALUE)
            .host_env("OTHER", "is as it was");
        let mut live = subject
            .option(["--secret", "TOKEN@api.example.com", "--env", "OTHER"])
            .start(["sh", "-c", "echo up $TOKEN $OTHER; read go"]);
        live.wait_for("up");
        let said = live.output_so_far();
        assert!(said.contains("up gigph-"), "{said}");
        assert!(said.contains("is as it was"), "{said}");
        let (processes, _) = super::death::family(&lab, live.pid());
        for pid in processes.keys() {
            // Another process of the same user, and whoever runs the tests.
            let mut reader = Command::new("cat");
            reader.arg(format!("/proc/{pid}/environ"));
            let own = fs::read(format!("/proc/{pid}/environ"));
            if user == nobody {
                reader.uid(user.uid).gid(user.gid);
            }
            let theirs = reader.output().expect("cat");
            if user != nobody && user.uid == 0 && *pid == live.pid() {
                // Root may look: what it sees is gig's environment.
                let read = own.as_deref().expect("gig's environment");
                let read = String::from_utf8_lossy(read).into_owned();
                assert!(read.contains("OTHER=is as it was"), "{read}");
                assert!(read.contains("GIG_MASTER_KEY=\0"), "{read}");
            }
            if user.uid != 0 && *pid == live.pid() {
                assert_eq!(theirs.stdout, b"", "gig is closed to its own user");
                let why = String::from_utf8_lossy(&theirs.stderr).into_owned();
                assert!(why.contains("Permission denied"), "{why}");
            }
            for read in [theirs.stdout, own.unwrap_or_default()] {
                let read = String::from_utf8_lossy(&read).into_owned();
                assert!(
                    !read.contains(VALUE) && !read.contains(&key),
                    "{pid}: {read}"
                );
            }
        }
        let go = live.stdin().expect("its input").write_all(b"go\n");
        go.expect("tell it to end");
        let _run = live.finish(Duration::from_secs(20)).success();
    }
}

#[test]
fn a_folder_of_ones_own_may_be_the_programs_home() {
    let lab = Lab::new();
    let folder = lab.folder("as-home");
    fs::write(folder.join("notes"), "of the host").expect("write");
    for option in ["--ro", "--rw"] {
        for place in ["/home/sandbox", "/var/cache"] {
            let shown = format!("{}:{place}", text(&folder));
            let script = format!("cat {place}/notes; [ {option} = --ro ] || echo x >{place}/made");
            let run = lab.gig().option([option, &shown]).sh(&script);
            let _run = run.success().says("of the host");
        }
    }
    assert!(folder.join("made").exists());
}

#[test]
fn its_own_name_has_an_address_with_and_without_a_network() {
    let lab = Lab::new();
    let script = "import socket; print(socket.gethostbyname(socket.gethostname()))";
    let run = lab
        .gig()
        .option(["--network", "disconnected"])
        .python(script);
    assert_eq!(run.success().text(), "127.0.1.1\n");
    let _run = lab.gig().python(script).success().says("10.200.");
}

/// What a person types first: nothing of the folder that they are in is shown.
#[test]
fn a_program_that_is_named_by_a_path_and_not_shown_is_told_with_what_shows_it() {
    let lab = Lab::new();
    let tool = lab.file("tool", "#!/bin/sh\necho it runs\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("make it a program");
    let cure = format!("--ro '{}'", text(&tool));
    let _run = lab.gig().run([text(&tool)]).exits(127).complains(&cure);
    let run = lab.gig().option(["--ro", &text(&tool)]);
    let _run = run.run([text(&tool)]).success().says("it runs");
}

/// git and npm fail on what is covered without a word of why.
#[test]
fn what_is_covered_of_a_project_is_told_at_the_start() {
    let lab = Lab::new();
    let project = lab.folder("project");
    fs::write(project.join(".npmrc"), "save-exact=true\n").expect("write");
    let shown = format!("{}:/w", text(&project));
    let run = lab.gig().option(["--rw", &shown]).sh("cat /w/.npmrc");
    let _run = run
        .complains("the program does not see")
        .complains(".npmrc");
    let quiet = lab
        .gig()
        .option(["--quiet"])
        .option(["--rw", &shown])
        .sh("true");
    assert_eq!(quiet.success().error_text(), "");
}

/// What opens the vault is given to no program, whatever it is called.
#[test]
fn the_vaults_key_enters_no_sandbox() {
    let lab = Lab::new();
    let key = "7a".repeat(32);
    let as_another = format!("MINE=x{}", key.to_uppercase());
    for (option, name) in [("GIG_MASTER_KEY", "GIG_MASTER_KEY"), (&*as_another, "MINE")] {
        let subject = lab.gig().host_env("GIG_MASTER_KEY", &key);
        let run = subject.option(["--env", option]).run(["env"]);
        let told = format!("--env {name}: it holds the vault's own key (GIG_MASTER_KEY)");
        let _run = run.exits(125).complains(&told);
    }
    // By a file it is the same.
    let file = lab.folder("key").join("master");
    fs::write(&file, format!("{key}\n")).expect("write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");
    let user = User::of_this_run();
    chown(&file, Some(user.uid), Some(user.gid)).expect("chown");
    let subject = lab.gig().host_env("GIG_MASTER_KEY_FILE", &text(&file));
    let run = subject.option(["--env", &as_another]).run(["env"]);
    let told = format!("the vault's own key ({})", text(&file));
    let _run = run.exits(125).complains(&told);
}
