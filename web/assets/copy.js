// A button that copies what is marked with data-copy, where the browser lets a page do so. The text is read from the
// page and goes nowhere else.
"use strict";
(() => {
  if (!navigator.clipboard) return;
  for (const marked of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet small copy";
    button.textContent = "Copy";
    const said = document.createElement("span");
    said.setAttribute("role", "status");
    said.className = "dim";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(marked.innerText.trim());
        said.textContent = " Copied.";
      } catch {
        said.textContent = " The browser does not let it be copied: mark it and copy it by hand.";
      }
    });
    const line = document.createElement("p");
    line.append(button, said);
    marked.after(line);
  }
})();
