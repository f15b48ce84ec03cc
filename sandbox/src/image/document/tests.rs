//! Documents of registries, honest and not.

use serde_json::{Value, json};

use super::*;

const OTHER: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn named(kind: &str, size: u64) -> Value {
    json!({"mediaType": kind, "digest": OTHER, "size": size})
}

fn parsed(document: &Value) -> Result<Document, DocumentError> {
    Document::parse(document.to_string().as_bytes(), "", &Limits::DEFAULT)
}

fn manifest_of(layers: &[Value]) -> Value {
    json!({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "annotations": {"any": "thing"},
        "config": named("application/vnd.oci.image.config.v1+json", 2), "layers": layers,
    })
}

#[test]
fn a_list_leads_to_this_machines_manifest_alone() {
    let entry = |os: &str, architecture: &str, size: u64| {
        let mut entry = named(MANIFEST_TYPES[0], size);
        entry["platform"] = json!({"os": os, "architecture": architecture});
        entry
    };
    let list = |entries: Vec<Value>| json!({"mediaType": INDEX_TYPES[0], "manifests": entries});
    let ours = list(vec![
        entry("windows", ARCHITECTURE, 1),
        entry("linux", "s390x", 2),
        entry("linux", ARCHITECTURE, 3),
    ]);
    let found = parsed(&ours).unwrap();
    assert!(
        matches!(found, Document::Index(Descriptor { size: 3, .. })),
        "{found:?}"
    );
    let words = parsed(&list(vec![entry("linux", "s390x", 2)]))
        .unwrap_err()
        .to_string();
    assert!(words.contains("\"linux/s390x\""), "{words}");
}

#[test]
fn what_is_no_image_is_refused() {
    let layer = LAYER_TYPES[1];
    assert!(matches!(
        parsed(&manifest_of(&[named(layer, 9)])),
        Ok(Document::Manifest(_))
    ));
    let many = vec![named(layer, 1); 129];
    let foreign = named(
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        1,
    );
    let mut both = manifest_of(&[]);
    both["manifests"] = json!([]);
    let mut no_kind = manifest_of(&[]);
    no_kind["mediaType"] = json!("text/html");
    let mut bad = manifest_of(&[named(layer, 1)]);
    bad["layers"][0]["digest"] = json!("sha256:../../x");
    let mut huge = manifest_of(&[]);
    huge["config"]["size"] = json!(1_u64 << 40);
    for wrong in [
        json!({}),
        json!([]),
        manifest_of(&many),
        manifest_of(&[named(layer, u64::MAX), named(layer, u64::MAX)]),
        manifest_of(&[foreign]),
        both,
        no_kind,
        bad,
        huge,
    ] {
        assert!(
            parsed(&wrong).is_err(),
            "{}",
            wrong.to_string().get(..200).unwrap_or_default()
        );
    }
}

#[test]
fn a_configuration_says_how_an_image_is_run() {
    let config = |architecture: &str| {
        json!({"os": "linux", "architecture": architecture, "history": [], "config": {
            "Entrypoint": ["/app/run"], "Cmd": null, "Env": ["A=b"], "WorkingDir": "", "User": "9",
        }})
        .to_string()
    };
    let read = Config::parse(config(ARCHITECTURE).as_bytes()).unwrap();
    let wanted = Config {
        entrypoint: vec!["/app/run".into()],
        env: vec!["A=b".into()],
        user: Some("9".into()),
        ..Config::default()
    };
    assert_eq!(read, wanted);
    assert!(Config::parse(config("m68k").as_bytes()).is_err());
    assert!(Config::parse(b"{").is_err());
}

#[test]
fn a_configuration_that_no_program_can_start_with_is_refused() {
    let refused = |run: Value| {
        let config = json!({"os": "linux", "architecture": ARCHITECTURE, "config": run});
        let read = Config::parse(config.to_string().as_bytes());
        read.is_err_and(|error| {
            error
                .to_string()
                .contains("the image's configuration holds")
        })
    };
    for wrong in ["=x", "=", "A=b\0", "A\0=b"] {
        assert!(refused(json!({"Env": [wrong]})), "{wrong:?}");
    }
    for name in ["Entrypoint", "Cmd"] {
        assert!(refused(json!({name: ["/bin/sh", "a\0b"]})), "{name}");
    }
    assert!(refused(json!({"WorkingDir": "/a\0"})));
    assert!(!refused(
        json!({"Env": ["A=", "B=c=d", "ignored"], "Cmd": [""]})
    ));
}
