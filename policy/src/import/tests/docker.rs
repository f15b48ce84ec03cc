//! Commands of Docker's sandboxes that are of one sandbox, of all, or no longer hold.

use super::*;

#[test]
fn a_sandboxs_name_is_no_host_and_what_was_its_own_is_told() {
    for own in [
        "sbx policy allow network my-sandbox api.example.com:443",
        "sbx policy allow network --sandbox my-sandbox api.example.com:443",
        "sbx policy allow network \"api.example.com:443\" --sandbox=my-sandbox",
    ] {
        let text =
            format!("sbx policy allow network -g 'b.example.com:443, c.example.com:443'\n{own}\n");
        let (document, widened, narrowed) = egress(Format::Docker, &text);
        let expected = "egress:\n\
            \x20 - host: b.example.com\n\
            \x20   ports: [443]\n\
            \x20 - host: c.example.com\n\
            \x20   ports: [443]\n\
            \x20 - host: api.example.com\n\
            \x20   ports: [443]";
        assert_eq!(document, expected, "{own}");
        let told = "line 2: what my-sandbox alone was allowed holds for all here";
        assert_eq!(widened, [told], "{own}");
        assert!(narrowed.is_empty(), "{narrowed:?}");
        // Where there is no other, it is the document's own.
        assert!(egress(Format::Docker, own).1.is_empty(), "{own}");
    }
    let text = "sbx policy allow network --global a.example.com:443\nsbx policy deny network box ads.example.com\n";
    let (_, widened, narrowed) = egress(Format::Docker, text);
    let told = "line 2: what box alone was denied is denied to all here";
    assert!(widened.is_empty() && narrowed == [told], "{narrowed:?}");
}

#[test]
fn what_a_command_takes_away_is_told_and_what_changes_nothing_is_left_out() {
    for gone in [
        "sbx policy rm network --resource a.example.com",
        "sbx policy reset",
    ] {
        let text = format!("sbx policy allow network a.example.com\n{gone}\n");
        let told = refused(Format::Docker, &text);
        assert!(
            told.contains("theirs:2:1") && told.contains("leave out both"),
            "{told}"
        );
    }
    let text =
        "sbx policy ls\nsbx policy allow network a.example.com:443 # wanted\nsbx policy log box\n";
    let (document, ..) = egress(Format::Docker, text);
    assert_eq!(
        document,
        "egress:\n  - host: a.example.com\n    ports: [443]"
    );
    let many = refused(Format::Docker, "sbx policy allow network a b c\n");
    assert!(many.contains("separated by commas"), "{many}");
}
