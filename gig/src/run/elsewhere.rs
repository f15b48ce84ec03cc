//! Where a program is that a sandbox does not have: on the host, by gig's own PATH.
//!
//! Looks at names and modes alone, and shows nothing: what to show is for the caller to say.

use std::{
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use gig_sandbox::Bind;

/// What was meant by a program that is nowhere: a line for a shell, as one word or by one of its own commands.
pub(crate) fn meant(program: &OsStr, args: &[OsString]) -> Option<String> {
    let name = program.to_string_lossy();
    let mut words = name.split_whitespace();
    let first = words.next()?;
    if args.is_empty() && words.next().is_some() {
        let quoted = format!("'{}'", name.replace('\'', "'\\''"));
        return Some(format!(
            "{quoted} is one word here: leave the quotes out, or have a shell read it (-- sh -c {quoted})"
        ));
    }
    BUILT_IN.contains(&first).then(|| {
        format!(
            "{first} is a command of a shell's own: have one run it (-- sh -c '{first} … && …')"
        )
    })
}

/// What shows `program` inside, where `search` (a PATH) has it and `binds` do not show it; `None` where it is
/// nowhere. One that is named by a path is looked for there.
/// With the directory in which it starts inside, where one was said.
pub(crate) fn hint(
    program: &OsStr,
    search: Option<&OsStr>,
    (binds, workdir): (&[Bind], Option<&Path>),
) -> Option<String> {
    if program.as_encoded_bytes().contains(&b'/') {
        return named_by_path(Path::new(program), binds, workdir);
    }
    if program.is_empty() {
        return None;
    }
    let found = std::env::split_paths(search?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|file| is_program(file))?;
    let folder = found.parent()?.to_owned();
    // A link leads to where it lies, which may be somewhere else.
    let real = found.canonicalize().ok()?;
    let mut needed: Vec<PathBuf> = Vec::new();
    for path in [folder, real] {
        let shown = is_shown(&path, binds) || needed.iter().any(|other| path.starts_with(other));
        if !shown {
            needed.push(path);
        }
    }
    let options: Vec<String> = needed
        .iter()
        .map(|path| format!("--ro {}", path.display()))
        .collect();
    let (name, found) = (program.display(), found.display());
    Some(if options.is_empty() {
        format!(
            "{name} is {found} on this host, which the program's own PATH does not have: run it by that path"
        )
    } else {
        format!(
            "{name} is {found} on this host, and not shown inside: show it with {}, and run it by that path",
            options.join(" ")
        )
    })
}

/// Of a program in a folder of the host's, which a sandbox sees where it is shown alone; `None` where it is there and
/// something else is missing.
fn named_by_path(program: &Path, binds: &[Bind], workdir: Option<&Path>) -> Option<String> {
    let found = program
        .canonicalize()
        .ok()
        .filter(|file| is_program(file))?;
    let shown = binds.iter().find_map(|bind| {
        let below = found.strip_prefix(bind.source.canonicalize().ok()?).ok()?;
        // A file that is shown alone is its own place: joining nothing would make a folder of it.
        Some(match below.as_os_str().is_empty() {
            true => bind.dest.clone(),
            false => bind.dest.join(below),
        })
    });
    let (name, found_at) = (program.display(), found.display());
    match shown {
        Some(inside) if inside == program => None,
        // It was found there, and what starts it was not.
        Some(inside) if workdir.is_some_and(|start| start.join(program) == inside) => {
            Some(format!(
                "{name} is there inside: what is missing is the interpreter that its first line names (a line that ends in CR LF \
                 names none), or a library's loader"
            ))
        }
        Some(inside) => Some(format!(
            "{name} is {found_at} on this host, and {} inside: run it by that path, or start in its folder (--workdir)",
            inside.display()
        )),
        None if is_shown(&found, binds) => None,
        None => Some(format!(
            "{name} is {found_at} on this host, which is not shown inside: show it, or the folder that it needs \
             (--ro '{found_at}'), and run it as {found_at}"
        )),
    }
}

fn is_program(file: &Path) -> bool {
    let meta = file.metadata();
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// By what is named, or with the system.
fn is_shown(path: &Path, binds: &[Bind]) -> bool {
    let system = ["/usr", "/bin", "/sbin"];
    system.iter().any(|place| path.starts_with(place))
        || binds.iter().any(|bind| path.starts_with(&bind.dest))
}

/// What shells do themselves, where no program of that name is usual.
const BUILT_IN: [&str; 13] = [
    "cd", "source", "export", "alias", "ulimit", "umask", "exec", "eval", "set", "unset", "trap",
    "wait", "jobs",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use gig_sandbox::BindMode;

    use super::*;

    #[test]
    fn what_was_meant_for_a_shell_is_told() {
        let told = |program: &str, args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(Into::into).collect();
            meant(program.as_ref(), &args).unwrap_or_default()
        };
        assert!(told("curl https://x", &[]).contains("-- sh -c 'curl https://x'"));
        assert!(told("echo it's", &[]).contains(r"-- sh -c 'echo it'\''s'"));
        assert!(told("cd", &["/tmp"]).contains("a shell's own"));
        assert_eq!(told("curl https://x", &["-s"]), "");
        for program in ["curl", "/opt/tool", "", " "] {
            assert_eq!(told(program, &[]), "", "{program}");
        }
    }

    #[test]
    fn what_the_host_alone_has_is_told_with_what_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (bin, opt) = (root.join("bin"), root.join("opt"));
        for path in [&bin, &opt] {
            fs::create_dir(path).unwrap();
        }
        let mode = |path: &Path, mode| {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&bin.join("tool"), 0o755);
        mode(&bin.join("text"), 0o644);
        mode(&opt.join("far"), 0o755);
        std::os::unix::fs::symlink(opt.join("far"), bin.join("linked")).unwrap();
        let search = std::env::join_paths([Path::new("relative"), &bin]).unwrap();
        let ask = |name: &str, binds: &[Bind]| hint(name.as_ref(), Some(&search), (binds, None));
        let (bin_word, opt_word) = (bin.display(), opt.display());
        let told = ask("tool", &[]).unwrap();
        assert!(
            told.contains(&format!("show it with --ro {bin_word}, and")),
            "{told}"
        );
        let told = ask("linked", &[]).unwrap();
        let both = format!("--ro {bin_word} --ro {opt_word}/far, and");
        assert!(told.contains(&both), "{told}");
        let shown = Bind {
            source: bin.clone(),
            dest: bin.clone(),
            mode: BindMode::Ro,
        };
        let told = ask("tool", &[shown]).unwrap();
        assert!(!told.contains("--ro") && told.contains("PATH"), "{told}");
        let by_path = bin.join("tool");
        let ask_path = |binds: &[Bind]| hint(by_path.as_os_str(), None, (binds, None));
        let told = ask_path(&[]).unwrap();
        assert!(
            told.contains(&format!(
                "(--ro '{bin_word}/tool'), and run it as {bin_word}/tool"
            )),
            "{told}"
        );
        let shown = Bind {
            source: bin.clone(),
            dest: "/w".into(),
            mode: BindMode::Ro,
        };
        let told = ask_path(&[shown]).unwrap();
        assert!(told.contains("and /w/tool inside"), "{told}");
        let alone = Bind {
            source: bin.join("tool"),
            dest: "/t".into(),
            mode: BindMode::Ro,
        };
        let told = ask_path(&[alone]).unwrap();
        assert!(
            told.contains("and /t inside: run it by that path"),
            "{told}"
        );
        // Single dots are none to who compares paths.
        assert!(Path::new("/w").join("./tool") == Path::new("/w/tool"));
        assert!(Path::new("/tmp").join("./tool") != Path::new("/w/tool"));
        for name in ["text", "absent", "./no-such-tool", ""] {
            assert_eq!(ask(name, &[]), None, "{name}");
        }
        assert_eq!(hint("tool".as_ref(), None, (&[], None)), None);
    }
}
