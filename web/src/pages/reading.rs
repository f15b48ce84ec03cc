//! What a page is asked with: its path, its query and a form. What is wrong with one is told on a page.

use axum::{
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use super::PageProblem;
use crate::{
    api::reading::{Asking, cause, misnamed},
    api_error::Problem,
};

/// The query of a page's address.
pub(crate) struct InAddress<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for InAddress<T> {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageProblem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        read.map(|Query(asked)| Self(asked)).map_err(|rejection| {
            let why = cause(&rejection);
            let words = format!(
                "this page's address says after the `?` what the page does not take: {why}"
            );
            PageProblem::from(Problem::invalid(words))
        })
    }
}

/// Names and numbers in the path of a page.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageProblem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(named)| Self(named))
            .map_err(|rejection| {
                let asked = Asking::of(&parts.method, &parts.uri);
                let problem = asked.refused(rejection.status(), &misnamed(&rejection));
                PageProblem::from(problem)
            })
    }
}

/// A form that was sent.
pub(crate) struct Form<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = PageProblem;

    async fn from_request(request: Request, state: &S) -> Result<Self, PageProblem> {
        let asked = Asking::of(request.method(), request.uri());
        let read = axum::Form::<T>::from_request(request, state).await;
        read.map(|axum::Form(sent)| Self(sent)).map_err(|rejection| {
            let status = rejection.status();
            let words = match status {
                StatusCode::PAYLOAD_TOO_LARGE => {
                    "its form is longer than anything that is taken here".to_owned()
                }
                StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                    "it is not sent as a form: load the page again and send the form that is there"
                        .to_owned()
                }
                _ => format!(
                    "its form is not the one of this page ({}): load the page again and send the form that is there",
                    cause(&rejection)
                ),
            };
            PageProblem::from(asked.refused(status, &words))
        })
    }
}
