//! The counter-example to what an open proxy cannot show, because it translates and limits nothing: a gateway
//! that writes HTTP/2 out word for word, and a server without limits. The same scripts must do there what
//! `downgrade` and `floods` say that they do not do to gig.

use std::{net::IpAddr, process::Stdio};

use gig_tests::lab::{
    Lab, fixture,
    network::{Side, internet_address, text},
    place,
    service::Service,
};

/// What a client said that went there straight.
pub(crate) struct Naive {
    lab: Lab,
    _gateway: Service,
}

impl Naive {
    /// At the address of `host`; `origin`: where it writes to, if it does.
    pub(crate) fn start(lab: Lab, host: &str, origin: Option<IpAddr>) -> Self {
        let address = internet_address(200);
        lab.resolver.set(host, &[address]);
        let leaf = lab.leaf(host);
        let mut command = lab.network.command(Side::Internet, &python());
        command.arg(fixture::path("naive_gateway.py"));
        command.arg(address.to_string());
        command.arg(lab.file("cert.pem", &leaf.certificate));
        command.arg(lab.file("key.pem", &leaf.key));
        command.arg(origin.map_or_else(|| "none".to_owned(), |at| at.to_string()));
        let mut gateway = Service::start(command, lab.fresh_path("naive.log"));
        gateway.wait_for(&lab.network, (address, 443).into());
        Self {
            lab,
            _gateway: gateway,
        }
    }

    /// Runs a client's script on the host itself.
    pub(crate) fn client(&self, script: &str, words: &[&str]) -> String {
        let mut client = self.lab.network.command(Side::Host, &python());
        client.args(["-c", script]).args(words).stdin(Stdio::null());
        let output = client
            .env("LAB_PATIENCE", "20")
            .output()
            .expect("the client");
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }
}

fn python() -> String {
    text(&place::client("venv").join("bin/python"))
}
