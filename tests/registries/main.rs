//! pip and npm install real packages through gig, from the registries this machine is set up to use.
//!
//! The one room that needs the machine's own network. The registries are discovered from the clients'
//! own configuration; where there are none (`GIG_TEST_REGISTRIES=unreachable`) `tests/run` leaves this
//! room out and counts it as skipped, and whatever fails here is a failure.
#![cfg(test)]

use std::{
    collections::BTreeSet,
    net::{IpAddr, ToSocketAddrs},
    process::{Command, Output, Stdio},
};

use gig_tests::lab::{
    network::text,
    place::{self, User},
};

#[test]
fn pip_installs_from_the_index_of_this_machine() {
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    // The index, and where it keeps its files, as pip itself has them.
    let hosts = answer(
        &python,
        &[
            "-c",
            "import os, subprocess, sys\n\
         from urllib.parse import urlsplit\n\
         from pip._internal.models.index import PyPI\n\
         urls = os.environ.get('PIP_INDEX_URL') or subprocess.run([sys.executable, '-m', 'pip', \
         'config', 'get', 'global.index-url'], capture_output=True, text=True).stdout.strip()\n\
         hosts = [urlsplit(urls).netloc] if urls else [PyPI.netloc, PyPI.file_storage_domain]\n\
         print('\\n'.join(dict.fromkeys(hosts)))",
        ],
    );
    let script = format!(
        "{python} -m venv --without-pip /tmp/v && {python} -m pip --python /tmp/v/bin/python \
         install -q --no-cache-dir --disable-pip-version-check six && \
         /tmp/v/bin/python -c 'import six; print(\"installed\", six.__name__)'"
    );
    let output = with_network(&hosts, &text(&venv), &script);
    assert_installed(&output, "installed six");
}

#[test]
fn npm_installs_from_the_registry_of_this_machine() {
    let registry = answer("npm", &["config", "get", "registry"]);
    let registry = registry
        .iter()
        .find(|line| line.starts_with("http"))
        .expect("a registry");
    let host = registry
        .split('/')
        .nth(2)
        .expect("a host in the registry's address")
        .to_owned();
    let script = format!(
        "cd /tmp && npm install --no-audit --no-fund --no-update-notifier --registry {registry} is-number && \
         node -e 'console.log(\"installed\", require(\"is-number\")(5))'"
    );
    let output = with_network(&[host], "/usr", &script);
    assert_installed(&output, "installed true");
}

/// Runs a shell script in a sandbox that may reach these hosts over the machine's network.
fn with_network(hosts: &[String], bind: &str, script: &str) -> Output {
    let user = User::of_this_run();
    let mut command = Command::new("setpriv");
    if !user.is_root() {
        command.args([
            format!("--reuid={}", user.uid),
            format!("--regid={}", user.gid),
        ]);
        command.arg("--clear-groups");
    }
    let home = place::scratch(user);
    command.args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
    command.arg(format!("HOME={}", home.path().display()));
    command.arg(place::gig()).args(["run", "--timeout", "5m"]);
    for host in hosts {
        let name = host.split(':').next().unwrap_or(host);
        command.args(["--allow", host]);
        // A machine may reach its registries by an address that is not a public one.
        for address in addresses(name) {
            command.args([
                "--allow-private",
                &format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 }),
            ]);
        }
    }
    if bind != "/usr" {
        command.args(["--ro", bind]);
    }
    command
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .current_dir("/");
    command.output().expect("start gig")
}

fn addresses(host: &str) -> BTreeSet<IpAddr> {
    let found = (host, 443)
        .to_socket_addrs()
        .unwrap_or_else(|e| panic!("{host}: {e}"));
    found.map(|address| address.ip()).collect()
}

fn answer(program: &str, words: &[&str]) -> Vec<String> {
    let output = Command::new(program)
        .args(words)
        .output()
        .expect("ask a client");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(str::to_owned)
        .filter(|line| !line.is_empty())
        .collect()
}

fn assert_installed(output: &Output, sign: &str) {
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && text.contains(sign),
        "{text}\n{errors}"
    );
}
