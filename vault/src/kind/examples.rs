//! The definitions that users copy from `deploy/examples/secrets` are definitions.

use std::{fs, path::Path};

use crate::definition::Definition;

#[test]
fn every_example_is_a_definition() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/secrets");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let definition =
            Definition::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let again = Definition::from_json(&definition.to_json()).unwrap();
        assert_eq!(again, definition, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 8);
}
