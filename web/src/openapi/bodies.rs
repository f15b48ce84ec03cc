//! Which bodies may be left out: those of a POST in which every field may be. Read off the schemas, so that no declaration
//! says otherwise; what is put in the place of something else is always said.

use utoipa::{
    Modify,
    openapi::{Components, OpenApi, RefOr, Required, Schema},
};

/// Marks them.
pub(super) struct Bodies;

impl Modify for Bodies {
    fn modify(&self, document: &mut OpenApi) {
        let Some(components) = &document.components else {
            return;
        };
        for item in document.paths.paths.values_mut() {
            let body = item
                .post
                .as_mut()
                .and_then(|post| post.request_body.as_mut());
            let Some(RefOr::T(body)) = body else {
                continue;
            };
            let mut contents = body.content.values();
            if contents.all(|content| match content {
                RefOr::T(content) => {
                    let schema = content.schema.as_ref();
                    schema.is_some_and(|schema| is_optional(schema, components))
                }
                RefOr::Ref(_) => false,
            }) {
                body.required = Some(Required::False);
            }
        }
    }
}

/// Whether it is an object and none of its fields has to be there.
fn is_optional(schema: &RefOr<Schema>, components: &Components) -> bool {
    match schema {
        RefOr::T(Schema::Object(object)) => object.required.is_empty(),
        RefOr::T(_) => false,
        RefOr::Ref(to) => {
            let name = to.ref_location.rsplit('/').next().unwrap_or_default();
            let named = components.schemas.get(name);
            matches!(named, Some(RefOr::T(Schema::Object(object))) if object.required.is_empty())
        }
    }
}
