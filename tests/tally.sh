# Sums over test programs, and the second try of a test. Read by tests/run; proved by tests/repo/tally.rs.
#
# Promises: a test that fails is run once more, alone, and counts as failed only if it fails again; one that
# passes then counts as passed and is named at the end, under "unstable". Nothing is forgiven where bytes or
# packets were seen that may not be there, where a program did not finish, or where it ended otherwise than
# it said.
# shellcheck shell=bash

passed=0
failed=0
failures=()
unstable=()
skipped=()

# An escape that somebody beside the client saw (the origin, the resolver, the network): no second try makes
# it good. The client's word alone has one: "ESCAPED: the client ..." says that no such witness is meant.
witness='ESCAPED: ([^t]|t[^h]|th[^e]|the[^ ]|the [^c]|the c[^l])'
# So many failures are not chance, and their second tries would outlast everybody's patience.
too_many=25

# All of it, in seconds; and when the build was done, which tests/run says.
longest=3600
built=

# With the time since the beginning, where it is more than a minute.
say() {
  local so_far=
  [ $SECONDS -lt 60 ] || so_far="  ($((SECONDS / 60)) min $((SECONDS % 60)) s)"
  printf '\n== %s%s\n' "$*" "$so_far"
}

fail() {
  failed=$((failed + 1))
  failures+=("$1")
}

# What could not be run here: told at once, named at the end and counted.
skip() {
  echo "SKIPPED: $1"
  skipped+=("$1")
}

# skips NAME FILE: names and counts the tests of which FILE has a line each, TEST: WHY.
skips() {
  local name=$1 line
  [ -e "$2" ] || return 0
  while read -r line; do skip "$name: $line"; done <"$2"
}

forgive() {
  passed=$((passed + 1))
  unstable+=("$1")
}

# The names below the last "failures:" of a libtest program's output.
failed_names() {
  awk '/^failures:$/ { n = 0; next }
       /^    [^ ]/ { names[n++] = substr($0, 5) }
       END { for (i = 0; i < n; i++) print names[i] }' "$1"
}

# once_more LOG COMMAND…: whether this, run again, says that its one test passed.
once_more() {
  local log=$1
  shift
  if "$@" </dev/null >"$log" 2>&1 && grep -qE '^test result: ok\. 1 passed; 0 failed' "$log" &&
    ! grep -qE "$witness" "$log"; then return 0; fi
  echo "-- the second try:"
  cat "$log"
  return 1
}

# second_tries NAME LOG NAMES-OF-TESTS -- COMMAND…: COMMAND takes the options of libtest.
second_tries() {
  local name=$1 log=$2 tests=() test
  shift 2
  while [ "$1" != -- ]; do
    tests+=("$1")
    shift
  done
  shift
  for test in "${tests[@]}"; do
    echo "-- $name: $test failed; once more, alone"
    if once_more "$log.again" "$@" --exact "$test" --test-threads 1; then
      echo "-- it passed"
      forgive "$name $test"
    else
      fail "$name $test"
    fi
  done
}

