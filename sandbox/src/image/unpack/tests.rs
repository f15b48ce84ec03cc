//! Layers, honest and hostile, from their bytes to a directory.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use tar::{Builder, EntryType, Header};

use super::super::read_layer;
use super::*;

/// An entry as somebody may write it, with none of the checks of a library.
struct Of(EntryType, &'static str, &'static str, &'static [u8], u32);

fn file(name: &'static str, text: &'static str) -> Of {
    Of(EntryType::Regular, name, "", text.as_bytes(), 0o644)
}

fn directory(name: &'static str) -> Of {
    Of(EntryType::Directory, name, "", b"", 0o700)
}

fn link(name: &'static str, target: &'static str) -> Of {
    Of(EntryType::Symlink, name, target, b"", 0o777)
}

fn same(name: &'static str, target: &'static str) -> Of {
    Of(EntryType::Link, name, target, b"", 0o644)
}

fn header(kind: EntryType, name: &[u8], target: &[u8], size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..target.len()].copy_from_slice(target);
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_size(size);
    header.set_cksum();
    header
}

fn layer(entries: &[Of]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for Of(kind, name, target, octets, mode) in entries {
        let (name, target) = (name.as_bytes(), target.as_bytes());
        let header = header(*kind, name, target, octets.len() as u64, *mode);
        builder.append(&header, *octets).unwrap();
    }
    builder.into_inner().unwrap()
}

fn words(layer: &[u8]) -> Vec<u8> {
    let mut words = Vec::new();
    // One that breaks off has said what it said.
    drop(read_layer(layer, &mut words));
    words
}

/// A directory with a neighbour, and what became of these layers in it.
struct Made {
    place: tempfile::TempDir,
    outcome: Result<Stock, UnpackError>,
}

impl Made {
    fn of(layers: &[Vec<u8>]) -> Self {
        Self::within(layers, Limits::DEFAULT)
    }

    fn within(layers: &[Vec<u8>], limits: Limits) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("neighbour"), "mine").unwrap();
        fs::create_dir(place.path().join("root")).unwrap();
        let root = place.path().join("root");
        let mut unpacking = Unpacking::into_directory(&root, limits).unwrap();
        let all = layers
            .iter()
            .try_for_each(|layer| unpacking.layer(words(layer).as_slice()));
        let outcome = all.map(|()| unpacking.stock());
        let made = Self { place, outcome };
        let neighbour = fs::read_to_string(made.place.path().join("neighbour"));
        assert_eq!(neighbour.unwrap(), "mine");
        assert_eq!(
            fs::read_dir(made.place.path()).unwrap().count(),
            2,
            "something outside"
        );
        made
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.root().join(name)).ok()
    }

    /// All names, in order.
    fn names(&self) -> Vec<String> {
        fn walk(directory: &Path, below: &str, names: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let name = format!("{below}{}", entry.file_name().to_string_lossy());
                if entry.file_type().unwrap().is_dir() {
                    walk(&entry.path(), &format!("{name}/"), names);
                }
                names.push(name);
            }
        }
        let mut names = Vec::new();
        walk(&self.root(), "", &mut names);
        names.sort();
        names
    }

    #[track_caller]
    fn refused(&self, why: &str) {
        let words = match &self.outcome {
            Ok(stock) => panic!("{stock:?}: {:?}", self.names()),
            Err(error) => error.to_string(),
        };
        assert!(words.contains(why), "{words}");
    }
}

#[test]
fn layers_become_a_directory_that_everybody_may_read() {
    let made = Made::of(&[
        layer(&[
            directory("./usr/"),
            Of(EntryType::Regular, "usr/run", "", b"#!", 0o4750),
            Of(EntryType::Regular, "usr/shut", "", b"s", 0),
            link("bin", "usr"),
            same("usr/again", "usr/run"),
            file("/absolute", "a"),
        ]),
        layer(&[file("usr/shut", "second"), file("usr/deep/er/file", "d")]),
    ]);
    let stock = *made.outcome.as_ref().unwrap();
    assert_eq!((stock.octets, stock.left_out), (2 + 1 + 1 + 6 + 1, 0));
    assert_eq!(made.text("usr/shut").unwrap(), "second");
    assert_eq!(made.text("absolute").unwrap(), "a");
    let mode = |name: &str| {
        let about = fs::symlink_metadata(made.root().join(name)).unwrap();
        assert_eq!(about.uid(), rustix::process::geteuid().as_raw());
        about.permissions().mode() & 0o7777
    };
    assert_eq!(mode("usr/run"), 0o755, "set-user-id is dropped");
    assert_eq!((mode("usr/shut"), mode("usr")), (0o644, 0o755));
    assert_eq!((mode("usr/deep"), mode("usr/deep/er/file")), (0o755, 0o644));
    let inode = |name: &str| fs::metadata(made.root().join(name)).unwrap().ino();
    assert_eq!(inode("usr/again"), inode("usr/run"));
    assert_eq!(
        fs::read_link(made.root().join("bin")).unwrap(),
        Path::new("usr")
    );
}

