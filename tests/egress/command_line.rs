//! curl, wget, git and `openssl s_client`.

use std::{fs, process::Command};

use gig_tests::lab::{
    Lab, Way,
    network::{Side, text},
    service::Service,
};

const HOST: &str = "api.example.com";

#[test]
fn curl_gets_over_https() {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    for way in Way::BOTH {
        let run = lab.gig().allow(HOST).going(way);
        let run = run.run(["curl", "-sS", "--fail", "https://api.example.com/hello"]);
        let _run = run.success().says("hello from the origin").requested(HOST);
    }
    assert_eq!(origin.lines().len(), 2);
}

#[test]
fn curl_gets_over_plain_http() {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    for way in Way::BOTH {
        let run = lab.gig().allow(HOST).going(way);
        let run = run.run(["curl", "-sS", "--fail", "http://api.example.com/hello"]);
        let _run = run.success().says("hello from the origin").requested(HOST);
    }
    assert_eq!(origin.lines().len(), 2);
}

#[test]
fn curl_tunnels_plain_http_through_connect() {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let url = "http://api.example.com/hello";
    let run = lab
        .gig()
        .allow(HOST)
        .run(["curl", "-sS", "--fail", "--proxytunnel", url]);
    let _run = run.success().says("hello from the origin").requested(HOST);
}

#[test]
fn wget_gets_over_https() {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    for option in ["--proxy", "--no-proxy"] {
        let url = "https://api.example.com/hello";
        let run = lab
            .gig()
            .allow(HOST)
            .run(["wget", "-q", "-O", "-", option, url]);
        let _run = run.success().says("hello from the origin").requested(HOST);
    }
}

#[test]
fn git_clones_and_pushes_over_https() {
    let lab = Lab::new();
    let repositories = lab.folder("repositories");
    let shell = format!(
        "cd {0}; git init -q --bare acme.git; git -C acme.git config http.receivepack true; \
         git init -q -b main seed; cd seed; echo content > file; git add file; \
         git -c user.name=a -c user.email=a@example.com commit -qm first; \
         git push -q ../acme.git main; git -C ../acme.git symbolic-ref HEAD refs/heads/main",
        repositories.display()
    );
    let made = Command::new("sh")
        .args(["-ec", &shell])
        .status()
        .expect("a shell");
    assert!(made.success(), "no repository could be made");
    let socket = lab.folder("fcgi").join("socket");
    let mut fcgiwrap = lab.network.command(Side::Internet, "fcgiwrap");
    fcgiwrap
        .args(["-s", &format!("unix:{}", text(&socket))])
        .env("HOME", "/nonexistent");
    let _fcgiwrap = Service::start(fcgiwrap, lab.fresh_path("fcgi.log"));
    let locations = format!(
        "location /acme.git {{ fastcgi_pass unix:{}; include /etc/nginx/fastcgi_params; \
         fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend; \
         fastcgi_param GIT_HTTP_EXPORT_ALL 1; fastcgi_param GIT_PROJECT_ROOT {}; \
         fastcgi_param PATH_INFO $uri; fastcgi_param REMOTE_USER tester; \
         fastcgi_param GIT_CONFIG_COUNT 1; fastcgi_param GIT_CONFIG_KEY_0 safe.directory; \
         fastcgi_param GIT_CONFIG_VALUE_0 *; }}",
        socket.display(),
        repositories.display()
    );
    let origin = lab.nginx_with(&["git.example.com"], true, &locations);
    for (way, branch) in [(Way::ByProxy, "one"), (Way::Straight, "two")] {
        let script = format!(
            "cd /tmp && rm -rf clone-{branch} && \
             git clone -q https://git.example.com/acme.git clone-{branch} && cd clone-{branch} && \
             cat file && git checkout -q -b {branch} && echo more > more && git add more && \
             git -c user.name=b -c user.email=b@example.com commit -qm second && \
             git push -q origin {branch}"
        );
        let run = lab.gig().allow("git.example.com").going(way).sh(&script);
        let _run = run.success().says("content").requested("git.example.com");
    }
    let refs = fs::read_dir(repositories.join("acme.git/refs/heads"))
        .expect("refs")
        .count();
    assert_eq!(
        refs,
        3,
        "main and two pushed branches; {:?}",
        origin.lines()
    );
}

#[test]
fn openssl_s_client_verifies_and_speaks() {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let script = "printf 'GET /hello HTTP/1.1\\r\\nHost: api.example.com\\r\\nConnection: close\\r\\n\\r\\n' \
        | timeout 60 openssl s_client -quiet -verify_return_error -verify_hostname api.example.com \
          -servername api.example.com -connect api.example.com:443";
    let run = lab.gig().allow(HOST).sh(script);
    let _run = run.says("hello from the origin").requested(HOST);
}