# tally NAME LOG STATUS COMMAND…: adds what a libtest program wrote to LOG before it ended with STATUS.
# COMMAND is that program once more; it takes the options of libtest.
tally() {
  local name=$1 log=$2 status=$3 line bad names test
  shift 3
  line=$(grep -E '^test result: ' "$log" | tail -n 1 || true)
  if [ -z "$line" ]; then
    fail "$name (did not finish)"
    return
  fi
  passed=$((passed + $(sed -E 's/.* ([0-9]+) passed.*/\1/' <<<"$line")))
  bad=$(sed -E 's/.* ([0-9]+) failed.*/\1/' <<<"$line")
  mapfile -t names < <(failed_names "$log")
  if [ "$bad" = 0 ]; then
    [ "$status" = 0 ] || fail "$name (ended with status $status)"
  elif [ ${#names[@]} != "$bad" ]; then
    failed=$((failed + bad))
    failures+=("$name: $bad tests, see above")
  elif [ "$bad" -gt $too_many ] || grep -qE "$witness" "$log"; then
    for test in "${names[@]}"; do fail "$name $test"; done
  else
    second_tries "$name" "$log" "${names[@]}" -- "$@"
  fi
}

# tally_nextest NAME LOG STATUS: adds what nextest with --retries printed.
tally_nextest() {
  local name=$1 log=$2 status=$3 line bad test
  line=$(grep -E '^ *Summary ' "$log" | tail -n 1 || true)
  if [ -z "$line" ]; then
    fail "$name (did not finish)"
    return
  fi
  passed=$((passed + $(grep -oE '[0-9]+ passed' <<<"$line" | grep -oE '[0-9]+' || echo 0)))
  bad=$(grep -oE '[0-9]+ (failed|timed out)' <<<"$line" | grep -oE '^[0-9]+' | paste -sd+ || true)
  bad=$((bad))
  # A runner that fails without counting a failure has still failed, and so has a witnessed escape.
  if [ "$bad" = 0 ] && { [ "$status" != 0 ] || grep -qE "$witness" "$log"; }; then bad=1; fi
  if [ "$bad" != 0 ]; then
    failed=$((failed + bad))
    failures+=("$name: $bad, see above")
  fi
  while read -r test; do unstable+=("$name $test"); done < <(
    sed -nE 's/^ *FLAKY [0-9/]+ \[[^]]*\] *(\([^)]*\) *)?//p' "$log" | sort -u)
}

# tally_cargo NAME LOG COMMAND…: adds what `cargo test --no-fail-fast`, several programs long, printed.
# COMMAND is cargo test; it takes what cargo says "to rerun pass" with, and after -- the options of libtest.
tally_cargo() {
  local name=$1 log=$2 bad again test found=0
  shift 2
  if ! grep -qE '^test result: ' "$log"; then
    fail "$name (did not finish)"
    return
  fi
  passed=$((passed + $(awk '/^test result: / { sub(/ passed.*/, ""); sum += $NF } END { print sum + 0 }' "$log")))
  bad=$(awk '/^test result: / { sub(/ failed.*/, ""); sum += $NF } END { print sum + 0 }' "$log")
  if [ "$bad" != 0 ] && [ "$bad" -le $too_many ] && ! grep -qE "$witness" "$log"; then
    while IFS=$'\t' read -r again test; do
      found=$((found + 1))
      # shellcheck disable=SC2086  # several words, as cargo says them
      second_tries "$name" "$log" "$test" -- "$@" $again --
    done < <(cargo_failures "$log")
  fi
  if [ "$found" -lt "$bad" ]; then
    failed=$((failed + bad - found))
    failures+=("$name: $((bad - found)), see above")
  fi
  # Of a program that never came to its result cargo says why it ended.
  while read -r test; do fail "$name $test"; done < <(sed -nE 's/^ *(process didn.t exit successfully.*)/\1/p' "$log")
  if [ "$bad" = 0 ] && grep -qE '^error' "$log"; then fail "$name, see above"; fi
}

# tally_machine NAME COMMAND…: COMMAND prints "ok CHECK" or "FAILED CHECK" a line; 77 is that it cannot run here.
# What failed counts only if it fails in a second machine as well.
tally_machine() {
  local name=$1 status=0 first second check
  shift
  first=$("$@") || status=$?
  if [ "$status" = 77 ]; then
    skip "$name"
    return
  fi
  passed=$((passed + $(grep -c '^ok ' <<<"$first" || true)))
  if [ "$status" = 0 ]; then return; fi
  echo "-- $name failed; once more"
  status=0
  second=$("$@") || status=$?
  while read -r check; do
    if grep -qxF "ok $check" <<<"$second"; then forgive "$name $check"; else fail "$name $check"; fi
  done < <(sed -n 's/^FAILED //p' <<<"$first")
  # A machine that did not come to its end has no FAILED line for what it did not reach.
  if [ "$status" != 0 ] && ! grep -q '^FAILED ' <<<"$first"; then fail "$name (did not finish)"; fi
}

# For each failed test what cargo takes to run its program again, a tab, and its name.
cargo_failures() {
  awk '/^failures:$/ { n = 0; next }
       /^    [^ `]/ { names[n++] = substr($0, 5) }
       /^test result: ok/ { n = 0 }
       /^error: test failed, to rerun pass `/ {
         split($0, parts, "`")
         for (i = 0; i < n; i++) print parts[2] "\t" names[i]
         n = 0
       }' "$1"
}

# What was seen, the sums last; the status is 0 only if nothing failed.
conclude() {
  local took=$SECONDS
  say "time: $((took / 60)) min $((took % 60)) s${built:+, of it $((built / 60)) min $((built % 60)) s until all was built}"
  if [ "$took" -gt "$longest" ] && [ "${GIG_TEST_SLOW:-}" != 1 ]; then
    fail "longer than $((longest / 60)) minutes (GIG_TEST_SLOW=1 forgives it)"
  fi
  if [ ${#unstable[@]} -gt 0 ]; then
    say "unstable (failed once, passed alone)"
    printf '%s\n' "${unstable[@]}"
  fi
  if [ ${#failures[@]} -gt 0 ]; then
    say "failures"
    printf '%s\n' "${failures[@]}"
  fi
  local rest=
  if [ ${#skipped[@]} -gt 0 ]; then
    say "skipped"
    printf '%s\n' "${skipped[@]}"
    rest=", ${#skipped[@]} skipped"
  fi
  printf '\n%d passed, %d failed%s\n' "$passed" "$failed" "$rest"
  [ "$failed" -eq 0 ]
}
