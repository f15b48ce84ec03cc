//! The operations that there are: a name of its own for each, and on which conditions it is asked.

use std::{collections::HashMap, sync::LazyLock};

use http::Method;
use utoipa::{
    Modify, OpenApi as _,
    openapi::{
        OpenApi, RefOr,
        path::{Operation, ParameterIn, PathItem},
    },
};

use super::Document;

/// Names each by its method and path (`put_policies_name`): generators of clients make a function of it.
pub(super) struct Ids;

/// What of a request an operation looks at: preconditions (RFC 9110 §13.1) that it holds against what is there, and a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Heeded {
    pub(crate) if_match: bool,
    pub(crate) if_none_match: bool,
    pub(crate) query: bool,
}

impl Modify for Ids {
    fn modify(&self, document: &mut OpenApi) {
        for (path, item) in &mut document.paths.paths {
            let words = path.strip_prefix("/api/v1").unwrap_or(path);
            let words = words.replace(['{', '}'], "").replace(['/', '-', '.'], "_");
            for (method, operation) in operations_of(item) {
                let method = method.as_str().to_ascii_lowercase();
                operation.operation_id = Some(format!("{method}{words}"));
            }
        }
    }
}

/// What an operation of the API looks at; `None` where there is none at this path by this method.
pub(crate) fn heeded(method: &Method, path: &str) -> Option<Heeded> {
    static KNOWN: LazyLock<HashMap<String, Vec<(Method, Heeded)>>> = LazyLock::new(|| {
        let paths = Document::openapi().paths.paths.into_iter();
        let all = paths.map(|(path, mut item)| {
            let operations = operations_of(&mut item).into_iter();
            let heeded = operations.map(|(method, operation)| (method, held(operation)));
            (path, heeded.collect())
        });
        all.collect()
    });
    let mut there = KNOWN.get(path)?.iter();
    there
        .find(|(known, _)| known == method)
        .map(|(_, heeded)| *heeded)
}

fn held(operation: &Operation) -> Heeded {
    let parameters = || {
        let all = operation.parameters.iter().flatten();
        all.filter_map(|one| match one {
            RefOr::T(one) => Some(one),
            RefOr::Ref(_) => None,
        })
    };
    let says = |name: &str| {
        parameters().any(|one| one.name == name && one.parameter_in == ParameterIn::Header)
    };
    Heeded {
        if_match: says("If-Match"),
        if_none_match: says("If-None-Match"),
        query: parameters().any(|one| one.parameter_in == ParameterIn::Query),
    }
}

/// Those of one path, each with its method.
pub(super) fn operations_of(item: &mut PathItem) -> Vec<(Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ];
    let there = all.into_iter();
    there
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let mut document = Document::openapi();
        let mut names = Vec::new();
        for item in document.paths.paths.values_mut() {
            for (_, operation) in operations_of(item) {
                names.push(operation.operation_id.clone().unwrap());
            }
        }
        let count = names.len();
        assert!(count > 60, "{count}");
        let numbered = |name: &&String| name.ends_with(|end: char| end.is_ascii_digit());
        let numbered: Vec<_> = names.iter().filter(numbered).collect();
        assert!(numbered.is_empty(), "told apart by a number: {numbered:?}");
        assert!(
            names.iter().any(|name| name == "put_policies_name"),
            "{names:?}"
        );
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_an_operation_holds_is_known() {
        let of = |method: Method, path: &str| heeded(&method, path);
        let both = Heeded {
            if_match: true,
            if_none_match: true,
            query: false,
        };
        assert_eq!(of(Method::PUT, "/api/v1/policies/{name}"), Some(both));
        let none = Some(Heeded::default());
        assert_eq!(of(Method::DELETE, "/api/v1/users/{name}"), none);
        assert_eq!(of(Method::PUT, "/api/v1/users"), None);
    }
}
