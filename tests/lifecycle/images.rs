//! `gig run --image`: brought by digest from a real registry, checked, unpacked without rights, run.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use gig_policy::DenyReason;
use gig_tests::lab::{
    Lab, Subject,
    http_origin::{Exchange, Request, greet},
    network::{Side, text},
    place,
    registry::{AT, BuiltImage, DockerRegistry, Made, layer, scripted},
};
use serde_json::json;

const ALLOWED: &str = "allowed.example.com";
const REGISTRY: &str = "registry.example.com";

/// A program that tells what it finds; busybox from /bin of this machine is all there is beside it.
const TELL: &str = "#!/bin/sh
echo \"args: $*\"
echo \"dir: $(pwd)\"
echo \"lower: $(cat /opt/gone 2>&1) $(cat /opt/kept)\"
echo \"var: $(cat /var/lib/app/data) home: $(cat /home/app/file)\"
(echo x > /var/lib/app/new) 2>&1
(echo x > /opt/new) 2>&1
echo x > /var/lib/mine && echo x > /tmp/mine && echo \"wrote\"
ls -l /bin/tell
env
";

fn busybox() -> Vec<u8> {
    fs::read("/bin/busybox").expect("busybox-static")
}

fn image() -> BuiltImage {
    let busybox = busybox();
    let links = ["sh", "cat", "ls", "env", "wget", "sleep"];
    let links: Vec<String> = links.iter().map(|name| format!("bin/{name}")).collect();
    let mut first = vec![
        ("bin/busybox", Made::File(&busybox)),
        ("opt/gone", Made::File(b"gone")),
        ("opt/kept", Made::File(b"kept")),
        ("var/lib/app/data", Made::File(b"data")),
        ("home/app/file", Made::File(b"file")),
    ];
    first.extend(
        links
            .iter()
            .map(|link| (link.as_str(), Made::Link("busybox"))),
    );
    let second = [
        ("opt/.wh.gone", Made::File(b"")),
        ("bin/tell", Made::File(TELL.as_bytes())),
        ("app/", Made::Directory),
    ];
    let run = json!({
        "Entrypoint": ["/bin/tell"], "Cmd": ["by", "itself"], "WorkingDir": "/app", "User": "1234",
        "Env": ["PATH=/bin:/opt/bin", "GREETING=from the image", "HTTPS_PROXY=http://other.example:1",
            "SSL_CERT_FILE=/opt/kept", "HOME=/root"],
    });
    BuiltImage::of(&[layer(&first), layer(&second)], &run)
}

/// Where the subject's user has images.
fn images(lab: &Lab) -> PathBuf {
    lab.home().join(".local/share/gig/gig-images")
}

/// What is there of images, whole or not, but for locks.
fn left(lab: &Lab) -> Vec<String> {
    let listed = fs::read_dir(images(lab)).into_iter().flatten().flatten();
    let names = listed.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with(".lock-")).collect()
}

fn command(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.network.command(Side::Host, "setpriv");
    let user = lab.user();
    if user.uid != rustix::process::geteuid().as_raw() {
        command.args([
            format!("--reuid={}", user.uid),
            format!("--regid={}", user.gid),
        ]);
        command.arg("--clear-groups");
    }
    command.args(["env", "-i", "LANG=C.UTF-8", "PATH=/usr/bin:/bin"]);
    command
        .arg(format!("HOME={}", text(&lab.home())))
        .arg(place::gig())
        .arg("image");
    command.args(words).current_dir(lab.home());
    command
}

fn gig_image(lab: &Lab, words: &[&str]) -> Output {
    command(lab, words).output().expect("gig image")
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn from<'lab>(lab: &'lab Lab, name: &str) -> Subject<'lab> {
    lab.gig().option(["--image", name])
}

