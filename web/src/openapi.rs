//! The OpenAPI 3.1 document, made from the handlers' own declarations.

use std::sync::LazyLock;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        KnownFormat, Object, ObjectBuilder, Required, SchemaFormat, Type,
        path::{ParameterBuilder, ParameterIn},
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

mod bodies;
mod once;
mod operations;
mod problems;

use bodies::Bodies;
use once::Keys;
use operations::Ids;
pub(crate) use operations::heeded;
use problems::Problems;

use crate::api::{
    allowing, assignments, attach, audit, audit_chain, audit_export, audit_proof, doctor, events,
    factors, floors, health, held, nodes, policies, proposals, recorded, register, sandboxes,
    searches, secrets, server_log, servers, sessions, teams, tokens, users,
    webhooks::{self, answer},
};

#[derive(OpenApi)]
#[openapi(
    info(title = "gig", description = "Sandboxes, policies and the record of an appliance"),
    paths(
        health::alive, health::ready, health::layers, nodes::list, doctor::examine,
        sessions::me, sessions::list, sessions::end,
        users::list, users::add, users::change, users::remove,
        factors::rule, factors::set_rule, factors::remove,
        teams::list, teams::one, teams::save, teams::remove,
        tokens::list, tokens::add, tokens::remove,
        policies::list, policies::one, policies::save, policies::remove, policies::versions,
        policies::version, policies::roll_back, policies::check, policies::importing::import_document, assignments::list, assignments::assign,
        proposals::list, proposals::one, proposals::approve, proposals::reject, proposals::withdraw,
        proposals::rule, proposals::set_rule,
        floors::list, floors::set, allowing::allow, held::list, held::allow, held::deny,
        webhooks::list, webhooks::save, webhooks::remove, webhooks::test, answer::answer,
        recorded::simulate, recorded::suggest, recorded::of_proposal,
        recorded::of_assignment, recorded::of_floor, recorded::of_team,
        audit::search, audit::one, audit_chain::show, audit_export::export, audit_proof::proof, events::events,
        searches::list, searches::add, searches::remove,
        secrets::list, secrets::one, secrets::add, secrets::rotate, secrets::remove,
        servers::list, servers::one, servers::save, servers::remove, attach::attach, server_log::search,
        sandboxes::list, sandboxes::one, sandboxes::start, sandboxes::stop, sandboxes::log,
        register::register,
    ),
    security(("token" = []), ("session" = [])),
    components(schemas(proposals::Wanted)),
    modifiers(&Schemes, &Keys, &Problems, &Bodies, &Ids)
)]
struct Document;

struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("token", SecurityScheme::Http(token));
        for (path, item) in &mut document.paths.paths {
            let names = path
                .split('{')
                .skip(1)
                .filter_map(|rest| rest.split('}').next());
            let kind = path.split('/').nth(3).unwrap_or_default();
            let named = names.map(|name| {
                ParameterBuilder::new()
                    .name(name)
                    .parameter_in(ParameterIn::Path)
                    .required(Required::True)
                    .schema(Some(in_path(kind, name)))
                    .build()
            });
            let named: Vec<_> = named.collect();
            if !named.is_empty() {
                item.parameters
                    .get_or_insert_default()
                    .extend(named.into_iter().map(Into::into));
            }
        }
        let session = ApiKey::Cookie(ApiKeyValue::new("gig"));
        components.add_security_scheme("session", SecurityScheme::ApiKey(session));
    }
}

/// What stands in a path: the name of a thing of this kind, or its number.
fn in_path(kind: &str, name: &str) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    match (kind, name) {
        ("secrets", "name") => text.pattern(Some(SECRET)),
        (_, "name") => text.pattern(Some(NAME)),
        ("audit", "format") => text.enum_values(Some(["jsonl", "csv", "ocsf"])),
        (_, "version") | ("proposals", "id") => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0)),
        _ => text.min_length(Some(1)),
    }
    .build()
}

/// As `store::Name` has it.
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$";
/// As `gig_policy::SecretName` has it.
const SECRET: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";

