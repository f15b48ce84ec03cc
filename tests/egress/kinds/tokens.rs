//! Keys that are put in their place, and tokens that gig mints for keys it does not give away.

use std::process::Command;

use gig_tests::lab::{Subject, network::text, service::Service};
use serde_json::{Value, json};

use super::{Scene, serve, told};

const OPENAI: &str = "sk-proj-8Kd02LmQx7RtVb3NwYc5Zf1Gh6Jp4Sa9TuEo0BiW";
const STRIPE: &str = "sk_test_51Nx7QwLkT2mB9vRc4Hy8Ds3Fg6Jk1Za5Xe0Pu";
const HOSTS: [&str; 7] = [
    "api.openai.com",
    "api.stripe.com",
    "api.github.com",
    "oauth2.googleapis.com",
    "storage.googleapis.com",
    "auth.example.com",
    "api.example.com",
];

/// Tokens that the services give, one after the other.
const GITHUB: &str = "ghs_16C7e42F292c6912E7710c838347Ae178B4a";
const GOOGLE: &str = "ya29.c0ASRK0Ga1Zx8LmQw2ErTyUiOpAsDfGhJkLzXcVbNm";
const OAUTH: &str = "tok-5f0c2d9be1a84e7f9a3376cc10de42b8";

/// Private and public RSA key, in PEM.
fn rsa() -> (String, String) {
    let openssl = |words: &[&str], input: &str| {
        let mut command = Command::new("openssl");
        command.args(words);
        super::through(command, input)
    };
    let private = openssl(&["genrsa", "2048"], "");
    let public = openssl(&["rsa", "-pubout"], &private);
    (private, public)
}

/// The services with these settings.
fn services(scene: &Scene, settings: &Value) -> Service {
    let mut settings = settings.clone();
    settings["tokens"] =
        json!({"github": [GITHUB], "google": [GOOGLE], "oauth": [OAUTH, "second"]});
    let file = text(&scene.lab.file("settings.json", &settings.to_string()));
    serve(&scene.lab, "sdk/services.py", &HOSTS, &[&file])
}

fn run<'s>(scene: &'s Scene, secrets: &[(&str, &str)]) -> Subject<'s> {
    let mut run = scene.gig();
    for (name, host) in secrets {
        run = run
            .allow(host)
            .option(["--secret", &format!("{name}@{host}")]);
    }
    run
}

#[test]
fn openai_stripe_and_octokit_work_and_hold_sentinels_in_the_shape_of_keys() {
    let mut scene = Scene::new();
    let (private, public) = rsa();
    let key_line = private.lines().nth(5).expect("a line of the key");
    scene.keep("OPENAI_API_KEY", "kind: static", OPENAI, &[OPENAI]);
    scene.keep("STRIPE_KEY", "kind: static", STRIPE, &[STRIPE]);
    let app = "kind: {github_app: {app_id: Iv23liExample, installation_id: 12345678}}";
    scene.keep("GITHUB_TOKEN", app, &private, &[GITHUB, key_line]);
    let settings = json!({"openai": OPENAI, "stripe": STRIPE, "github_public": public});
    let origin = services(&scene, &settings);
    let secrets = [
        ("OPENAI_API_KEY", "api.openai.com"),
        ("STRIPE_KEY", "api.stripe.com"),
        ("GITHUB_TOKEN", "api.github.com"),
    ];
    let _node = scene.node(run(&scene, &secrets), "sdk/node_sdks.cjs");
    let lines = told(&origin);
    let keys: Vec<_> = lines
        .iter()
        .filter_map(|l| l["idempotency"].as_str())
        .collect();
    // The second try of the same request: the service can tell.
    assert!(keys.len() == 2 && keys[0] == keys[1], "{lines:?}");
    let python = "from openai import OpenAI\nclient = OpenAI()\n\
        ask = dict(model='m', messages=[{'role': 'user', 'content': 'hello'}])\n\
        parts = client.chat.completions.create(stream=True, **ask)\n\
        text = ''.join(part.choices[0].delta.content for part in parts)\n\
        assert text == 'a stream: ' + client.api_key, text\n";
    let _python = scene.python(run(&scene, &secrets[..1]), python);
}

#[test]
fn tokens_of_google_and_of_an_oauth_server_are_minted_outside() {
    let mut scene = Scene::new();
    let (private, public) = rsa();
    let key_line = private.lines().nth(5).expect("a line of the key");
    let account = json!({
        "type": "service_account", "client_email": "lab@lab.iam.gserviceaccount.com",
        "private_key": private, "token_uri": "https://oauth2.googleapis.com/token",
    });
    let scopes = "[https://www.googleapis.com/auth/devstorage.read_only]";
    let google = format!("kind: {{google_service_account: {{scopes: {scopes}}}}}");
    scene.keep(
        "GOOGLE_TOKEN",
        &google,
        &account.to_string(),
        &[GOOGLE, key_line],
    );
    let client_secret = "cs-9dKq27LmXv0RtYp5Wz";
    let oauth = "kind: {oauth2_client_credentials: {endpoint: {token_url: 'https://auth.example.com/token'}, \
        client: {client_id: reporting, authentication: client_secret_basic}}}";
    scene.keep("REPORTS", oauth, client_secret, &[OAUTH, client_secret]);
    let origin = services(
        &scene,
        &json!({"google_public": public, "oauth": client_secret}),
    );
    let secrets = [
        ("GOOGLE_TOKEN", "storage.googleapis.com"),
        ("REPORTS", "api.example.com"),
    ];
    let script = "import concurrent.futures, google.oauth2.credentials, google.auth.transport.requests, requests\n\
        held = google.oauth2.credentials.Credentials(os.environ['GOOGLE_TOKEN'])\n\
        session = google.auth.transport.requests.AuthorizedSession(held)\n\
        got = session.get('https://storage.googleapis.com/storage/v1/b?project=lab')\n\
        assert got.status_code == 200, got.text\n\
        fields = {'Authorization': 'Bearer ' + os.environ['REPORTS']}\n\
        ask = lambda _: requests.get('https://api.example.com/reports', headers=fields, timeout=60).status_code\n\
        with concurrent.futures.ThreadPoolExecutor(8) as pool: answers = list(pool.map(ask, range(16)))\n\
        assert answers == [200] * 16, answers\n";
    let _run = scene.python(run(&scene, &secrets), script);
    let lines = told(&origin);
    let minted = |path: &str| lines.iter().filter(|line| line["path"] == path).count();
    // One for each of the two, however many asked.
    let tokens = lines.iter().filter(|line| line["path"] == "/token").count();
    assert_eq!((tokens, minted("/reports")), (2, 16), "{lines:?}");
}
