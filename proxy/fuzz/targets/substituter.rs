//! Sentinels in request bodies of every type: what comes out does not depend on cuts, and a value goes
//! nowhere but where its secret is bound.

use std::sync::{Arc, OnceLock};

use gig_policy::{SandboxId, SecretGrant};
use gig_proxy::credential::{
    body::{BodyPlan, Trailing},
    memory::Memory,
    misuse::Bearer,
    place::{Places, Replacement},
    rewrite::RewriteError,
    swap::Swappable,
    tally::Tally,
    watch::{LiveSentinel, Watch},
};
use gig_vault::{Part, Secret, SecretBytes, Shape, Treatment};
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

use crate::secrets::{SENTINEL, VALUE, guarded, pieces, spelled};

/// One octet for the type and whether the secret is bound, four for cuts, then a body.
pub fn run(data: &[u8]) {
    let Some((&[how, ref cuts @ ..], body)) = data.split_first_chunk::<5>() else {
        return;
    };
    // Most bodies hold sentinels; some the value itself.
    let body = spelled(body, if how & 0x40 == 0 { SENTINEL } else { VALUE });
    let media = TYPES[usize::from(how & 0x3f) % TYPES.len()];
    let bound = how & 0x80 != 0;
    let plan = plan(media, bound);
    let expected = through(&plan, &[&body]);
    let got = through(&plan, &pieces(&body, cuts));
    let apart = !bound && APART.contains(&media);
    match (&got, &expected) {
        // Where a piece ends, what is not told yet counts as both that it may be: a cut may find more
        // than the whole, and never less.
        (Err(RewriteError::Misuse), Ok(_)) if apart => return,
        // What comes at once is looked at in steps as well.
        (Ok(_), Err(RewriteError::Misuse)) if apart && body.len() > AT_ONCE => return,
        _ => assert_eq!(got, expected, "{media}, bound: {bound}"),
    }
    let Ok(out) = expected else {
        return;
    };
    if !plan.may_change() {
        assert_eq!(out, body, "its length was announced");
    }
    if !bound {
        assert_eq!(out, body, "nothing goes there");
        assert!(
            !out.windows(VALUE.len())
                .any(|here| here == VALUE.as_bytes())
        );
    }
}

fn plan(media: &'static str, bound: bool) -> BodyPlan {
    let sandbox = SandboxId::new(uuid::Uuid::nil());
    let sentinel = LiveSentinel {
        sandbox,
        name: "T".parse().expect("a name"),
        text: SENTINEL.into(),
    };
    let watch = WATCH.get_or_init(|| Arc::new(Watch::new([&sentinel], &guarded())));
    let granted = bound.then(|| SecretGrant::everywhere("T".parse().expect("a name")));
    let bearer = Bearer {
        sandbox,
        granted: granted.as_slice(),
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    let swappable = if bound { vec![swappable()] } else { Vec::new() };
    BodyPlan::new(
        &headers,
        (watch, &bearer),
        (swappable, Trailing::default()),
        (&Arc::new(Tally::default()), &Memory::of_sandbox()),
    )
}

/// Compiled once: every input has the same.
static WATCH: OnceLock<Arc<Watch>> = OnceLock::new();

fn swappable() -> Swappable {
    let part = Part {
        variable: "T".into(),
        value: SecretBytes::new(VALUE.into()),
        shape: Shape::Plain,
    };
    Swappable::Ready(Replacement {
        sentinel: SENTINEL.into(),
        secret: Arc::new(Secret {
            name: "T".parse().expect("a name"),
            version: 1,
            parts: vec![part],
            treatment: Treatment::Replace,
            entrusted: false,
        }),
        part: 0,
        places: Places::default(),
        keeper: None,
    })
}

fn through(plan: &BodyPlan, pieces: &[&[u8]]) -> Result<Vec<u8>, RewriteError> {
    let mut passes = plan.passes();
    let mut out = Vec::new();
    for piece in pieces {
        if let Some(guard) = &mut passes.guard {
            guard.look(piece)?;
        }
        match &mut passes.rewrite {
            Some(rewrite) => rewrite.push(piece, &mut out)?,
            None => out.extend_from_slice(piece),
        }
    }
    if let Some(rewrite) = &mut passes.rewrite {
        rewrite.finish(&mut out)?;
    }
    Ok(out)
}

/// Whose values are put together as pieces.
const APART: [&str; 5] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "application/x-ndjson",
    // Where it begins like JSON.
    "text/plain",
];
/// Octets that are looked at in one step.
const AT_ONCE: usize = 16 * 1024;
const TYPES: [&str; 9] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "text/plain",
    "text/html",
    "application/xml",
    "application/octet-stream",
    "application/grpc",
    "application/x-ndjson",
];
