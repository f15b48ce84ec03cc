//! What could not be done, as a page: with the sections around it for who is signed in, and the way back.

use askama::Template;
use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{Frame, shown, sign_in::own_path};
use crate::{
    api_error::Problem,
    auth::{Caller, doors},
};

/// A problem that is shown as a page.
pub(crate) struct PageProblem(pub(super) Problem);

impl<T: Into<Problem>> From<T> for PageProblem {
    fn from(problem: T) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        problem(&self.0)
    }
}

/// For whom gig does not know.
#[derive(Template)]
#[template(path = "problem.html")]
struct PlainPage<'a> {
    title: &'a str,
    detail: &'a str,
}

#[derive(Template)]
#[template(path = "framed_problem.html")]
struct FramedPage<'a> {
    frame: Frame,
    title: &'a str,
    detail: &'a str,
    /// The page whose form or link it was; empty: nobody says.
    back: String,
}

/// Of an answer: the problem that it shows.
#[derive(Clone)]
struct Shown {
    title: &'static str,
    detail: String,
}

/// A problem as a page.
pub(crate) fn problem(problem: &Problem) -> Response {
    let title = title(problem.status());
    let page = PlainPage {
        title,
        detail: &problem.detail,
    };
    let mut answer = problem.answer_status().of(shown(&page));
    answer.extensions_mut().insert(Shown {
        title,
        detail: problem.detail.clone(),
    });
    answer
}

/// Shows a problem among the sections that whoever is signed in may read.
pub(crate) async fn framed(request: Request, next: Next) -> Response {
    let frame = match doors::is_for_programs(request.uri().path()) {
        true => None,
        // In none of the sections.
        false => {
            let caller = request.extensions().get::<Caller>();
            caller.map(|caller| Frame::new(caller, ""))
        }
    };
    let back = back(request.headers(), (request.method(), request.uri()));
    let mut answer = next.run(request).await;
    if let Some((frame, Shown { title, detail })) = frame.zip(answer.extensions_mut().remove()) {
        let page = FramedPage {
            frame,
            title,
            detail: &detail,
            back,
        };
        *answer.body_mut() = shown(&page).into_body();
    }
    answer
}

/// The page of this gig that a browser says it came from, unless that is the one that is asked for: a form may go to where
/// its page is.
pub(crate) fn back(headers: &HeaderMap, (method, asked): (&Method, &Uri)) -> String {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let from = text(header::REFERER).and_then(|from| from.parse::<Uri>().ok());
    let from = from.filter(|from| from.authority().map(|it| it.as_str()) == text(header::HOST));
    let path = from.and_then(|from| from.into_parts().path_and_query);
    let path = path.map(|path| path.to_string()).unwrap_or_default();
    let is_page = path != "/" && own_path(&path) == path;
    let is_other = *method != Method::GET
        || asked.path_and_query().map(|it| it.as_str()) != Some(path.as_str());
    match is_page && is_other {
        true => path,
        false => String::new(),
    }
}

/// What people call it; programs have its type.
fn title(status: StatusCode) -> &'static str {
    match status.as_u16() {
        403 => "You may not do this",
        404 => "Not found",
        409 | 410 | 412 => "It is not as it was",
        429 => "Too much at once",
        500.. => "gig could not do this",
        _ => "This cannot be done so",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(referer: &str) -> String {
        asked(&Method::GET, referer)
    }

    fn asked(method: &Method, referer: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "gig.example:8443".parse().unwrap());
        headers.insert(header::REFERER, referer.parse().unwrap());
        back(&headers, (method, &"/policies/web/assign".parse().unwrap()))
    }

    #[test]
    fn the_way_back_is_a_page_of_this_gig_and_never_the_same_again() {
        let own = "https://gig.example:8443";
        let page = "/policies/web?before=3";
        assert_eq!(from(&format!("{own}{page}")), page);
        let form = format!("{own}/policies/web/assign");
        assert_eq!(asked(&Method::POST, &form), "/policies/web/assign");
        for other in [
            "https://evil.example/policies",
            "https://gig.example/policies",
            &format!("{own}//evil.example/"),
            &format!("{own}/\\evil.example/"),
            &format!("{own}/policies/web/assign"),
            "about:blank",
            "\\",
        ] {
            assert_eq!(from(other), "", "{other}");
        }
    }
}
