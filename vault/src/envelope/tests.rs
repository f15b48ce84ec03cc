//! Every field of a row matters; no row takes another's place.

use super::*;

fn draft(owner: &str, name: &str, version: u64) -> Draft {
    Draft {
        owner: owner.into(),
        name: name.into(),
        version,
        created: 1_700_000_000,
        expires: Some(1_800_000_000),
        supersedes: false,
    }
}

fn sealed(master: &MasterKey, custody: Option<&Key>, draft: Draft) -> VersionRow {
    let value = SecretBytes::from("hunter2 of ").expose().to_vec();
    let value = [value, draft.name.as_bytes().to_vec()].concat();
    seal_version(master, custody, draft, &SecretBytes::new(value)).unwrap()
}

type Edit = fn(&mut VersionRow);

/// Every way to change one field of a version.
fn edits() -> Vec<(&'static str, Edit)> {
    vec![
        ("owner", |row| row.owner = "other".into()),
        ("name", |row| row.name = "OTHER".into()),
        ("version", |row| row.version += 1),
        ("created", |row| row.created += 1),
        ("expires", |row| row.expires = None),
        ("retires", |row| row.retires = Some(5)),
        ("revoked", |row| row.revoked = Some(5)),
        ("custody", |row| row.custody = !row.custody),
        ("format", |row| row.format += 1),
        ("key", |row| {
            row.key = crate::master_key::KeyId::from_row("x".to_owned())
        }),
        ("wrapped nonce", |row| row.wrapped.nonce[0] ^= 1),
        ("value nonce", |row| row.value.nonce[0] ^= 1),
    ]
}

#[test]
fn a_version_opens_with_its_own_key_only() {
    let master = MasterKey::random().unwrap();
    let row = sealed(&master, None, draft("local", "A", 1));
    let value = open_version(&master, None, &row).unwrap();
    assert_eq!(value, SecretBytes::from("hunter2 of A"));
    assert!(open_version(&MasterKey::random().unwrap(), None, &row).is_err());
}

/// Who learns one data key has one version: of no other secret, not the version after it, nor the same value
/// sealed once more, in custody or not.
#[test]
fn every_version_has_a_data_key_of_its_own() {
    let master = MasterKey::random().unwrap();
    let custody = Key::random().unwrap();
    let mut rows = Vec::new();
    for custody in [None, Some(&custody)] {
        for (name, version) in [("A", 1), ("A", 1), ("A", 2), ("B", 1)] {
            rows.push(sealed(&master, custody, draft("local", name, version)));
        }
    }
    let data_key = |row: &VersionRow| {
        let inner = unwrap(&master, row).unwrap();
        let inner = match row.custody {
            true => {
                let sealed = Sealed::from_row(inner.expose()).unwrap();
                let bound = context(row, "custody");
                custody.open(&sealed, bound.as_slice()).unwrap()
            }
            false => inner,
        };
        Key::of(inner).unwrap()
    };
    for (i, row) in rows.iter().enumerate() {
        let key = data_key(row);
        for (j, other) in rows.iter().enumerate() {
            let opened = key.open(&other.value, context(other, "value").as_slice());
            assert_eq!(opened.is_ok(), i == j, "{i} {j}");
        }
    }
}

#[test]
fn every_changed_field_of_a_row_is_found() {
    let master = MasterKey::random().unwrap();
    let row = sealed(&master, None, draft("local", "A", 1));
    for (field, edit) in edits() {
        let mut edited = row.clone();
        edit(&mut edited);
        assert!(open_version(&master, None, &edited).is_err(), "{field}");
    }
    for at in 0..row.value.octets.len() {
        let mut edited = row.clone();
        edited.value.octets[at] ^= 0x40;
        assert!(open_version(&master, None, &edited).is_err(), "value {at}");
    }
    for at in 0..row.wrapped.octets.len() {
        let mut edited = row.clone();
        edited.wrapped.octets[at] ^= 0x40;
        assert!(
            open_version(&master, None, &edited).is_err(),
            "wrapped {at}"
        );
    }
    for at in 0..row.tag.len() {
        let mut edited = row.clone();
        edited.tag[at] ^= 0x40;
        assert!(open_version(&master, None, &edited).is_err(), "tag {at}");
    }
}

/// Even who can write tags (or if there were none) cannot move what is sealed: the sealing itself is
/// bound to its place.
#[test]
fn what_is_sealed_is_bound_to_its_place_without_the_tag() {
    let master = MasterKey::random().unwrap();
    let row = sealed(&master, None, draft("local", "A", 1));
    let bound = [
        "owner",
        "name",
        "version",
        "custody",
        "format",
        "key",
        "wrapped nonce",
        "value nonce",
    ];
    for (field, edit) in edits() {
        let mut edited = row.clone();
        edit(&mut edited);
        edited.tag = version_tag(&master, &edited);
        let opened = open_version(&master, None, &edited);
        assert_eq!(opened.is_err(), bound.contains(&field), "{field}");
    }
}