#[test]
fn whiteouts_take_from_lower_layers_alone() {
    let lower = layer(&[
        file("etc/gone", "1"),
        file("etc/stays", "1"),
        file("opt/lower", "1"),
        file("opt/sub/lower", "1"),
        file("tree/a/b", "1"),
    ]);
    let upper = layer(&[
        file("opt/sub/upper", "2"),
        file("opt/upper", "2"),
        file("etc/.wh.gone", ""),
        file("etc/.wh.never", ""),
        file("nowhere/.wh.x", ""),
        file("opt/.wh..wh..opq", ""),
        file("etc/.wh.new", ""),
        file("etc/new", "2"),
        file(".wh.tree", ""),
        file(".wh..wh.plnk", ""),
    ]);
    let made = Made::of(&[lower, upper]);
    assert!(made.outcome.is_ok(), "{:?}", made.outcome);
    assert_eq!(
        made.names(),
        [
            "etc",
            "etc/new",
            "etc/stays",
            "opt",
            "opt/sub",
            "opt/sub/upper",
            "opt/upper"
        ]
    );
}

#[test]
fn no_name_leads_out() {
    for name in ["../out", "usr/../../out", "..", "a/..", "/../out"] {
        Made::of(&[layer(&[file(name, "x")])]).refused("leads out");
        Made::of(&[layer(&[directory(name)])]).refused("leads out");
    }
    Made::of(&[layer(&[file("a", "x"), same("b", "../neighbour")])]).refused("leads out");
    Made::of(&[layer(&[file("a", "x"), same("b", "/neighbour")])]).refused("not there");
    for name in [".wh...", ".wh..", ".wh.", "usr/.wh..."] {
        Made::of(&[layer(&[directory("usr"), file(name, "")])]).refused("takes nothing away");
    }
    Made::of(&[layer(&[file(".wh.x", "content")])]).refused("has content");
    Made::of(&[layer(&[file("./", "x")])]).outcome.unwrap();
    Made::of(&[layer(&[link(".", "x")])]).refused("the root itself");
}

#[test]
fn nothing_is_written_through_a_link() {
    for target in ["..", "/", "../neighbour", "/proc/self/cwd", "usr"] {
        let lower = layer(&[directory("usr"), link("way", target)]);
        for through in [
            file("way/new", "x"),
            file("way/a/b/new", "x"),
            directory("way/new/"),
            link("way/new", "x"),
            file("way/.wh.neighbour", ""),
            file("way/.wh..wh..opq", ""),
        ] {
            Made::of(&[lower.clone(), layer(&[through])]).refused("below");
        }
        let names = layer(&[same("got", "way/neighbour")]);
        Made::of(&[lower.clone(), names]).refused("not there");
        // What has the link's own name takes its place.
        let made = Made::of(&[lower.clone(), layer(&[file("way", "mine now")])]);
        assert!(made.outcome.is_ok() && made.text("way").unwrap() == "mine now");
        let made = Made::of(&[
            lower.clone(),
            layer(&[directory("way"), file("way/x", "1")]),
        ]);
        assert_eq!(made.text("way/x").unwrap(), "1");
        // Another name of a link is a link.
        let made = Made::of(&[lower, layer(&[same("other", "way")])]);
        assert_eq!(
            fs::read_link(made.root().join("other")).unwrap(),
            Path::new(target)
        );
    }
}

#[test]
fn the_last_of_several_counts_and_changes_no_other_name() {
    let made = Made::of(&[
        layer(&[
            file("a", "one"),
            same("b", "a"),
            file("a", "two"),
            directory("d"),
            file("d/x", "1"),
            file("d", "now a file"),
        ]),
        layer(&[file("b", "three"), same("b", "b")]),
    ]);
    assert!(made.outcome.is_ok(), "{:?}", made.outcome);
    let text = |name| made.text(name).unwrap();
    assert_eq!(
        (text("a"), text("b"), text("d")),
        ("two".into(), "three".into(), "now a file".into())
    );
}

