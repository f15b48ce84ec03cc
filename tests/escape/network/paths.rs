//! Path rules against paths that two readers read differently.

use gig_policy::DenyReason;
use gig_tests::lab::{Finished, Lab, denial::Refusal, http_origin::greet};

const HOST: &str = "api.example.com";
const POLICY: &str = "version: 1\nname: public\negress:\n  - host: api.example.com\n    \
    rules: [{methods: [GET], paths: [/public/**]}]\n";

fn refused(path: &str) {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = format!(
        "s = tls('{HOST}')\ns.sendall(get('{path}', '{HOST}', 'Connection: close'))\nprint(ending(s))"
    );
    let run = lab.gig().policy(POLICY).wire(&script);
    let told = |run: &Finished| {
        ["403", "400"]
            .iter()
            .any(|status| run.text().contains(status))
    };
    Refusal::new(DenyReason::PathNotAllowed)
        .or(DenyReason::MalformedRequest)
        .of(HOST)
        .client(told)
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

macro_rules! paths {
    ($($test:ident: $path:literal;)*) => {$(
        #[test]
        fn $test() {
            refused($path);
        }
    )*};
}

paths! {
    another_path: "/secret";
    dot_segments: "/public/../secret";
    encoded_dots: "/public/%2e%2e/secret";
    half_encoded_dots: "/public/.%2E/secret";
    an_encoded_slash: "/public/..%2fsecret";
    an_encoded_backslash: "/public/..%5csecret";
    a_backslash: "/public/..\\\\secret";
    double_encoding: "/public/%252e%252e/secret";
    a_double_slash: "//public/../secret";
    a_semicolon: "/public/..;/secret";
    an_encoded_nul: "/public/..%00/secret";
    overlong_dots: "/public/%c0%ae%c0%ae/secret";
    a_path_in_other_case: "/PUBLIC/x";
    the_prefix_without_its_slash: "/publicity";
    a_query_in_disguise: "/secret%3F/public/x";
    a_fragment: "/secret#/public/x";
}
