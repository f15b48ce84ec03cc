//! What a person should know before a program starts, and may have meant otherwise.

use std::path::{Path, PathBuf};

use gig_policy::{Moment, Policy};
use gig_sandbox::{Bind, BindMode, Enforcement, Layer, LayerReport};

use crate::args::value::BindArg;

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

/// Of writable folders those that are named by a link: a program may have laid it, and where it leads is shown.
pub(super) fn of_links(writable: &[BindArg]) -> Vec<String> {
    // A slash behind the name would follow the link.
    let named = writable.iter().map(|arg| arg.source.components().collect());
    let links = named.filter(|path: &PathBuf| {
        path.symlink_metadata()
            .is_ok_and(|found| found.is_symlink())
    });
    let told = |link: PathBuf| {
        let leads_to = link.canonicalize().ok()?;
        let (link, leads_to) = (link.display(), leads_to.display());
        Some(format!(
            "{link} is a link: the program may write {leads_to}"
        ))
    };
    links.filter_map(told).collect()
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
    let named = covered.iter().take(MOST_NAMED);
    let names: Vec<String> = named.map(|(path, _)| path.display().to_string()).collect();
    let others = match covered.len().saturating_sub(names.len()) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "the program does not see {}{others}: programs keep credentials there; what needs such a file and holds \
         none is shown a copy of it (--ro COPY:{})",
        names.join(", "),
        inside.display()
    ))
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
    fn a_writable_folder_that_is_named_by_a_link_is_told_with_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let arg = |text: &str| crate::args::value::bind(text).unwrap();
        let (real, link) = (real.to_str().unwrap(), link.to_str().unwrap());
        assert!(of_links(&[arg(real), arg(&format!("{real}:/out"))]).is_empty());
        for named in [link.to_owned(), format!("{link}/"), format!("{link}:/out")] {
            let [told] = of_links(&[arg(&named)]).try_into().unwrap();
            assert!(
                told.contains("/link is a link: ") && told.ends_with("/real"),
                "{told}"
            );
        }
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
        let told = of_covered(&paths).unwrap();
        assert!(
            told.contains("/host/w/.circleci, /host/w/a/.npmrc, /host/w/b/.npmrc and 1 more:"),
            "{told}"
        );
    }
}
