//! Several at once.

use std::{thread, time::Duration};

use gig_tests::lab::{Lab, http_origin::greet};

#[test]
fn ten_runs_at_once_all_work() {
    let lab = Lab::new();
    let origin = lab.https("api.example.com", greet);
    let runs: Vec<_> = (0..10)
        .map(|_| {
            let url = "https://api.example.com/";
            lab.gig()
                .allow("api.example.com")
                .start(["curl", "-sS", "--fail", "-m", "40", url])
        })
        .collect();
    for run in runs {
        let run = run.finish(Duration::from_secs(60));
        let _run = run
            .success()
            .says("hello from the origin")
            .requested("api.example.com");
    }
    assert_eq!(origin.requests().len(), 10);
}

#[test]
fn runs_in_a_row_do_not_disturb_each_other() {
    let lab = Lab::new();
    let _origin = lab.https("api.example.com", greet);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let run = lab.gig().allow("api.example.com");
                    let _run = run
                        .run(["curl", "-sS", "--fail", "https://api.example.com/"])
                        .success();
                }
            });
        }
    });
}
