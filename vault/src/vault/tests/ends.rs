//! A value that says itself when it ends.

use super::*;

fn keys(ends: &str) -> SecretBytes {
    let text = format!(
        "{{\"AccessKeyId\":\"ASIAIOSFODNN7EXAMPLE\",\"SecretAccessKey\":\"wJalrXUtnFEMI/K7MDENG\",\
         \"SessionToken\":\"FwoG==\",\"Expiration\":\"{ends}\"}}"
    );
    SecretBytes::new(text.into_bytes())
}

#[test]
fn temporary_keys_end_when_they_say_and_are_not_taken_after_it() {
    let lab = Lab::new();
    let vault = lab.open();
    let aws: Definition = serde_json::from_str("{\"kind\": {\"aws\": {}}}").unwrap();
    let until = || {
        let listed = vault.listed(&name("AWS")).unwrap();
        listed.versions.last().unwrap().until.unwrap().to_string()
    };
    // The clock stands at 2027-01-15T08:00:00Z.
    let value = keys("2027-01-15T09:00:00Z");
    vault.set(&name("AWS"), &aws, &version(&value, 0)).unwrap();
    assert_eq!(until(), "2027-01-15T09:00:00Z");
    // What is asked for shortens it, and never lengthens it.
    for (asked, is) in [(60, "2027-01-15T08:01:00Z"), (7200, "2027-01-15T09:00:00Z")] {
        let new = NewVersion {
            expires: Some(Duration::from_secs(asked)),
            ..version(&value, 0)
        };
        vault.rotate(&name("AWS"), &new).unwrap();
        assert_eq!(until(), is);
    }
    let over = keys("2020-01-01T00:00:00Z");
    for refused in [
        vault.set(&name("AWS"), &aws, &version(&over, 0)),
        vault.rotate(&name("AWS"), &version(&over, 0)),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("ended at 2020-01-01"), "{refused}");
    }
}
