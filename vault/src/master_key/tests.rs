//! Where a master key comes from, what is none, and where its digits are found.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn parse(text: &str) -> Result<MasterKey, MasterKeyError> {
    MasterKey::parse(&SecretBytes::from(text), "GIG_MASTER_KEY")
}

#[test]
fn a_key_is_found_in_a_text_wherever_it_came_from() {
    let digits = "0123456789abcdefABCDEF0123456789".repeat(2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let named = MasterKeySource::Variable {
        name: "GIG_MASTER_KEY",
        value: SecretBytes::new(format!("{digits}\n").into_bytes()),
    };
    let file = MasterKeySource::File(path.clone());
    let text = format!("key={}, more", digits.to_lowercase());
    assert_eq!(file.found_in(text.as_bytes()), None);
    fs::write(&path, &digits).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for (source, place) in [
        (named, "GIG_MASTER_KEY".to_owned()),
        (file, path.display().to_string()),
        (
            MasterKeySource::Default(path.clone()),
            path.display().to_string(),
        ),
    ] {
        assert_eq!(source.found_in(text.as_bytes()), Some(place));
        let (part, _) = digits.split_at(63);
        assert_eq!(source.found_in(part.as_bytes()), None);
    }
}

#[test]
fn a_key_is_64_hexadecimal_digits_and_nothing_else() {
    let good = "0123456789abcdefABCDEF0123456789".repeat(2);
    assert_eq!(
        parse(&good).unwrap().id(),
        parse(&format!("{good}\n")).unwrap().id()
    );
    let long = format!("{good}00");
    let signs = "+1".repeat(32);
    let other = "g".repeat(64);
    let (short, _) = good.split_at(63);
    let blank = format!(" {short}");
    for bad in [
        "",
        "\n",
        short,
        &long,
        &signs,
        &other,
        &blank,
        &"é".repeat(32),
    ] {
        let error = parse(bad).unwrap_err().to_string();
        assert!(
            error.contains("GIG_MASTER_KEY") && error.contains("64"),
            "{error}"
        );
        assert!(
            bad.is_empty() || bad == "\n" || !error.contains(bad),
            "{error}"
        );
    }
}

#[test]
fn two_variables_contradict_each_other() {
    let both = MasterKeySource::from_env(|_| Some("x".into()), Path::new("/nowhere"));
    assert!(matches!(both, Err(MasterKeyError::Both { .. })));
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    assert!(write_new(&path, &MasterKey::random().unwrap()).unwrap());
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    for mode in [0o640, 0o604, 0o660, 0o777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(
            read_file(&path),
            Err(MasterKeyError::Readable { .. })
        ));
    }
}

#[test]
fn a_key_file_is_made_once_and_never_when_something_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    let source = MasterKeySource::Default(path.clone());
    let wanted = KeyId::from_row("0".repeat(16));
    assert!(matches!(
        source.read(Some(&wanted)),
        Err(MasterKeyError::Missing { .. })
    ));
    assert!(!path.exists());
    let made = source.read(None).unwrap();
    assert_eq!(made.made.as_deref(), Some(path.as_path()));
    let again = source.read(Some(made.key.id())).unwrap();
    assert_eq!(again.key.id(), made.key.id());
    assert_eq!(again.made, None);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