#[test]
fn devices_and_pipes_are_left_out() {
    let special = |kind, name| Of(kind, name, "", b"", 0o666);
    let made = Made::of(&[layer(&[
        special(EntryType::Char, "dev/null"),
        special(EntryType::Block, "dev/sda"),
        special(EntryType::Fifo, "pipe"),
        file("file", "1"),
    ])]);
    assert_eq!(made.outcome.as_ref().unwrap().left_out, 3);
    assert_eq!(made.names(), ["file"]);
    let odd = Of(EntryType::new(b'V'), "x", "", b"", 0o644);
    Made::of(&[layer(&[odd])]).refused("of a kind");
}

#[test]
fn long_names_are_read_in_both_forms() {
    let long = format!("{}/file", ["directory"; 30].join("/"));
    let mut gnu = Builder::new(Vec::new());
    let mut head = header(EntryType::Regular, b"", b"", 1, 0o644);
    gnu.append_data(&mut head, &long, b"g".as_slice()).unwrap();
    let made = Made::of(&[gnu.into_inner().unwrap()]);
    assert_eq!(made.text(&long).unwrap(), "g");

    let mut pax = Builder::new(Vec::new());
    let path = [("path", long.as_bytes())];
    pax.append_pax_extensions(path).unwrap();
    pax.append(
        &header(EntryType::Regular, b"short", b"", 1, 0o644),
        b"p".as_slice(),
    )
    .unwrap();
    let made = Made::of(&[pax.into_inner().unwrap()]);
    assert_eq!(made.text(&long).unwrap(), "p");

    let mut sparse = Builder::new(Vec::new());
    sparse
        .append_pax_extensions([("GNU.sparse.major", b"1".as_slice())])
        .unwrap();
    sparse
        .append(
            &header(EntryType::Regular, b"s", b"", 1, 0o644),
            b"p".as_slice(),
        )
        .unwrap();
    Made::of(&[sparse.into_inner().unwrap()]).refused("sparse");

    let mut out = Builder::new(Vec::new());
    out.append_pax_extensions([("path", b"../../out".as_slice())])
        .unwrap();
    out.append(
        &header(EntryType::Regular, b"short", b"", 1, 0o644),
        b"p".as_slice(),
    )
    .unwrap();
    Made::of(&[out.into_inner().unwrap()]).refused("leads out");
}

