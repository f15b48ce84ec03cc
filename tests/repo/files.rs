//! How files are named, how long they are, how they begin, what they must not hold.

use std::path::{Path, PathBuf};

use super::{all_files, read, sources};

#[test]
fn no_file_is_longer_than_500_lines() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > 500)
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn no_file_has_a_name_that_says_nothing() {
    let banned = [
        "utils", "util", "common", "helpers", "helper", "misc", "types", "mod",
    ];
    let bad: Vec<_> = sources()
        .into_iter()
        .filter(|path| {
            path.file_stem()
                .is_some_and(|stem| banned.iter().any(|name| stem == *name))
        })
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|path| !read(path).starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "these do not open with //!: {silent:?}");
}

#[test]
fn unsafe_code_has_its_few_homes() {
    let homes = |path: &Path| {
        path == Path::new("sandbox/src/sys.rs")
            || path == Path::new("netns/src/sys.rs")
            // Memory that the allocator does not know: locked, undumpable, wiped.
            || path == Path::new("vault/src/sys.rs")
            || path.starts_with("sandbox/src/sys")
            || path.starts_with("netns/src/sys")
            || path.starts_with("sandbox/bootstrap")
    };
    let word = ["uns", "afe"].concat();
    let used = |text: &str| {
        text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            let found = format!("{word} {{");
            let declared = [
                format!("{word} fn"),
                format!("{word} impl"),
                format!("{word} extern"),
            ];
            code.contains(&found) || declared.iter().any(|form| code.contains(form))
        })
    };
    let bad: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|path| !homes(path) && used(&read(path)))
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn nothing_is_left_unfinished() {
    let words = [
        ["to", "do!"].concat(),
        ["unimple", "mented!"].concat(),
        ["FIX", "ME"].concat(),
    ];
    let unfinished: Vec<_> = sources()
        .into_iter()
        .filter(|path| words.iter().any(|word| read(path).contains(word)))
        .collect();
    assert!(unfinished.is_empty(), "{unfinished:?}");
}

/// Where this repository was written is nobody's business.
#[test]
fn no_file_names_a_machine_or_a_registry() {
    // Put together here, so that this file does not hold them either.
    let words = [
        ["/wo", "rk/wt"].concat(),
        ["/wo", "rk/main"].concat(),
        ["/wo", "rk/shared"].concat(),
        ["/root/.", "cargo"].concat(),
        ["py", "pi.org"].concat(),
        ["pythonhosted", ".org"].concat(),
        ["npmjs", ".org"].concat(),
        ["deb.debian", ".org"].concat(),
        ["static.crates", ".io"].concat(),
        ["/tmp/b", "in/"].concat(),
    ];
    let lock = |path: &Path| path.file_name().is_some_and(|name| name == "Cargo.lock");
    let mut bad = Vec::new();
    for path in all_files().into_iter().filter(|path| !lock(path)) {
        let text = read(&path);
        bad.extend(
            words
                .iter()
                .filter(|word| text.contains(*word))
                .map(|word| (path.clone(), word.clone())),
        );
    }
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn the_files_that_users_look_for_are_there() {
    let files = all_files();
    for name in [
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "deploy/quickstart",
        "tests/run",
        ".ci/run",
        "tests/GUARANTEES.md",
    ] {
        assert!(
            files.iter().any(|path| path == Path::new(name)),
            "{name} is missing"
        );
    }
}

/// Elsewhere the build ends with a sentence, in each place that a build may come to first.
#[test]
fn what_is_no_linux_is_refused_by_name() {
    for (path, word) in [
        ("gig/src/main.rs", "compile_error!(\"gig needs Linux"),
        ("netns/src/lib.rs", "compile_error!(\"gig needs Linux"),
        ("sandbox/build.rs", "Err(\"gig needs Linux"),
    ] {
        let text = read(path.as_ref());
        let guard = text.split_once(word).map(|(before, _)| before);
        let guarded = guard.is_some_and(|before| {
            let lines = before.lines().rev().take(3).collect::<Vec<_>>().join(" ");
            lines.contains("not(target_os = \"linux\")") || lines.contains("!= Ok(\"linux\")")
        });
        assert!(guarded, "{path}: no guard around {word}");
    }
}
