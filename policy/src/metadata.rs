//! Names by which clouds serve credentials, to whoever asks from one of their machines.
//!
//! They stand for addresses that are never opened; a name is looked at where nobody here sees the address, and where
//! a person is told of a rule that cannot do what it says.

use crate::fqdn::Fqdn;

/// Whether it is a name by which a cloud serves what an instance is and may.
#[must_use]
pub fn is_metadata_service(name: &Fqdn) -> bool {
    let known = |service: &&str| name.as_str() == *service || name.is_below(service);
    let is_instance =
        name.as_str().starts_with("instance-data.") && name.is_below("compute.internal");
    is_instance || METADATA.iter().any(known)
}

/// Names by which clouds serve what an instance is and may, as their documentation gives them.
const METADATA: [&str; 10] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.azure.internal",
    "metadata.cloud.ibm.com",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "metadata.packet.net",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metadata_services_are_known() {
        let is = |name: &str| is_metadata_service(&name.parse().unwrap());
        assert!(is("metadata.google.internal"));
        assert!(is("Metadata.Google.Internal"));
        assert!(is("x.metadata.google.internal"));
        assert!(is("instance-data.ec2.internal"));
        assert!(is("instance-data.us-west-2.compute.internal"));
        assert!(is("api.metadata.cloud.ibm.com"));
        assert!(!is("metadata.example.com"));
        assert!(!is("mymetadata.google.internal"));
    }
}