#[test]
fn an_image_of_a_real_registry_runs_as_it_asks_to() {
    let lab = Lab::new();
    let registry = DockerRegistry::start(&lab);
    let image = image();
    registry.push(&lab, "test/tell", &image);
    let name = format!("{AT}/test/tell:latest@{}", image.index());
    let run = from(&lab, &name).run([""; 0]).success();
    let run = run
        .says("args: by itself\n")
        .says("dir: /app\n")
        .says("kept\n")
        .says("var: data home: file\n")
        .says("wrote\n")
        .says("-rwxr-xr-x")
        .says("GREETING=from the image\n")
        .says("PATH=/bin:/opt/bin\n")
        .says("HOME=/home/sandbox\n")
        .says("SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\n")
        .says("HTTPS_PROXY=http://10.200.");
    assert!(run.text().contains("No such file"), "the whiteout: {run}");
    assert_eq!(
        run.text().matches("Read-only file system").count(),
        2,
        "{run}"
    );
    let start = run
        .audit
        .of(gig_audit::Event::SandboxStart)
        .next()
        .expect("its start");
    let finding = start
        .findings
        .iter()
        .find(|finding| finding.starts_with("image: "));
    assert!(
        finding.is_some_and(|finding| finding.contains(image.index())),
        "{start:?}"
    );
    assert_eq!(left(&lab), [image.index().replace(':', "-")]);

    // Without the registry, with a program of one's own, and variables that win.
    drop(registry);
    let other = format!("other.example/team/app@{}", image.index());
    let again = from(&lab, &other)
        .env("GREETING", "mine")
        .run(["sh", "-c", "echo $GREETING; pwd"]);
    let again = again.success().says("mine\n/app\n");
    let told = again.audit.of(gig_audit::Event::SandboxStart).next();
    let told = format!("{:?}", told.expect("its start").findings);
    assert!(
        told.contains("image: other.example/team/app@")
            && told.contains("first pulled as 127.0.0.1:5000/test/tell"),
        "{told}"
    );
    let listed = said(&gig_image(&lab, &["ls", "--json"]));
    assert!(
        listed.contains(image.manifest()) && listed.contains("\"user\": \"1234\""),
        "{listed}"
    );
    assert!(gig_image(&lab, &["rm", image.index()]).status.success());
    assert_eq!(left(&lab), [""; 0]);
    assert_eq!(
        gig_image(&lab, &["rm", image.index()]).status.code(),
        Some(1)
    );
    // As somebody leaves it who is killed while an image is removed.
    let partial = format!(".making-{}", image.index().replace(':', "-"));
    fs::create_dir(images(&lab).join(partial)).expect("what is left");
    assert!(said(&gig_image(&lab, &["ls"])).contains("no images"));
    assert_eq!(left(&lab), [""; 0]);
    let _gone = from(&lab, &name)
        .run(["true"])
        .exits(125)
        .complains("cannot reach");
}

#[test]
fn a_program_of_an_image_reaches_what_is_allowed_and_nothing_else() {
    let lab = Lab::new();
    let registry = DockerRegistry::start(&lab);
    let image = image();
    registry.push(&lab, "tell", &image);
    let allowed = lab.http(ALLOWED, greet);
    let denied = lab.http("denied.example.com", greet);
    let name = format!("{AT}/tell@{}", image.manifest());
    let script = format!(
        "wget -q -O - http://{ALLOWED}/; wget -q -O - http://denied.example.com/; \
         wget -q -O - http://{AT}/v2/; echo end"
    );
    let run = from(&lab, &name).allow(ALLOWED).run(["sh", "-c", &script]);
    let run = run.says("hello from the origin\nend\n").requested(ALLOWED);
    assert_eq!(allowed.requests().len(), 1);
    assert_eq!(denied.raw().wire_octets(), 0);
    assert!(
        run.audit.denials(DenyReason::HostNotAllowed).count() >= 1,
        "{run}"
    );
}

