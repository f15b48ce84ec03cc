//! `oauth2_refresh_token` against a server built on Authlib: tokens are renewed when the API takes one no
//! more, and each refresh token that the server gives in place of another is stored and recorded.

use std::{fs, process::Command};

use gig_audit::Event;
use gig_tests::lab::network::text;

use super::Scene;
use crate::logins::{CLIENT_SECRET, oauth_server};

const REFRESH: &str = "r3al-refresh_token_of_a_login_9Qw";
const DEFINITION: &str = "kind: {oauth2_refresh_token: {endpoint: {token_url: \
    'https://auth.example.com/oauth2/token'}, client: {client_id: notes, authentication: \
    client_secret_basic}}}";
/// Asks, has the server end its tokens, and asks on.
const SCRIPT: &str = "import requests\n\
    fields = {'Authorization': 'Bearer ' + os.environ['LOGIN']}\n\
    url = 'https://api.example.com'\n\
    ask = lambda: requests.get(url + '/me', headers=fields, timeout=60)\n\
    first = ask()\n\
    assert first.status_code == 200 and first.json()['shown'] == fields['Authorization'], first.text\n\
    assert requests.post(url + '/forget', timeout=60).status_code == 204\n\
    assert ask().status_code == 401\n\
    again = ask()\n\
    assert again.status_code == 200 and again.json()['shown'] == fields['Authorization'], again.text\n";

#[test]
fn a_token_that_the_api_refuses_is_renewed_and_rotated_refresh_tokens_are_stored_and_recorded() {
    let mut scene = Scene::new();
    let stored =
        format!("{{\"refresh_token\": \"{REFRESH}\", \"client_secret\": \"{CLIENT_SECRET}\"}}");
    scene.keep("LOGIN", DEFINITION, &stored, &[REFRESH, CLIENT_SECRET]);
    let server = oauth_server(&scene.lab, REFRESH);
    let mut runs = Vec::new();
    for _ in 0..2 {
        let run = scene.gig().allow("api.example.com");
        let run = run.option(["--secret", "LOGIN@api.example.com"]);
        runs.push(scene.python(run, SCRIPT));
    }
    let log = server.log();
    let of = |word: &str| -> Vec<&str> {
        let lines = log.lines().filter_map(|line| line.strip_prefix(word));
        lines.map(str::trim).collect()
    };
    let (minted, refreshed) = (of("minted"), of("refreshed"));
    // Two tokens a run; each was asked for with what came with the one before.
    let refresh: Vec<&str> = minted.iter().skip(1).step_by(2).copied().collect();
    assert_eq!(minted.len(), 8, "{log}");
    let expected = [&[REFRESH], &refresh[..3]].concat();
    assert_eq!(refreshed, expected, "{log}");
    let record = fs::read_to_string(scene.data.join("audit.jsonl")).expect("the record");
    for version in 2..=5 {
        assert!(
            record.contains(&format!("supersede version {version}")),
            "{record}"
        );
    }
    for run in &runs {
        // What a run had changed stands in its own record: whose sandbox it was, and no value.
        let own: Vec<_> = run.audit.of(Event::SecretChange).collect();
        assert_eq!(own.len(), 2, "{}", run.audit);
        for change in own {
            assert_eq!(change.secrets, ["LOGIN".into()]);
            assert!(change.sandbox.is_some(), "{change:?}");
            assert!(change.findings[0].starts_with("supersede version "));
        }
        let out = run.text() + &run.error_text() + &run.audit.to_string() + &record;
        assert!(
            minted.iter().all(|token| !out.contains(token)),
            "a token came out"
        );
    }
    let mut verify = Command::new(gig_tests::lab::place::gig());
    verify.args(["audit", "verify", &text(&scene.data.join("audit.jsonl"))]);
    let _verified = super::through(verify, "");
}
