// Checks a policy's document while it is typed: each mistake with its line, marked beside it; asks before what is
// not saved is left, and keeps what was sent, in this tab, until it has arrived. What the
// document or the answer says is set as text: it is never markup here.
"use strict";
(() => {
  const area = document.getElementById("document");
  const typed = document.getElementById("typed");
  const before = document.getElementById("checked");
  const gutter = document.getElementById("gutter");
  // Nobody who types is asked about each letter.
  const pause = 400;
  // More lines are not numbered, and more text is checked by the button alone.
  const mostLines = 5000;
  const longest = 1024 * 1024;
  let timer;
  let asking;
  let marks = new Map();
  let numbered = "";
  let shown = "";

  const make = (kind, words, className) => {
    const made = document.createElement(kind);
    if (words) made.textContent = words;
    if (className) made.className = className;
    return made;
  };

  const number = () => {
    const count = area.value.split("\n").length;
    const state = count + JSON.stringify([...marks]);
    if (state !== numbered) {
      numbered = state;
      gutter.hidden = count > mostLines;
      const lines = document.createDocumentFragment();
      for (let line = 1; line <= count && !gutter.hidden; line += 1) {
        const mark = marks.get(line);
        lines.append(mark ? make("b", String(line), mark) : String(line), "\n");
      }
      gutter.replaceChildren(lines);
    }
    gutter.scrollTop = area.scrollTop;
  };

  const go = (line, column) => {
    const lines = area.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    // Columns are counted in characters.
    const place = at + [...(lines[line - 1] || "")].slice(0, column - 1).join("").length;
    area.focus();
    area.setSelectionRange(place, place);
    const height = parseFloat(getComputedStyle(area).lineHeight);
    area.scrollTop = (line - 1) * height - area.clientHeight / 2;
  };

  const note = (kind, words, list) => {
    const made = make("div", "", "note " + kind);
    made.append(make("strong", words));
    if (list.length > 0) {
      const items = make("ul");
      for (const one of list) {
        const item = make("li");
        if (one.line > 0) {
          const place = make("button", "line " + one.line + ", column " + one.column, "quiet small");
          place.type = "button";
          place.addEventListener("click", () => go(one.line, one.column));
          item.append(place, " ");
        }
        item.append(one.message);
        items.append(item);
      }
      made.append(items);
    }
    return made;
  };

  const show = (notes, problems, findings) => {
    marks = new Map();
    for (const one of findings) if (one.line > 0) marks.set(one.line, "warn");
    for (const one of problems) if (one.line > 0) marks.set(one.line, "bad");
    number();
    // What was there when the page came is of another document.
    before.hidden = true;
    const state = notes.map((one) => one.textContent).join("\n");
    if (state === shown) return;
    shown = state;
    typed.replaceChildren(...notes);
  };

  const told = (answer) => {
    const notes = [];
    const { problems, findings } = answer;
    if (problems.length > 0) notes.push(note("bad", "This is not a valid policy:", problems));
    if (findings.length > 0) notes.push(note("warn", "Hardly meant:", findings));
    if (answer.valid) notes.unshift(note("good", "Valid. Nothing is saved yet.", []));
    show(notes, problems, findings);
  };

  const check = async () => {
    if (asking) asking.abort();
    const mine = new AbortController();
    asking = mine;
    const text = area.value;
    if (text.length > longest) {
      show([note("warn", "It is too long to be checked while you type: press Check.", [])], [], []);
      return;
    }
    try {
      const reply = await fetch("/api/v1/policies/check", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ name: area.dataset.name, document: text }),
        signal: mine.signal,
        redirect: "error",
      });
      const answer = await reply.json();
      if (mine !== asking) return;
      if (!reply.ok) throw new Error(answer.detail);
      told(answer);
    } catch (error) {
      if (mine !== asking || mine.signal.aborted) return;
      show([note("warn", "Not checked: " + error.message, [])], [], []);
    }
  };

  area.addEventListener("input", () => {
    number();
    clearTimeout(timer);
    timer = setTimeout(check, pause);
  });
  // In Simulate's fields Enter simulates; anywhere else in the form it checks.
  const days = document.getElementById("days");
  days.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    days.form.requestSubmit(days.form.querySelector("button[value=simulate]"));
  });
  // What is saved, checked or simulated goes along; whoever leaves in another way is asked before what they typed is lost.
  const form = area.form;
  const why = form.elements.namedItem("reason");
  const version = form.elements.namedItem("version");
  // Of who is signed in here: who is next in this tab is offered nothing of theirs.
  const place = "gig:sent:" + area.dataset.user + ":" + area.dataset.name;
  let sent = false;
  form.addEventListener("submit", () => {
    sent = true;
    // Where it does not arrive, or gig cannot take it, it is found here again.
    try {
      sessionStorage.setItem(place, JSON.stringify({ version: version.value, text: area.value }));
    } catch {
      // More than this browser keeps: then it is asked for by nobody.
    }
  });
  const back = () => {
    const kept = JSON.parse(sessionStorage.getItem(place) || "null");
    if (kept === null) return;
    const over = kept.version !== version.value || kept.text === area.value || "typed" in area.dataset;
    if (over) {
      sessionStorage.removeItem(place);
      return;
    }
    const offer = note("warn", "What you last sent from here is not in this version. ", []);
    const again = make("button", "Put it back", "quiet small");
    again.type = "button";
    again.addEventListener("click", () => {
      area.value = kept.text;
      offer.remove();
      area.dispatchEvent(new Event("input"));
      area.focus();
    });
    offer.append(again);
    typed.before(offer);
  };
  back();
  // Back here, by the browser's own memory of the page.
  addEventListener("pageshow", () => {
    sent = false;
  });
  addEventListener("beforeunload", (event) => {
    const typed = "typed" in area.dataset || area.value !== area.defaultValue || why.value !== why.defaultValue;
    if (typed && !sent) event.preventDefault();
  });

  area.addEventListener("scroll", () => {
    gutter.scrollTop = area.scrollTop;
  });
  number();
})();
