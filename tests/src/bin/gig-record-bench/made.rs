//! Entries as real sandboxes make them.

use gig_audit::{Entry, Event, VerdictWord};
use gig_policy::{DenyReason, SandboxId};

/// Entries as real sandboxes make them.
pub struct Made {
    sandboxes: Vec<SandboxId>,
}

impl Made {
    /// Of fifty sandboxes.
    pub fn new() -> Self {
        let id = |n: u32| {
            let text = format!("01930000-0000-7000-8000-{n:012x}");
            serde_json::from_value(text.into()).expect("an id")
        };
        Self {
            sandboxes: (0..50).map(id).collect(),
        }
    }

    /// The entry of this number.
    pub fn entry(&self, n: u64) -> Entry {
        // A step that meets every value, in no order a person would see.
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let kind = [Event::Connect, Event::Request, Event::Response, Event::Dns][(n % 4) as usize];
        let mut entry = Entry::new(kind);
        let denied = mixed.is_multiple_of(10);
        entry.sandbox = Some(self.sandboxes[(mixed % 50) as usize]);
        entry.server = Some(format!("server-{}", mixed % 20).into());
        entry.profile = Some(format!("user-{}", mixed % 200).into());
        entry.conn = Some(n / 8);
        entry.request = Some(format!("req-{}", n / 4).into());
        entry.policy = Some("everyday".into());
        entry.policy_version = Some(3);
        entry.rule = Some(format!("egress[{}]", mixed % 12).into());
        entry.verdict = Some(if denied {
            VerdictWord::Deny
        } else {
            VerdictWord::Allow
        });
        entry.reason = denied.then_some(DenyReason::HostNotAllowed);
        entry.host = Some(format!("h{}.example{}.com", mixed % 400, mixed % 7).into());
        entry.port = Some(443);
        entry.protocol = Some("https".into());
        entry.method = Some(
            if mixed.is_multiple_of(3) {
                "POST"
            } else {
                "GET"
            }
            .into(),
        );
        entry.path = Some(format!("/api/v2/items/{}/parts/{}", mixed % 100_000, mixed % 13).into());
        entry.status = Some(if denied { 403 } else { 200 });
        entry.bytes_out = Some(mixed % 5_000);
        entry.bytes_in = Some(mixed % 50_000);
        entry.duration_ms = Some(mixed % 300);
        entry
    }
}
