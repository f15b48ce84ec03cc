//! Servers whose files come from an image or a folder: brought by the owner, named by their content, asked
//! again at each start.

use std::{
    fs, net::TcpListener, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command,
};

use gig_tests::lab::registry::{BuiltImage, Made, layer, on};
use serde_json::{Value, json};

use super::{Appliance, Ask};

/// What is kept for a server.
fn kept(appliance: &Appliance, server: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(appliance.path("servers"))
        .into_iter()
        .flatten()
        .flatten();
    let of = format!("{server}@sha256-");
    let paths = listed.map(|entry| entry.path());
    let named = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&of))
    };
    paths.filter(named).collect()
}

fn printed(appliance: &Appliance, server: &str) -> String {
    let sandbox = appliance.run(server);
    appliance.until("it has ended", |one| one.ended(&sandbox).is_some());
    appliance.gig(&["logs", &sandbox], "").output
}

/// How it was called, and whether it could write to itself.
const TELL: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
int main(int argc, char **argv) {
    int fd = open(argv[0], O_WRONLY);
    printf("%s %s %s %s\n", argv[0], argv[1], getenv("LIKES"), fd < 0 ? "fixed" : "wrote");
    return 0;
}
"#;

fn busybox() -> Vec<u8> {
    fs::read("/bin/busybox").expect("busybox-static")
}

/// Changed on the disk, nothing of it runs; mended, it does.
fn refused_when_changed(appliance: &Appliance, server: &str, file: &PathBuf) {
    let whole = fs::read(file).expect("a file that is kept");
    let mode = fs::metadata(file).expect("its mode").permissions();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("open it");
    let mut other = whole.clone();
    other[0] ^= 1;
    fs::write(file, other).expect("change it");
    fs::set_permissions(file, mode.clone()).expect("close it");
    let refused = appliance.gig(&["server", "start", server], "");
    assert_eq!(refused.status, 125, "{refused:?}");
    assert!(
        refused.errors.contains("not what was registered"),
        "{refused:?}"
    );
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("open it");
    fs::write(file, whole).expect("mend it");
    fs::set_permissions(file, mode).expect("close it");
    assert!(!printed(appliance, server).is_empty());
}

/// A script with its interpreter, and what it reads.
fn tool() -> BuiltImage {
    let busybox = busybox();
    let script =
        b"#!/bin/sh\necho here is $0 with $* and $LIKES in $(pwd)\ncat data\necho x > data\n";
    let files = layer(&[
        ("bin/busybox", Made::File(&busybox)),
        ("bin/sh", Made::Link("busybox")),
        ("bin/cat", Made::Link("busybox")),
        ("srv/tool/run", Made::File(script)),
        ("srv/tool/data", Made::File(b"of the image\n")),
    ]);
    let run = json!({"Entrypoint": ["/srv/tool/run"], "Cmd": ["--fast"], "WorkingDir": "/srv/tool",
        "Env": ["LIKES=tea", "PATH=/bin"]});
    BuiltImage::of(&[files], &run)
}

#[test]
fn a_server_of_an_image_runs_what_was_registered_and_nothing_else() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let image = tool();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("its address");
    let _registry = on(listener, &image);
    let name = format!("{at}/tool@{}", image.manifest());
    let tagged = appliance.gig(
        &[
            "server",
            "add",
            "tool",
            "--image",
            &format!("{at}/tool:latest"),
        ],
        "",
    );
    assert!(
        tagged.status == 125 && tagged.errors.contains("digest"),
        "{tagged:?}"
    );
    let added = appliance.gig(&["server", "add", "tool", "--image", &name], "");
    assert_eq!(added.status, 0, "{added:?}");
    let said = printed(&appliance, "tool");
    assert!(
        said.starts_with("here is /srv/tool/run with --fast and tea in /srv/tool\nof the image\n"),
        "{said}"
    );
    assert!(said.contains("Read-only file system"), "{said}");

    let shown = Ask::new("GET", "/api/v1/servers/tool")
        .token(&token)
        .send(&appliance)
        .json();
    let source = &shown["spec"]["source"];
    assert_eq!(
        (&source["kind"], &source["from"]),
        (&json!("image"), &json!(name)),
        "{shown}"
    );
    let content = source["content"].as_str().expect("a digest");
    let page = Ask::new("GET", "/servers")
        .cookie(&cookie)
        .send(&appliance)
        .body;
    assert!(
        page.contains(content) && page.contains(image.manifest()),
        "{page}"
    );
    let recorded = appliance.records(&token, "event=sandbox.start&limit=1");
    assert!(
        recorded[0]["findings"].to_string().contains(content),
        "{recorded:?}"
    );
    let change = appliance.records(&token, "event=admin&limit=50");
    assert!(Value::from(change).to_string().contains(content));

    let place = kept(&appliance, "tool");
    assert_eq!(place.len(), 1);
    refused_when_changed(&appliance, "tool", &place[0].join("root/srv/tool/data"));
    fs::write(place[0].join("root/srv/tool/new"), "more").expect("add to it");
    let more = appliance.gig(&["server", "start", "tool"], "");
    assert!(more.errors.contains("not what was registered"), "{more:?}");
    only_what_is_here_is_named(&appliance, &token, &shown["spec"]);
    let gone = appliance.gig(&["server", "rm", "tool"], "");
    assert!(
        gone.status == 0 && kept(&appliance, "tool").is_empty(),
        "{gone:?}"
    );
}

