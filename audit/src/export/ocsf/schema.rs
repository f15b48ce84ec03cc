//! The schema's own word on an event: required fields, known fields, their types, enumerations and constraints.
//!
//! `schema-1.3.0.json` is an extract of the published schema; its `source` says of which.

use serde_json::{Map, Value};

/// Panics with the place where an event is not what the schema says.
pub(super) fn check(event: &Value) {
    let schema: Value = serde_json::from_str(include_str!("schema-1.3.0.json")).unwrap();
    let class = event["class_uid"].as_u64().unwrap().to_string();
    let class = &schema["classes"][&class];
    assert_eq!(event["class_name"], class["name"], "{event}");
    assert_eq!(event["category_name"], class["category"], "{event}");
    let profiles = event["metadata"]["profiles"].as_array();
    let profiles: Vec<&str> = profiles
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    Checking {
        objects: &schema["objects"],
        profiles,
    }
    .object("", event.as_object().unwrap(), class);
}

struct Checking<'a> {
    objects: &'a Value,
    profiles: Vec<&'a str>,
}

impl Checking<'_> {
    fn object(&self, place: &str, object: &Map<String, Value>, of: &Value) {
        let attributes = of["attributes"].as_object().unwrap();
        let applies = |attribute: &Value| {
            let profile = attribute["profile"].as_str();
            profile.is_none_or(|profile| self.profiles.contains(&profile))
        };
        for (name, value) in object {
            let place = format!("{place}.{name}");
            let known = attributes.get(name).filter(|known| applies(known));
            let known = known.unwrap_or_else(|| panic!("{place} is no field: {object:?}"));
            match value.as_array().filter(|_| known["array"] == true) {
                Some(items) => items
                    .iter()
                    .for_each(|item| self.value(&place, item, known)),
                None => self.value(&place, value, known),
            }
        }
        for (name, attribute) in attributes {
            let is_required = attribute["required"] == true && applies(attribute);
            let is_there = object.contains_key(name);
            assert!(
                is_there || !is_required,
                "{place}.{name} is missing: {object:?}"
            );
        }
        if let Some(some) = of["constraints"]["at_least_one"].as_array() {
            let any = some
                .iter()
                .any(|name| object.contains_key(name.as_str().unwrap()));
            assert!(any, "{place} has none of {some:?}: {object:?}");
        }
    }

    fn value(&self, place: &str, value: &Value, known: &Value) {
        if let Some(listed) = known["enum"].as_array() {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            assert!(
                listed.iter().any(|one| *one == text),
                "{place}: {text} of {listed:?}"
            );
        }
        match known["type"].as_str().unwrap() {
            "integer_t" | "long_t" | "timestamp_t" | "port_t" => {
                assert!(value.is_i64() || value.is_u64(), "{place}: {value}");
            }
            "boolean_t" => assert!(value.is_boolean(), "{place}: {value}"),
            "json_t" => {}
            "object_t" => {
                let object = value
                    .as_object()
                    .unwrap_or_else(|| panic!("{place}: {value}"));
                let name = known["object"].as_str().unwrap();
                // `unmapped` holds anything.
                if name != "object" {
                    let of = &self.objects[name];
                    assert!(of.is_object(), "{place}: {name} is not in the extract");
                    self.object(place, object, of);
                }
            }
            _ => assert!(value.is_string(), "{place}: {value}"),
        }
    }
}