#[test]
fn a_tag_alone_is_refused_and_its_digest_is_told() {
    let lab = Lab::new();
    let registry = DockerRegistry::start(&lab);
    let image = image();
    registry.push(&lab, "tell", &image);
    let name = format!("{AT}/tell:latest");
    let run = from(&lab, &name).run(["true"]).exits(125);
    let _run = run
        .complains("decides what runs")
        .complains("gig image digest");
    let told = said(&gig_image(&lab, &["digest", &name]));
    assert_eq!(told, format!("{AT}/tell@{}\n", image.index()));
    let pulled = gig_image(&lab, &["pull", told.trim()]);
    assert!(pulled.status.success(), "{}", said(&pulled));
    let _run = from(&lab, told.trim()).run(["true"]).exits(127);
}

#[test]
fn what_a_registry_changed_is_refused_and_nothing_of_it_stays() {
    let lab = Lab::new();
    let registry = DockerRegistry::start(&lab);
    let image = image();
    registry.push(&lab, "tell", &image);
    let mut digests: Vec<&String> = image.blobs.keys().collect();
    digests.extend(image.manifests.iter().map(|(digest, _, _)| digest));
    assert_eq!(digests.len(), 5);
    for digest in digests {
        let path = registry.file_of(digest);
        let whole = fs::read(&path).expect("what it keeps");
        let mut flipped = whole.clone();
        let middle = whole.len() / 2;
        flipped[middle] ^= 1;
        let longer = [whole.as_slice(), b" "].concat();
        for changed in [flipped, longer] {
            fs::write(&path, changed).expect("change it");
            let run = from(&lab, &format!("{AT}/tell@{}", image.index()))
                .run(["sh"])
                .exits(125);
            let words = run.error_text();
            let refused = ["the registry was asked for", "octets that there are to be"];
            assert!(refused.iter().any(|why| words.contains(why)), "{run}");
            assert_eq!(left(&lab), [""; 0], "{run}");
        }
        fs::write(&path, whole).expect("mend it");
    }
    let _whole = from(&lab, &format!("{AT}/tell@{}", image.index()))
        .run(["sh"])
        .success();
}

