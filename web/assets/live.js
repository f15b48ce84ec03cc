// Puts each record that is written into the table of the page, newest first. Text is set as text: a host
// or path that a sandbox made up is never markup here.
"use strict";
(() => {
  const table = document.getElementById("live");
  const state = document.getElementById("live-state");
  const pause = document.getElementById("live-pause");
  const body = table.tBodies[0];
  const most = 200;
  let held = [];
  let missed = false;
  let paused = false;
  let source;

  const say = (words) => {
    if (state.textContent !== words) state.textContent = words;
  };

  const cell = (row, kind, label, child) => {
    const made = row.insertCell();
    made.className = kind;
    made.dataset.label = label;
    made.append(child);
  };

  const link = (to, words) => {
    const made = document.createElement("a");
    made.href = to;
    made.textContent = words;
    return made;
  };

  const show = (record) => {
    if (document.getElementById("r" + record.id)) return;
    const row = body.insertRow(0);
    row.id = "r" + record.id;
    cell(row, "tight", "Time", link("/audit/" + encodeURIComponent(record.id), record.time));
    cell(row, "tight", "Event", record.event);
    const verdict = document.createElement("span");
    if (record.verdict) {
      verdict.className = "tag " + record.verdict;
      verdict.textContent = record.words;
    }
    cell(row, "tight", "Verdict", verdict);
    cell(row, "place", "What", record.place);
    if (record.lookalike) {
      const tag = document.createElement("span");
      tag.className = "tag deny";
      tag.title = record.lookalike;
      tag.textContent = "lookalike";
      row.lastElementChild.append(" ", tag);
    }
    cell(row, "why", "Why", record.rule ? link(record.rule, record.why) : record.why);
    const to = "/sandboxes/" + encodeURIComponent(record.sandbox);
    cell(row, "who", "Who", record.sandbox ? link(to, record.who) : record.who);
    while (body.rows.length > most) body.deleteRow(-1);
    table.hidden = false;
    const empty = document.getElementById("live-empty");
    if (empty) empty.remove();
  };

  const told = () => say(missed ? "Live. Some records were left out: there were too many." : "Live.");

  const open = () => {
    source = new EventSource("/live/events?" + table.dataset.from);
    source.addEventListener("open", () => (paused ? undefined : told()));
    source.addEventListener("record", (event) => {
      const record = JSON.parse(event.data);
      if (paused) {
        held.push(record);
        if (held.length > most) held.shift();
        say("Paused. " + held.length + (held.length === 1 ? " record waits." : " records wait."));
      } else {
        show(record);
      }
    });
    source.addEventListener("left", () => {
      missed = true;
      told();
    });
    source.addEventListener("end", (event) => {
      source.close();
      say("Ended: " + JSON.parse(event.data).why);
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) say("Ended: load the page again.");
      else say("The connection is lost; trying again.");
    });
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    if (paused) {
      say("Paused.");
      return;
    }
    held.forEach(show);
    held = [];
    told();
  });
  open();
})();
