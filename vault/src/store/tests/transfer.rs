//! Everything goes from one store to another, or nothing.

use super::*;

fn full(place: &Place) -> Box<dyn Store> {
    let store = place.open();
    let changes = [
        Change::PutSecret(secret("A")),
        Change::PutVersion(version("A", 1)),
        Change::PutCustody(custody()),
        Change::PutKey(key("02", KeyState::Current)),
    ];
    let generation = store.generation().unwrap();
    store.commit(generation, &changes).unwrap();
    store
}

fn there(
    store: &dyn Store,
) -> (
    Vec<SecretRow>,
    Vec<VersionRow>,
    Vec<CustodyRow>,
    Vec<KeyRow>,
) {
    let all = store.snapshot().unwrap();
    (all.secrets, all.versions, all.custodies, all.keys)
}

#[test]
fn a_vault_goes_from_a_fleets_database_into_a_file_and_back() {
    let (fleet, file) = (Place::postgres(), Place::sqlite());
    let from = full(&fleet);
    let to = file.open();
    assert!(fill(&*to, &*from, false).unwrap());
    assert_eq!(there(&*to), there(&*from));
    // What came since is not lost by a copy that replaces nothing.
    put(&*from, &Change::PutSecret(secret("B")));
    assert!(!fill(&*from, &*to, false).unwrap());
    assert_eq!(there(&*from).0.len(), 2);
    assert!(fill(&*from, &*to, true).unwrap());
    assert_eq!(there(&*from), there(&*to));
    empty(&*to).unwrap();
    assert!(to.snapshot().unwrap().is_empty());
    // Even what belongs to nothing.
    put(&*to, &Change::PutVersion(version("Z", 3)));
    empty(&*to).unwrap();
    assert!(to.snapshot().unwrap().is_empty());
}
