//! The answer to a sandbox that has secrets: short text is read whole, of what is coded the beginning, and the
//! rest is looked at while it passes.

use std::{pin::pin, sync::Arc};

use gig_policy::DenyReason;
use http::Response;

use super::{
    body::{Download, Scrubbed, gather},
    exchange::Exchange,
    forward::fail,
    incoming::Incoming,
};
use crate::{
    credential::scrub::answer::{Plan, Returning},
    enforce::request::Asked,
    upstream::pool::Lease,
};

/// Hands the answer back with sentinels for its values, or says why it cannot.
pub(super) async fn pass_scrubbed(
    mut exchange: Box<Exchange>,
    response: Response<Incoming>,
    lease: Lease,
    (returning, plan): (&Arc<Returning>, Plan),
) -> Result<Response<Download>, (Asked, DenyReason)> {
    let (mut parts, mut incoming) = response.into_parts();
    let work = match plan {
        Plan::Stream(work) => work,
        Plan::Gather(work) => {
            let gathered = pin!(gather(incoming, work, returning));
            return match exchange.unless_revoked(gathered).await {
                Ok((gathered, became, received)) => {
                    returning.settle(&mut parts.headers, gathered.octets().len(), became);
                    exchange.answered(parts.status.as_u16(), lease);
                    exchange.received(received);
                    exchange.finish();
                    Ok(Response::from_parts(parts, Download::Whole(gathered)))
                }
                Err(failure) => Err(fail(*exchange, failure)),
            };
        }
    };
    let mut scrubbed = Box::new(Scrubbed::new(Arc::clone(returning), work));
    let begun = {
        let beginning = pin!(scrubbed.begin(&mut incoming));
        exchange.unless_revoked(beginning).await
    };
    if let Err(failure) = begun {
        return Err(fail(*exchange, failure));
    }
    exchange.answered(parts.status.as_u16(), lease);
    scrubbed.tell(&mut exchange);
    let body = Download::Scrubbed {
        incoming,
        exchange,
        scrubbed,
    };
    Ok(Response::from_parts(parts, body))
}
