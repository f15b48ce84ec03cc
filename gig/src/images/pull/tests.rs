//! What a name leads to, and where its program starts.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::symlink,
    thread,
};

use super::*;

#[test]
fn the_digest_of_a_name_with_one_is_that_or_none() {
    let manifest = format!(
        "{{\"schemaVersion\": 2, \"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", \
         \"config\": {{\"mediaType\": \"a\", \"size\": 1, \"digest\": \"sha256:{}\"}}, \"layers\": []}}",
        "0".repeat(64)
    );
    let here = Digest::of(manifest.as_bytes());
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        // Whether it speaks TLS, and the document, three times.
        for _ in 0..6 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 1 << 14];
            let count = stream.read(&mut buffer).unwrap();
            let answer = match buffer[..count].starts_with(b"GET ") {
                true => format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{manifest}",
                    manifest.len()
                ),
                false => "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(),
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let outside = Outside {
        upstream_ca: None,
        proxy: None,
        clear_text: false,
    };
    let asked = |name: String| resolve(&name.parse().unwrap(), &outside);
    assert_eq!(asked(format!("{at}/a/b:latest")).unwrap(), here);
    assert_eq!(asked(format!("{at}/a/b@{here}")).unwrap(), here);
    let other = Digest::of(b"another");
    let refused = format!("{:#}", asked(format!("{at}/a/b@{other}")).unwrap_err());
    assert!(
        refused.contains("refused: the registry was asked for"),
        "{refused}"
    );
    serving.join().unwrap();
}

#[test]
fn a_program_starts_where_its_image_has_a_directory_that_is_shown() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    for name in [
        "app",
        "tmp/build",
        "run/x",
        "var/log/app",
        "var/tmp/x",
        "var/lib/app",
        "home/sandbox/x",
        "home/app",
        "dev/shm",
    ] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for (link, target) in [
        ("way", "/app"),
        ("built", "tmp/build"),
        ("home/way", "app"),
        ("out", "../../.."),
        ("proc", "/proc"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    fs::write(root.join("file"), "").unwrap();
    for shown in [
        "/app",
        "/app/",
        "/way",
        "/",
        "/out",
        "/tmp",
        "/home/app",
        "/var/lib/app",
        "/home/sandbox",
    ] {
        assert!(has_directory(root, shown), "{shown}");
    }
    for not in [
        "/tmp/build",
        "/run/x",
        "/var/log/app",
        "/var/tmp/x",
        "/home/sandbox/x",
        "/dev/shm",
        "/built",
        "/home/way",
        "/file",
        "/nothing",
        "app",
        "",
        "/tmp/../tmp/build",
        "/proc/self/fd/3",
    ] {
        assert!(!has_directory(root, not), "{not}");
    }
}
