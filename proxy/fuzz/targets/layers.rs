//! Layers of images, and the words in which their reader may lie: nothing is made outside of one directory.

use std::{fs, path::Path};

use gig_sandbox::image::{Config, Document, Limits, Reference, Unpacking, read_layer};

/// The first octet chooses: a layer, words of its reader, or a registry's documents.
pub fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    match choice % 3 {
        0 => {
            let mut words = Vec::new();
            let _broken_off = read_layer(rest, &mut words);
            made(&words);
        }
        1 => made(rest),
        _ => documents(rest),
    }
}

/// Small, so that a thousand are made in a second.
const LIMITS: Limits = Limits {
    unpacked: 1 << 20,
    entries: 64,
    ..Limits::DEFAULT
};

fn made(words: &[u8]) {
    let place = tempfile::tempdir().expect("a place");
    let root = place.path().join("root");
    fs::create_dir(&root).expect("a root");
    fs::write(place.path().join("neighbour"), "mine").expect("a neighbour");
    let mut unpacking = Unpacking::into_directory(&root, LIMITS).expect("an unpacking");
    // Twice: the second layer finds what the first one made.
    let first = unpacking.layer(words);
    let second = unpacking.layer(words);
    drop((first, second));
    let beside = fs::read_dir(place.path()).expect("the place").count();
    let neighbour = fs::read_to_string(place.path().join("neighbour")).expect("the neighbour");
    assert!(
        beside == 2 && neighbour == "mine",
        "something was made outside"
    );
    let mut octets = 0;
    count(&root, 0, &mut octets);
    assert!(octets <= LIMITS.unpacked, "more than the limit");
}

fn count(directory: &Path, depth: usize, octets: &mut u64) {
    assert!(depth <= LIMITS.depth, "deeper than the limit");
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let about = entry.metadata().expect("what it is");
        assert!(
            about.is_dir() || about.is_file() || about.is_symlink(),
            "a device"
        );
        if about.is_dir() {
            count(&entry.path(), depth + 1, octets);
        } else if about.is_file() && std::os::unix::fs::MetadataExt::nlink(&about) == 1 {
            *octets += about.len();
        }
    }
}

fn documents(data: &[u8]) {
    if let Ok(Document::Manifest(manifest)) = Document::parse(data, "", &Limits::DEFAULT) {
        assert!(manifest.layers.len() <= Limits::DEFAULT.layers);
    }
    let _no_configuration = Config::parse(data);
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(reference) = text.parse::<Reference>() {
        let again: Reference = reference.to_string().parse().expect("what was written");
        assert_eq!(again, reference);
        assert!(!reference.repository().contains("..") && !reference.host().contains('/'));
    }
}
