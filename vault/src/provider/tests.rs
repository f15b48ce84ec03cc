//! Files and commands: bounded in size and time, without their line end.

use std::{fs, path::PathBuf};

use super::*;
use crate::{
    clock::SystemClock,
    fetch::{FetchError, FetchFuture, FetchRequest},
    vault::LARGEST,
};

/// A network that is not there.
#[derive(Debug)]
struct Nowhere;

impl Fetch for Nowhere {
    fn fetch(&self, _: FetchRequest) -> FetchFuture<'_> {
        Box::pin(std::future::ready(Err(FetchError::Connect {
            host: "nowhere".to_owned(),
            why: "there is no network".to_owned(),
        })))
    }
}

async fn ask(definition: &str) -> Result<Provided, ProvideError> {
    let definition: ProviderDefinition = serde_saphyr::from_str(definition).unwrap();
    definition.check().unwrap();
    let provider = definition.provider().unwrap();
    assert_eq!(provider.name(), definition.name());
    let name = "GIG_TEST_NOT_SET".parse().unwrap();
    let fetch: Arc<dyn Fetch> = Arc::new(Nowhere);
    provider
        .provide(ProvideRequest {
            name: &name,
            fetch: &fetch,
            clock: &SystemClock,
        })
        .await
}

async fn value(definition: &str) -> String {
    let provided = ask(definition).await.unwrap();
    String::from_utf8(provided.value.expose().to_vec()).unwrap()
}

async fn trouble(definition: &str) -> String {
    ask(definition).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_file_is_read_without_its_line_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("value");
    fs::write(&path, "hunter2\r\n").unwrap();
    let shown = path.display();
    assert_eq!(
        value(&format!("{{file: {{path: '{shown}'}}}}")).await,
        "hunter2"
    );
    let kept = format!("{{file: {{path: '{shown}', keep_newline: true}}}}");
    assert_eq!(value(&kept).await, "hunter2\r\n");
    fs::write(&path, vec![b'a'; LARGEST + 1]).unwrap();
    assert!(
        trouble(&format!("{{file: {{path: '{shown}'}}}}"))
            .await
            .contains("more than")
    );
    assert!(
        trouble("{file: {path: /nowhere/at/all}}")
            .await
            .contains("/nowhere/at/all")
    );
}

#[tokio::test]
async fn a_pipe_that_somebody_writes_to_gives_its_value() {
    let dir = tempfile::tempdir().unwrap();
    let path = pipe(&dir);
    for number in 0..3 {
        let writer = {
            let path = path.clone();
            // Opened when somebody reads, as password managers do.
            std::thread::spawn(move || fs::write(path, format!("value {number}\n")))
        };
        let definition = format!("{{file: {{path: '{}'}}}}", path.display());
        assert_eq!(value(&definition).await, format!("value {number}"));
        writer.join().unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_nobody_writes_to_is_told_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let definition = format!("{{file: {{path: '{}'}}}}", pipe(&dir).display());
    let begun = tokio::time::Instant::now();
    let silent = ask(&definition).await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert!(matches!(silent, ProvideError::Unavailable(_)));
    let silent = silent.to_string();
    assert!(silent.contains("nobody writes to the pipe"), "{silent}");
}

#[tokio::test]
async fn what_hangs_in_the_kernel_is_not_asked_for_ever_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("value");
    fs::write(&path, "hunter2").unwrap();
    let reader = reading::Reader::default();
    let mut hanging = vec![reader.hang(), reader.hang()];
    assert_eq!(
        reader.read(&path, 100).await.unwrap().as_slice(),
        b"hunter2"
    );
    hanging.push(reader.hang());
    let why = reader.read(&path, 100).await.unwrap_err();
    assert!(why.contains("3 attempts hang"), "{why}");
    hanging.clear();
    assert!(reader.read(&path, 100).await.is_ok());
}

fn pipe(dir: &tempfile::TempDir) -> PathBuf {
    let path = dir.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path
}

#[tokio::test]
async fn nothing_but_a_line_end_is_said_to_be_that() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("value");
    fs::write(&path, "\n").unwrap();
    let file = trouble(&format!("{{file: {{path: '{}'}}}}", path.display())).await;
    assert!(
        file.contains("a line end alone") && file.contains("/value"),
        "{file}"
    );
    let command = trouble("{command: {program: /bin/echo}}").await;
    assert!(command.contains("/bin/echo printed nothing"), "{command}");
    let failed = trouble("{command: {program: /bin/false}}").await;
    assert!(failed.contains("run it by hand"), "{failed}");
}

#[tokio::test]
async fn a_command_gets_no_environment_and_no_shell() {
    assert_eq!(
        value("{command: {program: /bin/echo, args: ['$HOME; id']}}").await,
        "$HOME; id"
    );
    assert!(
        trouble("{command: {program: /usr/bin/env}}")
            .await
            .contains("nothing")
    );
    let passed = value("{command: {program: /usr/bin/env, pass: [PATH]}}").await;
    assert!(
        passed.starts_with("PATH=") && !passed.contains('\n'),
        "{passed}"
    );
}

#[tokio::test]
async fn a_command_is_bounded_in_time_and_size_and_has_to_end_well() {
    let endless = trouble("{command: {program: /bin/sleep, args: ['1000'], timeout: 1}}").await;
    assert!(endless.contains("did not finish"), "{endless}");
    let much = trouble("{command: {program: /bin/cat, args: [/dev/zero]}}").await;
    assert!(much.contains("more than"), "{much}");
    assert!(
        trouble("{command: {program: /bin/false}}")
            .await
            .contains("ended with")
    );
    assert!(
        trouble("{command: {program: /nowhere/x}}")
            .await
            .contains("cannot be started")
    );
}

#[tokio::test]
async fn a_variable_that_is_not_set_is_refused() {
    let refused = ask("{environment: {}}").await.unwrap_err();
    assert!(matches!(refused, ProvideError::Refused(_)));
    assert!(value("{environment: {variable: PATH}}").await.contains('/'));
}

#[test]
fn relative_paths_are_refused() {
    for text in ["{file: {path: a}}", "{command: {program: pass}}"] {
        let definition: ProviderDefinition = serde_saphyr::from_str(text).unwrap();
        assert!(definition.check().is_err());
    }
}
