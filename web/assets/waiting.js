// Shows on a page that stays open what begins to wait for somebody, and what waits no more. The page is asked for
// again, and of its answer the parts that are marked are put in place of those here, where they say something else.
"use strict";
(() => {
  const every = 2000;
  const told = document.getElementById("waits-told");
  const title = document.title;
  let asked = false;

  // By which the same button or link is known again.
  const name = (node) =>
    node.form ? node.form.getAttribute("action") + " " + node.value : node.getAttribute("href");

  const put = (old, fresh) => {
    const had = old.contains(document.activeElement) ? name(document.activeElement) : null;
    old.replaceWith(fresh);
    if (had === null) return;
    const controls = [...fresh.querySelectorAll("button, a")];
    const again = controls.find((node) => name(node) === had);
    if (again) again.focus();
    else told?.focus();
  };

  const look = (page) => {
    for (const old of document.querySelectorAll("[data-fresh]")) {
      const fresh = page.getElementById(old.id);
      if (!fresh || fresh.dataset.fresh === old.dataset.fresh) continue;
      // Under a pointer nothing moves to where something else was.
      const grows = fresh.dataset.fresh.startsWith(old.dataset.fresh);
      if (grows || !old.matches(":hover")) put(old, fresh);
    }
    // What ticks meanwhile.
    for (const fresh of page.querySelectorAll("[data-left]")) {
      const old = document.getElementById(fresh.id);
      if (old) old.textContent = fresh.textContent;
    }
    const count = document.querySelector("nav .count");
    const waiting = count ? parseInt(count.textContent, 10) : 0;
    document.title = waiting ? "(" + waiting + ") " + title : title;
    const words = page.getElementById("waits-told");
    if (told && words && told.textContent !== words.textContent) told.textContent = words.textContent;
  };

  const ask = async () => {
    if (asked) return;
    asked = true;
    try {
      // Of its section: a form may have led here by an address of its own.
      const here = document.querySelector('nav [aria-current="page"]').href;
      // It is no person who asks: their session ends when they have done nothing for long.
      const headers = { "Gig-Unattended": "1" };
      const answer = await fetch(here, { headers, redirect: "error" });
      if (answer.ok) look(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // Signed out, or gig is away: what is shown stays, and its buttons say so.
    }
    asked = false;
  };

  setInterval(ask, every);
})();
