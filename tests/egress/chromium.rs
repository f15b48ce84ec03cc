//! Chromium, which reads neither a bundle of roots nor a variable.

use gig_tests::lab::{Lab, Way};

const HOST: &str = "api.example.com";

#[test]
fn chromium_opens_a_page_with_nothing_but_what_gig_sets() {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    for way in Way::BOTH {
        // What a browser asks its maker for by itself only takes time here.
        let run = lab.gig().allow(HOST).going(way).run([
            "timeout",
            "120",
            "chromium",
            "--headless",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--user-data-dir=/tmp/profile",
            "--dump-dom",
            "https://api.example.com/hello",
        ]);
        let _run = run.success().says("hello from the origin").requested(HOST);
    }
    assert!(!origin.lines().is_empty());
}