fn only_what_is_here_is_named(appliance: &Appliance, token: &str, spec: &Value) {
    // Who may register servers by the API names what is here, and brings nothing.
    let mut spec = spec.clone();
    spec["source"]["content"] = json!(format!("sha256:{}", "0".repeat(64)));
    let put = Ask::new("PUT", "/api/v1/servers/other")
        .header("If-None-Match", "*")
        .token(token)
        .json(&spec)
        .send(appliance);
    assert_eq!(put.status, 201, "{put:?}");
    let none = appliance.gig(&["server", "start", "other"], "");
    assert!(none.errors.contains("not on this machine"), "{none:?}");
    spec["source"]["from"] = json!("reg.example/tool:latest");
    let put = Ask::new("PUT", "/api/v1/servers/another")
        .header("If-None-Match", "*")
        .token(token)
        .json(&spec)
        .send(appliance);
    assert_eq!(put.status, 422, "{put:?}");
}

#[test]
fn of_an_image_that_is_one_static_program_that_alone_is_kept() {
    let appliance = Appliance::start();
    let built = tempfile::tempdir().expect("a folder");
    let (code, program) = (built.path().join("tell.c"), built.path().join("tell"));
    fs::write(&code, TELL).expect("a program");
    let mut compiler = Command::new("cc");
    compiler.arg("-static").arg("-o").args([&program, &code]);
    assert!(compiler.status().expect("cc").success());
    let program = fs::read(&program).expect("the program");
    let files = layer(&[
        ("srv/tell", Made::File(&program)),
        ("etc/passwd", Made::File(b"app:x:1000:1000::/:/nothing\n")),
    ]);
    let run = json!({"Entrypoint": ["/srv/tell"], "Cmd": ["this"], "Env": ["LIKES=tea"]});
    let image = BuiltImage::of(&[files], &run);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let name = format!(
        "{}/one@{}",
        listener.local_addr().expect("its address"),
        image.index()
    );
    let _registry = on(listener, &image);
    let added = appliance.gig(&["server", "add", "one", "--image", &name], "");
    assert_eq!(added.status, 0, "{added:?}");
    let place = kept(&appliance, "one");
    let inside = fs::read_dir(&place[0]).expect("what is kept").count();
    let server = place[0].join("server");
    let mode = fs::metadata(&server)
        .expect("the program")
        .permissions()
        .mode();
    assert_eq!((place.len(), inside, mode & 0o7777), (1, 1, 0o555));
    assert_eq!(fs::read(&server).expect("the program"), program);
    let said = printed(&appliance, "one");
    assert_eq!(said.trim_end(), "/app/server this tea fixed");
    refused_when_changed(&appliance, "one", &server);
}

#[test]
fn a_server_of_a_folder_runs_from_a_copy_that_nobody_changes() {
    let appliance = Appliance::start();
    let folder = tempfile::tempdir().expect("a folder");
    let script = "#!/bin/sh\necho here is $0 with $* in $(pwd)\ncat data\n(echo x > data) 2>&1 || echo fixed\n";
    fs::write(folder.path().join("run"), script).expect("a script");
    fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(0o700))
        .expect("run it");
    fs::write(folder.path().join("data"), "as it was\n").expect("a file");
    std::os::unix::fs::symlink("/etc/shadow", folder.path().join("link")).expect("a link");
    let named = folder.path().to_str().expect("UTF-8");
    let added = appliance.gig(
        &[
            "server", "add", "own", "--folder", named, "--", "run", "--fast",
        ],
        "",
    );
    assert_eq!(added.status, 0, "{added:?}");
    fs::write(folder.path().join("data"), "changed since\n").expect("change it");
    let said = printed(&appliance, "own");
    assert!(
        said.starts_with("here is /app/run with --fast in /app\nas it was\n"),
        "{said}"
    );
    assert!(said.ends_with("fixed\n"), "{said}");
    let place = kept(&appliance, "own");
    assert_eq!(
        fs::read_link(place[0].join("app/link")).expect("the link"),
        PathBuf::from("/etc/shadow")
    );
    refused_when_changed(&appliance, "own", &place[0].join("app/data"));
}
