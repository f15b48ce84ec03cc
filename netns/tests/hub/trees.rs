//! Trees of files that the hub builds and programs in its slots see.

use std::path::Path;

use gig_netns::Tree;

use crate::Test;
use crate::lab::{self, shell, shell_says};

pub(crate) const TESTS: &[Test] = &[
    ("a_tree_is_as_described_and_nobody_can_write_it", described),
    ("a_tree_that_makes_room_stays_with_who_shows_it", room),
    (
        "a_tree_that_cannot_be_built_is_refused_and_the_hub_goes_on",
        refused,
    ),
];

/// More trees than the hub keeps.
const MANY: usize = 20;

fn tree(name: &str, text: &str) -> Tree {
    let mut tree = Tree::new();
    tree.directory(Path::new("etc"));
    tree.file(Path::new("etc/text"), text.as_bytes(), false);
    tree.file(Path::new("etc/script"), b"#!/bin/sh\necho runs\n", true);
    tree.link(Path::new("link"), Path::new("etc/text"));
    tree.host(Path::new("usr"), Path::new("/usr"));
    tree.name(name.to_owned());
    tree
}

fn described() {
    let (hub, _listeners) = lab::start(1);
    let tree = tree("t1", "hello\n");
    hub.show(&tree).unwrap();
    hub.show(&tree).unwrap();
    let lease = hub.lease().unwrap();
    let script = format!(
        "cd {} && ls -A && cat link && etc/script && [ -x usr/bin/env ] && \
         for path in . etc etc/text new; do \
           (echo x > $path/new || echo x > $path || chmod 777 $path || rm -r $path) 2>/dev/null && echo written $path; \
         done; mount -o remount,rw . 2>/dev/null && echo writable; stat -c %a etc etc/text etc/script",
        tree.place().display()
    );
    let said = shell_says(&hub, &lease, &script);
    assert_eq!(said, "etc\nlink\nusr\nhello\nruns\n755\n444\n555\n");
    hub.release(lease).unwrap();
}

fn room() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let first = tree("first", "the first\n");
    hub.show(&first).unwrap();
    let script = format!(
        "cd {} && echo there; read line; cat etc/text",
        first.place().display()
    );
    let (theirs, ours) = std::io::pipe().unwrap();
    let extra = lab::Extra {
        fds: vec![(theirs.into(), 3)],
        ..lab::Extra::default()
    };
    let network = gig_netns::SpawnNetwork::Leased(lease.slot());
    let script = format!("exec 0<&3; {script}");
    let mut holder = lab::spawn(&hub, network, &["/bin/bash", "-c", &script], extra);
    assert_eq!(holder.line(), "there");
    for number in 0..MANY {
        hub.show(&tree(&format!("n{number}"), "another\n")).unwrap();
    }
    drop(ours);
    assert_eq!(holder.end().output, "the first\n");
    let count = shell_says(&hub, &lease, "ls /sys | wc -l");
    assert!(count.trim().parse::<usize>().unwrap() < MANY, "{count}");
    // It can be had again.
    hub.show(&first).unwrap();
    let script = format!("cat {}/etc/text", first.place().display());
    assert_eq!(shell(&hub, &lease, &script).end().output, "the first\n");
    hub.release(lease).unwrap();
}

fn refused() {
    let (hub, _listeners) = lab::start(1);
    let mut missing = tree("missing", "");
    missing.host(Path::new("gone"), Path::new("/no/such/directory"));
    hub.show(&missing).unwrap_err();
    let mut outside = tree("outside", "");
    outside.file(Path::new("usr/bin/planted"), b"", true);
    hub.show(&outside).unwrap_err();
    hub.show(&tree("../x", "")).unwrap_err();
    let lease = hub.lease().unwrap();
    let said = shell_says(&hub, &lease, "ls -A /sys; ls /usr/bin/planted 2>&1 | wc -l");
    assert_eq!(said, "1\n");
    hub.show(&tree("good", "")).unwrap();
    hub.release(lease).unwrap();
}
