//! What a person should know before a program starts, and may have meant otherwise.

use std::path::{Path, PathBuf};

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
}
