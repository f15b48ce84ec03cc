//! `tests/tally.sh`: what counts as failed, and what a second try makes good.
//!
//! A stand-in for a libtest program and for cargo fails as it is told, the first time or always.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
};

use gig_tests::lab::place::{User, repository, scratch};

/// Prints what libtest prints; a test called `once…` fails in the full run and passes alone, one
/// called `always…` fails each time, `escape…` as a denial test that something got past.
const PROGRAM: &str = r#"#!/bin/bash
tests=() alone= bad=()
while [ $# -gt 0 ]; do
  case $1 in
    --exact) alone=$2; tests=("$2"); shift 2;;
    --test-threads) shift 2;;
    *) tests+=("$1"); shift;;
  esac
done
printf '\nrunning %d tests\n' ${#tests[@]}
for test in "${tests[@]}"; do
  case $test in
    hang*) exit 124;;
    once*|escape*) [ -n "$alone" ] || bad+=("$test");;
    always*|again*) bad+=("$test");;
  esac
done
if [ ${#bad[@]} -gt 0 ]; then
  printf '\nfailures:\n\n'
  for test in "${bad[@]}"; do
    printf -- '---- %s stdout ----\npanicked\n' "$test"
    case $test in
      escape_bytes*) echo 'ESCAPED: the origin saw 12 octets; status 0';;
      escape_octets*) echo 'ESCAPED: 12 octets; status 0';;
      escape_name*) echo 'ESCAPED: ["secret.example.net"]; status 0';;
      escape_value*) echo 'ESCAPED: the second request was forwarded; status 0';;
      escape_told*) echo 'ESCAPED: the client was not refused as it should be; status 0';;
      escape_packets*|again_escape*) echo 'ESCAPED: 3 packets reached the internet; status 0';;
    esac
  done
  printf '\nfailures:\n'
  printf '    %s\n' "${bad[@]}"
  state=FAILED
else
  state=ok
