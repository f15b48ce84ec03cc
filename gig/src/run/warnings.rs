//! What a person should know before a program starts, and may have meant otherwise.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gig_policy::{Moment, Policy};
use gig_sandbox::{Bind, BindMode, Enforcement, Layer, LayerReport};

/// Of the files that gig was told to obey those that the program may write: the next run would do as it wrote.
pub(super) fn of_writable<'a>(
    obeyed: impl Iterator<Item = &'a PathBuf>,
    binds: &[Bind],
) -> Vec<String> {
    let writable = |file: &Path| {
        let mut binds = binds.iter();
        binds.find(|bind| bind.mode == BindMode::Rw && file.starts_with(&bind.source))
    };
    let files = obeyed.filter_map(|file| file.canonicalize().ok());
    files
        .filter_map(|file| {
            let bind = writable(&file)?;
            Some(format!(
                "{} lies in {}, which the program may write (--rw): the next run would obey what it wrote there; \
                 keep it elsewhere",
                file.display(),
                bind.source.display()
            ))
        })
        .collect()
}

/// Of what is written to (folders of `--rw`, the record) what is named by way of a link that is not root's: a program may
/// have laid it, and where it leads is written to.
pub(super) fn of_links<'a>(written: impl Iterator<Item = &'a PathBuf>) -> Vec<String> {
    let told = |path: &PathBuf| {
        // A slash behind the last name would follow the link.
        let path: PathBuf = std::path::absolute(path).ok()?.components().collect();
        let link = path.ancestors().find(|part| {
            let found = part.symlink_metadata();
            found.is_ok_and(|found| found.is_symlink() && found.uid() != 0)
        })?;
        let leads_to = link.canonicalize().ok()?;
        let (path, link, leads_to) = (path.display(), link.display(), leads_to.display());
        Some(format!(
            "{link}, by which {path} is written to, is a link to {leads_to}"
        ))
    };
    written.filter_map(told).collect()
}

/// Of what is shown read-only what the program may write by another name.
pub(super) fn of_other_names(binds: &[Bind]) -> Vec<String> {
    let (shown, writable): (Vec<_>, Vec<_>) =
        binds.iter().partition(|bind| bind.mode == BindMode::Ro);
    let told = |kept: &&Bind| {
        let other = writable.iter().find_map(|open| {
            let below = kept.source.strip_prefix(&open.source).ok()?;
            let name = open.dest.join(below);
            let covers = shown
                .iter()
                .any(|one| name.starts_with(&one.dest) && kept.source.starts_with(&one.source));
            (!covers).then_some(name)
        })?;
        Some(format!(
            "{} is shown read-only as {}, and the program may write it as {} (--rw)",
            kept.source.display(),
            kept.dest.display(),
            other.display()
        ))
    };
    shown
        .iter()
        .copied()
        .filter_map(|kept| told(&kept))
        .collect()
}

/// Of rules that have ended before the start: what they allowed is denied as what no rule allows.
pub(super) fn of_expired(document: Option<&Path>, policy: &Policy) -> Vec<String> {
    let now = Moment::from_unix(jiff::Timestamp::now().as_second());
    let ended = policy.expired(now).into_iter();
    let name = document.map_or_else(String::new, |path| format!("{}:", path.display()));
    ended.map(|finding| format!("{name}{finding}")).collect()
}

/// Of mounts that are not seen inside.
pub(super) fn of_mounts(layers: &[LayerReport]) -> Option<String> {
    let mounts = layers.iter().find(|report| report.layer == Layer::Mounts)?;
    match &mounts.enforcement {
        Enforcement::Partial { missing } => Some(format!(
            "{missing}, where nothing of the host's is shown: choose another place inside"
        )),
        Enforcement::Enforced | Enforcement::Off { .. } => None,
    }
}

/// Of what a project has and the program does not see.
pub(super) fn of_covered(covered: &[(PathBuf, PathBuf)]) -> Option<String> {
    let (_, inside) = covered.first()?;
    let mut names: Vec<String> = Vec::new();
    for (path, _) in covered {
        // A folder may be shown at two places.
        let name = path.display().to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(format!(
        "the program does not see {}: programs keep credentials there. Where the program needs such a file, show it a \
         copy of it without the credentials (--ro COPY:{})",
        listed(names.into_iter(), MOST_NAMED),
        inside.display()
    ))
}

/// The first of them by name, and how many more there are.
pub(super) fn listed(names: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let others = match names.len().saturating_sub(most) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let named: Vec<String> = names.take(most).collect();
    named.join(", ") + &others
}

/// As many as are read.
const MOST_NAMED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_and_may_be_written_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("policy.yaml");
        std::fs::write(&file, "").unwrap();
        let bind = |mode| Bind {
            source: root.clone(),
            dest: "/src".into(),
            mode,
        };
        let told = |mode| of_writable([&file].into_iter(), &[bind(mode)]);
        assert!(told(BindMode::Ro).is_empty());
        let [warning] = told(BindMode::Rw).try_into().unwrap();
        assert!(warning.contains("policy.yaml"), "{warning}");
    }

    #[test]
    fn a_link_by_which_something_is_written_to_is_told_with_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("real/in")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        // As a program's would be; who is not root lays no other.
        let _by_root = std::os::unix::fs::lchown(at("link"), Some(1234), Some(1234));
        let told = |name: &str| of_links([at(name)].iter());
        assert!(told("real").is_empty() && told("real/in").is_empty());
        for named in ["link", "link/", "link/in", "link/absent.jsonl"] {
            let [told] = told(named).try_into().unwrap();
            assert!(
                told.contains("/link, by which ") && told.ends_with("/real"),
                "{told}"
            );
        }
    }

    #[test]
    fn what_is_shown_read_only_and_may_be_written_by_another_name_is_told() {
        let bind = |source: &str, dest: &str, mode| Bind {
            source: source.into(),
            dest: dest.into(),
            mode,
        };
        let (rw, ro) = (BindMode::Rw, BindMode::Ro);
        let told = |binds: &[Bind]| of_other_names(binds).len();
        let same = [bind("/p", "/p", rw), bind("/p/hooks", "/p/hooks", ro)];
        assert_eq!(told(&same), 0);
        let elsewhere = [bind("/p", "/work", rw), bind("/p/hooks", "/p/hooks", ro)];
        let [words] = of_other_names(&elsewhere).try_into().unwrap();
        assert!(words.contains("may write it as /work/hooks"), "{words}");
        let both = [same, [bind("/p", "/other", rw), bind("/q", "/q", ro)]].concat();
        assert_eq!(told(&both), 1);
    }

    #[test]
    fn what_is_covered_is_told_by_name_as_far_as_it_is_read() {
        let paths = [
            "/w/.npmrc",
            "/w/.circleci",
            "/w/a/.npmrc",
            "/w/b/.npmrc",
            "/w/c/.npmrc",
        ];
        let paths = paths.map(|path| (format!("/host{path}").into(), path.into()));
        assert_eq!(of_covered(&[]), None);
        let told = of_covered(&paths[..1]).unwrap();
        assert!(
            told.contains("see /host/w/.npmrc: ") && told.contains("--ro COPY:/w/.npmrc"),
            "{told}"
        );
        let twice = [paths[0].clone(), (paths[0].0.clone(), "/v/.npmrc".into())];
        let told = of_covered(&twice).unwrap();
        assert!(told.contains("see /host/w/.npmrc: "), "{told}");
        let told = of_covered(&paths).unwrap();
        assert!(
            told.contains("/host/w/.circleci, /host/w/a/.npmrc, /host/w/b/.npmrc and 1 more:"),
            "{told}"
        );
    }
}