#[test]
fn a_layer_may_be_packed_in_three_ways() {
    use std::io::Write as _;
    let plain = layer(&[file("a", "text")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let mut zstd = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut zstd, &plain, 1).unwrap();
    let gzip = gzip.finish().unwrap();
    for packed in [&plain, &gzip, &zstd] {
        assert_eq!(
            Made::of(std::slice::from_ref(packed)).text("a").unwrap(),
            "text"
        );
    }
    let frames = [zstd.as_slice(), &zstd].concat();
    assert_eq!(Made::of(&[frames]).text("a").unwrap(), "text");
    for packed in [gzip, zstd] {
        let mut broken = packed.clone();
        let middle = broken.len() / 2;
        broken[middle] ^= 0xff;
        assert!(Made::of(&[broken]).outcome.is_err());
        assert!(Made::of(&[packed[..middle].to_vec()]).outcome.is_err());
    }
}

#[test]
fn what_breaks_off_is_refused() {
    let whole = layer(&[file("a", "text"), file("b", "more")]);
    // Within the first file's octets, and within the second header.
    for end in [514, 1024 + 100] {
        Made::of(&[whole[..end].to_vec()]).outcome.unwrap_err();
    }
    let said = words(&whole);
    for end in 0..said.len() {
        let place = tempfile::tempdir().unwrap();
        let mut unpacking = Unpacking::into_directory(place.path(), Limits::DEFAULT).unwrap();
        assert!(unpacking.layer(&said[..end]).is_err(), "{end}");
    }
}

#[test]
fn bombs_are_refused_before_they_are_written() {
    let limits = Limits {
        unpacked: 1 << 20,
        entries: 50,
        depth: 10,
        path: 60,
        ..Limits::DEFAULT
    };
    let huge = header(EntryType::Regular, b"huge", b"", 1 << 40, 0o644);
    let made = Made::within(&[huge.as_bytes().to_vec()], limits);
    made.refused("more than 1048576 octets");
    assert_eq!(made.names(), [""; 0]);
    // A thousand million octets in a few thousand: the second gets to no file.
    let ten = "x".repeat(600_000).leak();
    let made = Made::within(
        &[layer(&[file("a", ten)]), layer(&[file("b", ten)])],
        limits,
    );
    made.refused("octets");
    assert_eq!(made.names(), ["a"]);
    let many: Vec<Of> = (0..60).map(|n| file(format!("f{n}").leak(), "")).collect();
    Made::within(&[layer(&many)], limits).refused("more than 50 entries");
    let many: Vec<Of> = (0..9)
        .map(|n| directory(format!("{n}/a/b/c/d/e/f/g/h/").leak()))
        .collect();
    Made::within(&[layer(&many)], limits).refused("more than 50 entries");
    Made::within(&[layer(&[directory("a/b/c/d/e/f/g/h/i/j/k")])], limits).refused("too deep");
    let long = format!("{}/x", "y".repeat(70)).leak();
    Made::within(&[layer(&[file(long, "")])], limits).refused("too long");
}

#[test]
fn a_sparse_file_counts_by_what_it_becomes() {
    let mut head = header(EntryType::GNUSparse, b"sparse", b"", 512, 0o644);
    let gnu = head.as_gnu_mut().unwrap();
    gnu.sparse[0].offset[..12].copy_from_slice(b"00000000000\0");
    gnu.sparse[0].numbytes[..12].copy_from_slice(b"00000001000\0");
    gnu.sparse[1].offset[..12].copy_from_slice(b"00020000000\0");
    gnu.sparse[1].numbytes[..12].copy_from_slice(b"00000000000\0");
    gnu.realsize[..12].copy_from_slice(b"00020000000\0");
    head.set_cksum();
    let layer = [head.as_bytes().as_slice(), &[b'x'; 512], &[0; 1024]].concat();
    let limits = Limits {
        unpacked: 1 << 20,
        ..Limits::DEFAULT
    };
    Made::within(&[layer], limits).refused("octets");
}

#[test]
fn what_was_there_before_is_no_way_out_either() {
    // Nobody else writes there; if somebody did, the kernel refuses all the same.
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, root.join("usr")).unwrap();
    let mut unpacking = Unpacking::into_directory(&root, Limits::DEFAULT).unwrap();
    let said = words(&layer(&[file("usr/x", "1")]));
    assert!(unpacking.layer(said.as_slice()).is_err());
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn names_are_counted_and_only_so_many_are_taken() {
    let limits = Limits {
        names: 100,
        ..Limits::DEFAULT
    };
    let links = |count: usize| -> Vec<Of> {
        let names = (10..10 + count).map(|n| link(format!("l{n}").leak(), "where"));
        names.collect()
    };
    assert!(Made::within(&[layer(&links(12))], limits).outcome.is_ok());
    Made::within(&[layer(&links(6)), layer(&links(7))], limits)
        .refused("more than 100 octets of names");
}

#[test]
fn a_directory_is_looked_through_once_in_a_layer() {
    let place = tempfile::tempdir().unwrap();
    let mut unpacking = Unpacking::into_directory(place.path(), Limits::DEFAULT).unwrap();
    let upper = layer(&[file("a/b/new", "2"), file("a/.wh..wh..opq", "")]);
    unpacking.layer(words(&upper).as_slice()).unwrap();
    // Of a lower layer it could not be; what is not looked at again stays.
    let planted = place.path().join("a/b/planted");
    fs::write(&planted, "").unwrap();
    let mut again = unpacking;
    let path = [b"a".to_vec(), b"b".to_vec()];
    for path in [&path[..1], &path[..]] {
        let directory = open_directory(&again.root, path).unwrap();
        again.prune(&directory, path).unwrap();
        assert!(planted.exists());
    }
    // The next layer looks.
    again.layer(words(&upper).as_slice()).unwrap();
    assert!(!planted.exists());
}

#[test]
fn a_name_that_cannot_be_said_is_refused_with_words() {
    let mut archive = Builder::new(Vec::new());
    let long = vec![b'x'; 70_000];
    archive
        .append_pax_extensions([("path", long.as_slice())])
        .unwrap();
    let short = header(EntryType::Regular, b"short", b"", 0, 0o644);
    archive.append(&short, b"".as_slice()).unwrap();
    Made::of(&[archive.into_inner().unwrap()]).refused("a name that is too long");
}