#[test]
fn rows_and_parts_of_rows_cannot_be_swapped() {
    let master = MasterKey::random().unwrap();
    let drafts = [
        draft("local", "A", 1),
        draft("local", "B", 1),
        draft("local", "A", 2),
        draft("other", "A", 1),
    ];
    let rows: Vec<VersionRow> = drafts
        .into_iter()
        .map(|d| sealed(&master, None, d))
        .collect();
    for (i, here) in rows.iter().enumerate() {
        for (_, there) in rows.iter().enumerate().filter(|(j, _)| *j != i) {
            let mut parts = vec![here.clone(), here.clone(), here.clone(), here.clone()];
            parts[0].value = there.value.clone();
            parts[1].wrapped = there.wrapped.clone();
            parts[2].value = there.value.clone();
            parts[2].wrapped = there.wrapped.clone();
            parts[3].value = there.value.clone();
            parts[3].wrapped = there.wrapped.clone();
            parts[3].tag = there.tag.clone();
            for mut mixed in parts {
                assert!(open_version(&master, None, &mixed).is_err());
                mixed.tag = version_tag(&master, &mixed);
                assert!(open_version(&master, None, &mixed).is_err());
            }
        }
    }
}

#[test]
fn custody_takes_both_keys() {
    let master = MasterKey::random().unwrap();
    let custody = Key::random().unwrap();
    let row = sealed(&master, Some(&custody), draft("local", "A", 1));
    assert!(open_version(&master, Some(&custody), &row).is_ok());
    assert!(open_version(&master, None, &row).is_err());
    assert!(open_version(&master, Some(&Key::random().unwrap()), &row).is_err());
    assert!(open_version(&MasterKey::random().unwrap(), Some(&custody), &row).is_err());
    // What the master key alone gives is not the data key.
    let inner = unwrap(&master, &row).unwrap();
    assert!(Key::of(inner).is_none());
}

#[test]
fn a_rewrapped_row_opens_with_the_new_key_alone() {
    let (old, new) = (MasterKey::random().unwrap(), MasterKey::random().unwrap());
    let custody = Key::random().unwrap();
    for custody in [None, Some(&custody)] {
        let row = sealed(&old, custody, draft("local", "A", 1));
        let moved = rewrap(&old, &new, &row).unwrap();
        assert_eq!(moved.value, row.value, "the value is not sealed again");
        assert!(open_version(&new, custody, &moved).is_ok());
        assert!(open_version(&old, custody, &moved).is_err());
    }
}

#[test]
fn a_link_leads_from_its_holder_to_the_other_key_only() {
    let (old, new) = (MasterKey::random().unwrap(), MasterKey::random().unwrap());
    let row = KeyRow {
        id: old.id().clone(),
        created: 0,
        state: crate::store::KeyState::Past,
        other: Some(link(&old, &new).unwrap()),
        other_id: Some(new.id().clone()),
        until: None,
    };
    assert_eq!(follow(&old, &row).unwrap().id(), new.id());
    assert!(follow(&new, &row).is_none());
    let wrong = KeyRow {
        other_id: Some(old.id().clone()),
        ..row
    };
    assert!(follow(&old, &wrong).is_none());
}

#[test]
fn definitions_and_custodies_are_authenticated() {
    let master = MasterKey::random().unwrap();
    let secret = SecretRow {
        owner: "local".into(),
        name: "A".into(),
        definition: "{}".to_owned(),
        given: 0,
        created: 1,
        removed: None,
        key: master.id().clone(),
        tag: Vec::new(),
    };
    let secret = tagged_secret(&master, secret);
    assert!(check_secret(&master, &secret).is_ok());
    let edits: [fn(&mut SecretRow); 6] = [
        |row| row.owner = "other".into(),
        |row| row.name = "B".into(),
        |row| row.definition = "{\"entrusted\":true}".to_owned(),
        |row| row.created = 2,
        |row| row.removed = Some(1),
        |row| row.given = 1,
    ];
    for edit in edits {
        let mut edited = secret.clone();
        edit(&mut edited);
        assert!(check_secret(&master, &edited).is_err());
    }
    let custody = CustodyRow {
        owner: "local".into(),
        salt: vec![1; 16],
        memory: 65536,
        passes: 3,
        lanes: 4,
        check: empty(),
        key: master.id().clone(),
        tag: Vec::new(),
    };
    let custody = tagged_custody(&master, custody);
    assert!(check_custody(&master, &custody).is_ok());
    let weaker = CustodyRow {
        passes: 1,
        ..custody
    };
    assert!(check_custody(&master, &weaker).is_err());
}
