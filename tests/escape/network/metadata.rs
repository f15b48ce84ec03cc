//! The core that nothing opens, by every door that opens other places: a rule, an override, a range.

use std::net::SocketAddr;

use gig_policy::DenyReason;
use gig_tests::lab::{Lab, denial::Refusal, raw_origin::RawOrigin};

const NAME: &str = "harmless.example.com";
const PLACE: &str = "169.254.169.254";

/// A metadata service that waits for whoever comes.
fn metadata(lab: &Lab) -> RawOrigin {
    let at: SocketAddr = ([169, 254, 169, 254], 80).into();
    lab.tcp(at, |conversation| conversation.drain())
}

/// By its rule it is a host like others, and where it leads the user has said.
#[test]
fn an_override_leads_no_name_to_the_metadata_service() {
    let lab = Lab::new();
    let metadata = metadata(&lab);
    lab.resolver
        .set(NAME, &[PLACE.parse().expect("an address")]);
    for private in [&[][..], &["--allow-private", "169.254.1.0/24"]] {
        let run = lab.gig().allow(NAME).option(private);
        let run = run.option(["--resolve", "harmless.example.com:80:169.254.169.254"]);
        let url = "http://harmless.example.com/latest/meta-data/";
        let run = run.run(["curl", "-sS", "-m", "10", "-i", url]);
        Refusal::new(DenyReason::NeverOpenable)
            .of(NAME)
            .client_says("403")
            .unseen_by(&metadata)
            .nothing_leaves()
            .check(&run);
    }
}

/// A rule that names it by its address.
#[test]
fn a_rule_for_the_metadata_service_opens_nothing() {
    let lab = Lab::new();
    let metadata = metadata(&lab);
    let url = "http://169.254.169.254/latest/meta-data/";
    let run = lab.gig().allow(PLACE);
    let run = run.run(["curl", "-sS", "-m", "10", "-i", url]);
    // Refused before anything starts, or denied.
    let refused = run.status == 125 && run.error_text().contains(PLACE);
    if refused && !run.open {
        assert_eq!(metadata.wire_octets(), 0, "{run}");
        return;
    }
    Refusal::new(DenyReason::NeverOpenable)
        .client_says("403")
        .unseen_by(&metadata)
        .nothing_leaves()
        .check(&run);
}
