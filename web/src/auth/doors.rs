//! Which paths are programs' doors: what asks there is answered as programs are, with a status and a problem
//! document and no page. One notion, so that none of those who ask for it forgets a door.

/// The API, and the endpoint of each server's sandbox ([`crate::mcp`]).
pub(crate) fn is_api(path: &str) -> bool {
    path.starts_with("/api/") || is_endpoint(path)
}

/// The same and the figures; all else is for people.
pub(crate) fn is_for_programs(path: &str) -> bool {
    is_api(path) || path == "/metrics"
}

/// Where a browser's cookie says nothing: no page of ours asks there, so none can be made to.
pub(crate) fn takes_no_cookie(path: &str) -> bool {
    is_endpoint(path)
}

/// Where an answer may come long after the body: who waits for it keeps nobody from sending one.
pub(crate) fn reads_long_bodies_itself(path: &str) -> bool {
    is_endpoint(path)
}

fn is_endpoint(path: &str) -> bool {
    path.starts_with("/sandbox/")
}