/// `GET /api/v1/openapi.json`.
pub(crate) async fn show() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let document = Document::openapi();
        // The types are ours and serialise; an empty answer would say so.
        serde_json::to_string(&document).unwrap_or_default()
    });
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use utoipa::openapi::RefOr;

    use super::*;

    #[test]
    fn the_document_is_openapi_3_1_and_has_every_path_of_the_api() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        assert_eq!(document["openapi"].as_str().unwrap(), "3.1.0");
        let paths = document["paths"].as_object().unwrap();
        let source = include_str!("router.rs");
        let routed: Vec<&str> = source
            .split('"')
            .filter(|text| text.starts_with("/api/v1/") && !text.ends_with(".json"))
            .collect();
        assert!(routed.len() > 15);
        for path in routed {
            assert!(paths.contains_key(path), "{path} is not in the document");
        }
    }

    #[test]
    fn a_name_in_a_path_is_one_that_there_can_be() {
        let name = |text: &str| text.parse::<crate::store::Name>().is_ok();
        let secret = |text: &str| text.parse::<gig_policy::SecretName>().is_ok();
        for (most, longest, first, is_one) in [
            (NAME, 64, '1', &name as &dyn Fn(&str) -> bool),
            (SECRET, 128, '_', &secret),
        ] {
            let last = format!("{{0,{}}}$", longest - 1);
            assert!(most.ends_with(&last), "{most}");
            let text = |length: usize| format!("{first}{}", "a".repeat(length - 1));
            assert!(
                is_one(&text(longest)) && !is_one(&text(longest + 1)),
                "{most}"
            );
            assert!(!is_one("") && !is_one("a b") && !is_one("-a"), "{most}");
        }
        assert!(name("a.b_c@d-e") && secret("A_1"));
    }

    #[test]
    fn a_body_may_be_left_out_where_every_field_may_be() {
        let document = Document::openapi();
        let required = |path: &str| {
            let post = document.paths.paths[path].post.as_ref().unwrap();
            let Some(RefOr::T(body)) = &post.request_body else {
                panic!("{path} takes none");
            };
            matches!(body.required, Some(Required::True))
        };
        for path in [
            "/api/v1/proposals/{id}/approve",
            "/api/v1/proposals/{id}/reject",
            "/api/v1/proposals/{id}/withdraw",
            "/api/v1/held/{id}/allow",
            "/api/v1/policies/{name}/suggest",
            "/api/v1/assignments/simulate",
        ] {
            assert!(!required(path), "{path}");
        }
        assert!(required("/api/v1/audit/{id}/allow"));
    }

    #[test]
    fn what_stands_in_a_path_is_a_parameter_of_it_and_nothing_else_is() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        for (path, operations) in document["paths"].as_object().unwrap() {
            let of = |item: &serde_json::Value| {
                let parameters = item["parameters"].as_array().cloned().unwrap_or_default();
                let of_path = parameters.into_iter().filter(|one| one["in"] == "path");
                let names = of_path.map(|one| one["name"].as_str().unwrap().to_owned());
                names.collect::<Vec<_>>()
            };
            let common = of(operations);
            let words = path.split(['{', '}']).skip(1).step_by(2);
            assert_eq!(common, words.collect::<Vec<_>>(), "{path}");
            for operation in operations.as_object().unwrap().values() {
                if operation.is_object() {
                    assert!(of(operation).is_empty(), "{path}: {operation}");
                }
            }
        }
    }

    #[test]
    fn every_operation_that_is_refused_to_who_asks_too_often_says_so() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        let mut said = 0;
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in ["put", "post", "delete", "patch"] {
                let route = format!("{} {path}", method.to_uppercase());
                let responses = &item[method]["responses"];
                let Some(responses) = responses.as_object() else {
                    continue;
                };
                let bounded = ["/simulate", "/suggest"]
                    .iter()
                    .any(|end| path.ends_with(end));
                let counted = !crate::auth::pace::FREE.contains(&route.as_str());
                let counted = counted && path.starts_with("/api/");
                // What is not counted may have bounds of its own.
                let says_so = responses.contains_key("429");
                assert!(says_so || !(counted || bounded), "{route}");
                said += usize::from(counted);
            }
        }
        assert!(said >= 30, "{said}");
        let has = |path: &str, method: &str, status: &str| {
            assert!(
                document["paths"][path][method]["responses"][status].is_object(),
                "{path} {status}"
            );
        };
        has("/api/v1/proposals/{id}/simulation", "get", "429");
        has("/api/v1/audit/export/{format}", "get", "429");
        for status in ["403", "409", "429"] {
            has("/api/v1/policies/{name}", "put", status);
            has("/api/v1/policies/{name}/rollback", "post", status);
            has("/api/v1/audit/{id}/allow", "post", status);
            has("/api/v1/held/{id}/allow", "post", status);
        }
    }
}