fi
printf '\ntest result: %s. %d passed; %d failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.01s\n' \
  $state $((${#tests[@]} - ${#bad[@]})) ${#bad[@]}
[[ ${tests[-1]} != lies* ]] || exit 139
[ $state = ok ] || exit 101
"#;

/// Runs a script with the tally read in and `./program` beside it.
fn tally(script: &str) -> Output {
    let folder = scratch(User::of_this_run());
    let program = folder.path().join("program");
    fs::write(&program, PROGRAM).expect("write the program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("make it one");
    let sourced = repository().join("tests/tally.sh");
    let script = format!(
        "set -euo pipefail\nsource {}\n\
         suite() {{ local status=0; ./program \"$@\" >log 2>&1 || status=$?; tally lab log $status ./program; }}\n\
         {script}\nconclude",
        sourced.display()
    );
    Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .expect("run bash")
}

/// Demands the sums, and what is listed as unstable and as failed.
fn expect(output: &Output, sums: &str, unstable: &[&str], failures: &[&str]) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let below = |heading: &str| -> Vec<&str> {
        let lines = said.lines().skip_while(|line| !line.starts_with(heading));
        lines.skip(1).take_while(|line| !line.is_empty()).collect()
    };
    assert_eq!(said.lines().last(), Some(sums), "{said}{errors}");
    assert_eq!(below("== unstable"), unstable, "{said}{errors}");
    assert_eq!(below("== failures"), failures, "{said}{errors}");
    assert_eq!(output.status.success(), failures.is_empty(), "{said}");
}

#[test]
fn tests_that_pass_are_counted() {
    let run = tally("suite good fine\nsuite well");
    expect(&run, "3 passed, 0 failed", &[], &[]);
}

#[test]
fn a_run_that_takes_too_long_has_failed() {
    let late = ["longer than 60 minutes (GIG_TEST_SLOW=1 forgives it)"];
    let run = tally("suite good\nSECONDS=3700");
    expect(&run, "1 passed, 1 failed", &[], &late);
    let run = tally("suite good\nSECONDS=3700\nGIG_TEST_SLOW=1");
    expect(&run, "1 passed, 0 failed", &[], &[]);
}

#[test]
fn a_test_that_fails_once_is_counted_as_passed_and_named() {
    let run = tally("suite good once::upon well");
    expect(&run, "3 passed, 0 failed", &["lab once::upon"], &[]);
}

#[test]
fn a_test_that_fails_twice_has_failed() {
    let run = tally("suite good once always");
    expect(&run, "2 passed, 1 failed", &["lab once"], &["lab always"]);
}

#[test]
fn an_escape_that_was_witnessed_is_never_forgiven() {
    for escape in [
        "escape_bytes",
        "escape_octets",
        "escape_name",
        "escape_value",
        "escape_packets",
    ] {
        let run = tally(&format!("suite good once {escape}"));
        let failed = ["lab once", &format!("lab {escape}")];
        expect(&run, "1 passed, 2 failed", &[], &failed);
    }
}

#[test]
fn a_denial_that_only_the_client_missed_has_a_second_try() {
    let run = tally("suite good escape_told");
    expect(&run, "2 passed, 0 failed", &["lab escape_told"], &[]);
}

#[test]
fn a_program_that_does_not_finish_has_failed() {
    let run = tally("suite good hang\nsuite good");
    expect(&run, "1 passed, 1 failed", &[], &["lab (did not finish)"]);
}

#[test]
fn a_program_that_ends_otherwise_than_it_says_has_failed() {
    let run = tally("suite good lies");
    expect(
        &run,
        "2 passed, 1 failed",
        &[],
        &["lab (ended with status 139)"],
    );
}

#[test]
fn so_many_failures_that_it_is_no_chance_get_no_second_try() {
    let run = tally("suite once{1..26}");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(said.ends_with("\n0 passed, 26 failed\n"), "{said}");
}

#[test]
fn tests_that_say_that_they_were_skipped_are_counted() {
    let run = tally(
        "suite good fine\nprintf 'a::one: no disk\\nb::two: no kernel\\n' >said\nskips lab said\nskips lab none",
    );
    expect(&run, "2 passed, 0 failed, 2 skipped", &[], &[]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let end = "== skipped\nlab: a::one: no disk\nlab: b::two: no kernel\n";
    assert!(said.contains(end), "{said}");
}

#[test]
fn what_is_skipped_is_named_and_counted() {
    let run = tally("suite good; skip 'lab: no kernel here'");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let end = "== skipped\nlab: no kernel here\n\n1 passed, 0 failed, 1 skipped\n";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn a_machine_has_a_second_try_and_says_so_when_it_cannot_run() {
    let fails_once = "machine() { if [ -e again ]; then echo ok b; else touch again; echo ok a; \
                      echo FAILED b; return 1; fi; }";
    let run = tally(&format!("{fails_once}\ntally_machine vm machine"));
    expect(&run, "2 passed, 0 failed", &["vm b"], &[]);
    let run = tally("machine() { echo ok a; echo FAILED b; return 1; }\ntally_machine vm machine");
    expect(&run, "1 passed, 1 failed", &[], &["vm b"]);
    let run = tally("machine() { echo ok a; return 124; }\ntally_machine vm machine");
    expect(&run, "1 passed, 1 failed", &[], &["vm (did not finish)"]);
    let run = tally("machine() { return 77; }\ntally_machine vm machine");
    expect(&run, "0 passed, 0 failed, 1 skipped", &[], &[]);
}

/// What nextest 0.9 printed for three tests, one of which failed once and one twice.
const NEXTEST: &str = "    Starting 3 tests across 1 binary
  TRY 1 FAIL [   0.228s] (1/3) crate tests::bad
  TRY 2 FAIL [   0.228s] (2/3) crate tests::bad
────────────
     Summary [   0.558s] 3 tests run: 2 passed (1 flaky), 1 failed, 0 skipped
   FLAKY 2/2 [   0.036s] (3/3) crate tests::once
  TRY 2 FAIL [   0.228s] (2/3) crate tests::bad
error: test run failed
";

#[test]
fn what_nextest_calls_flaky_is_named_and_what_it_calls_failed_has_failed() {
    let run = tally(&format!(
        "cat >log <<'END'\n{NEXTEST}END\ntally_nextest unit log 1"
    ));
    let failed = ["unit: 1, see above"];
    let flaky = ["unit crate tests::once"];
    expect(&run, "2 passed, 1 failed", &flaky, &failed);
}

#[test]
fn a_runner_that_fails_without_a_failure_has_failed() {
    let summary = "     Summary [   0.5s] 3 tests run: 3 passed, 0 skipped";
    let run = tally(&format!("echo '{summary}' >log; tally_nextest unit log 1"));
    expect(&run, "3 passed, 1 failed", &[], &["unit: 1, see above"]);
    let run = tally("echo 'error: could not compile' >log; tally_nextest unit log 1");
    let failed = ["unit (did not finish)"];
    expect(&run, "0 passed, 1 failed", &[], &failed);
}

#[test]
fn without_nextest_cargo_test_has_second_tries_too() {
    // The stand-in is told what cargo says to rerun with: it takes the words for names of tests, so
    // that a second try with nothing lost in between says "1 passed".
    let script = r"
        cargo() { while [ $1 != -- ]; do shift; done; shift; ./program $@; }
        stage() { ./program $2 $3 || echo error: test failed, to rerun pass \`-p $1 --lib\`; }
        { stage one good well; stage two good once; stage three always good; stage four well once2; } >log 2>&1
        tally_cargo unit log cargo test";
    let run = tally(script);
    let unstable = ["unit once", "unit once2"];
    expect(&run, "7 passed, 1 failed", &unstable, &["unit always"]);
}

#[test]
fn a_program_of_cargo_test_that_dies_has_failed() {
    let script = r"
        { ./program good
          echo 'error: test failed, to rerun pass `--lib`'
          echo 'Caused by:'
          echo '  process didn'\''t exit successfully: `x` (signal: 6, SIGABRT: process abort signal)'; } >log
        tally_cargo unit log true";
    let run = tally(script);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(!run.status.success() && said.contains("SIGABRT"), "{said}");
}