/// A registry in the internet: TLS by `--upstream-ca`, a token, and blobs that are elsewhere.
#[test]
fn a_registry_with_tokens_and_redirects_is_asked_as_it_wants() {
    let lab = Lab::new();
    let image = image();
    let blobs = scripted(
        &lab,
        "blobs.example.com",
        &image,
        Arc::new(Mutex::new(|_: &Request, _: &mut Exchange<'_>| Ok(true))),
    );
    // Of the machine that gig runs on, where a registry of the internet has nothing to say.
    let own = lab
        .network
        .inside(Side::Host, || TcpListener::bind("127.0.0.1:0"));
    let own = own.expect("a port");
    own.set_nonblocking(true).expect("not to wait");
    let there = own.local_addr().expect("its address");
    let leads = Arc::new(Mutex::new(there.to_string()));
    let to = Arc::clone(&leads);
    let mood = move |request: &Request, exchange: &mut Exchange<'_>| {
        if request
            .target
            .starts_with("/token?service=reg&scope=repository%3Atell%3Apull")
        {
            assert_eq!(request.field("authorization"), Some("Basic YTpi"));
            exchange.answer("200 OK", "{\"token\": \"t0ken\"}")?;
            return Ok(false);
        }
        if request.field("authorization") != Some("Bearer t0ken") {
            exchange.send(format!(
                "HTTP/1.1 401 No\r\nwww-authenticate: Bearer realm=\"https://{REGISTRY}/token\",\
                 service=\"reg\"\r\ncontent-length: 0\r\n\r\n"
            ))?;
            return Ok(false);
        }
        if request.target.contains("/blobs/") {
            let place = to.lock().expect("where to");
            let place = format!("https://{place}{}", request.target);
            exchange.send(format!(
                "HTTP/1.1 307 There\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n"
            ))?;
            return Ok(false);
        }
        Ok(true)
    };
    let registry = scripted(&lab, REGISTRY, &image, Arc::new(Mutex::new(mood)));
    let logins = lab.folder("docker");
    fs::write(
        logins.join("config.json"),
        format!("{{\"auths\": {{\"{REGISTRY}\": {{\"auth\": \"YTpi\"}}}}}}"),
    )
    .expect("a login");
    let asked = || {
        from(&lab, &format!("{REGISTRY}/tell@{}", image.manifest()))
            .host_env("DOCKER_CONFIG", &text(&logins))
    };
    let led = asked().run(["true"]).exits(125);
    let led = led.complains("the registry points there");
    assert!(own.accept().is_err(), "it was led: {led}");
    "blobs.example.com".clone_into(&mut leads.lock().expect("where to"));
    let run = asked();
    let run = run.run(["sh", "-c", "echo here"]).success().says("here\n");
    assert!(registry.requests().len() >= 5, "{run}");
    for request in blobs.requests() {
        assert_eq!(request.field("authorization"), None, "{request:?}");
    }
    // Nobody's login, and no roots.
    let alone = command(
        &lab,
        &["pull", &format!("{REGISTRY}/tell@{}", image.index())],
    )
    .output();
    let alone = said(&alone.expect("gig"));
    assert!(alone.contains("certificate"), "{alone}");
}

#[test]
fn a_pull_that_is_killed_leaves_nothing_that_is_used_and_several_pull_once() {
    let lab = Lab::new();
    let image = image();
    let stuck = Arc::new(Mutex::new(true));
    let stays = Arc::clone(&stuck);
    let begun = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&begun);
    let mood = move |request: &Request, exchange: &mut Exchange<'_>| {
        if request.target.contains("/blobs/") && *stays.lock().expect("whether") {
            exchange.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of it")?;
            *seen.lock().expect("whether") = true;
            // Until gig is gone.
            exchange.raw().drain()?;
            return Ok(false);
        }
        Ok(true)
    };
    let registry = scripted(&lab, REGISTRY, &image, Arc::new(Mutex::new(mood)));
    let name = format!("{REGISTRY}/tell@{}", image.index());
    let roots = text(lab.root_file());
    let mut pulling = command(&lab, &["pull", &name, "--upstream-ca", &roots])
        .spawn()
        .expect("gig");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !*begun.lock().expect("whether") {
        assert!(Instant::now() < deadline, "it does not begin");
        thread::sleep(Duration::from_millis(10));
    }
    // nsenter and setpriv became it.
    pulling.kill().expect("kill it");
    let _ended = pulling.wait();
    let partial = left(&lab);
    assert!(
        partial.len() == 1 && partial[0].starts_with(".making-"),
        "{partial:?}"
    );
    assert!(said(&gig_image(&lab, &["ls"])).contains("no images"));
    assert_eq!(left(&lab), [""; 0]);

    *stuck.lock().expect("whether") = false;
    let before = registry.requests().len();
    thread::scope(|scope| {
        for _ in 0..3 {
            let run = from(&lab, &name);
            scope.spawn(move || run.run(["sh", "-c", "echo here"]).success().says("here\n"));
        }
    });
    // A list, a manifest, a configuration and two layers.
    assert_eq!(registry.requests().len() - before, 5);
    assert_eq!(left(&lab), [image.index().replace(':', "-")]);
    let whole = images(&lab).join(image.index().replace(':', "-"));
    assert!(Path::new(&whole).join("root/bin/busybox").is_file());

    // In use it is not removed.
    let mut live = from(&lab, &name).start(["sh", "-c", "echo up; sleep 60"]);
    live.wait_for("up");
    let refused = gig_image(&lab, &["rm", image.index()]);
    assert!(
        said(&refused).contains("in use") && whole.is_dir(),
        "{}",
        said(&refused)
    );
    drop(live);
}
