"""Judges a run of the escape suite against a subject that confines nothing: all of it must have failed.

usage: judge_open.py LOG LIST CLASS...    LOG is what the run printed, LIST what `--list` names

Promises: well only if every listed test failed by a witness of its own, if there is a class for each
CLASS, and if in each class nobody's word alone decides: something came where nothing may, and a client
saw that it was not refused. tests/repo/judge.rs proves it.
"""
import collections
import re
import sys

# What tests/src/lab/denial.rs says in the name of the client; all else is somebody else's word.
CLIENT = "ESCAPED: the client"
FEWEST = 50


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


def main(log, listed, *classes):
    names = re.findall(r"^(\S+): test$", read(listed), flags=re.M)
    parts = re.split(r"^---- (\S+) stdout ----$", read(log), flags=re.M)
    said = dict(zip(parts[1::2], parts[2::2]))
    complaints = [f"only {len(names)} tests" for _ in range(len(names) < FEWEST)]
    tests = collections.defaultdict(list)
    for name in names:
        tests[name.split("::")[1]].append(said.get(name, ""))
        if "ESCAPED: " not in said.get(name, ""):
            complaints.append(f"proves nothing: {name}")
    for name in sorted({*classes, *tests}):
        each = tests[name]
        escaped = sum("ESCAPED: " in text for text in each)
        client = sum(CLIENT in text for text in each)
        origin = sum("ESCAPED: " in text.replace(CLIENT, "") for text in each)
        print(f"{name}: {escaped} of {len(each)} escape, {origin} seen to arrive, {client} told by the client")
        if not origin:
            complaints.append(f"{name}: nothing was seen to arrive")
        if not client:
            complaints.append(f"{name}: no client told")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


sys.exit(main(*sys.argv[1:]))
