//! Programs in Go and Java that sign with sentinel keys by themselves, and name codings that gig does not
//! undo, under the signature.

use gig_tests::lab::{network::text, place};

use super::{Scene, serve, told};

const HOST: &str = "s3.eu-central-1.amazonaws.com";
const ID: &str = "AKIAQ3EGUIDTRPW7BZ5L";
const SECRET: &str = "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";

#[test]
fn go_and_java_sign_with_sentinels_and_aws_takes_what_leaves() {
    let mut scene = Scene::new();
    let key = format!("{ID}:{SECRET}");
    scene.keep("AWS_ACCESS_KEY_ID", "kind: {aws: {}}", &key, &[SECRET]);
    let origin = serve(&scene.lab, "sdk/aws_origin.py", &[HOST], &[&key]);
    let (go, java) = (place::client("go-sign"), place::client("java"));
    let run = || {
        let run = scene.gig().allow(HOST);
        run.option(["--secret", &format!("AWS_ACCESS_KEY_ID@{HOST}")])
    };
    let words = [HOST, "eu-central-1", "x-own, gzip"];
    let (go_path, java_path) = (text(&go), text(&java));
    let before: [(_, &[&str]); 2] = [
        (&go, &[&go_path]),
        (&java, &["java", "-Xmx128m", "-cp", &java_path, "Sign"]),
    ];
    for (program, before) in before {
        let run = run().read_only(program).run([before, &words].concat());
        let _run = scene.check(run).says("status 200").says("ListAllMyBuckets");
    }
    let lines = told(&origin);
    let taken = lines
        .iter()
        .filter(|line| line["key"] == ID && line.get("refused").is_none());
    assert_eq!(taken.count(), 2, "{lines:?}");
}
