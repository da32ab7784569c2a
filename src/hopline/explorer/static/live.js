// The pages work without this script. It follows tables that change, and adds keys.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const status = document.getElementById("live");
  const fresh = document.getElementById("fresh");
  let state = document.body.dataset.state;
  let missed = 0;

  // Replaces the content of the page with what the server says now; the link that has the focus keeps it.
  async function refresh() {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const main = document.getElementById("main");
    const focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement : null;
    if (focused && /^(INPUT|SELECT|TEXTAREA)$/.test(focused.tagName)) {
      return false; // somebody is typing
    }
    const href = focused && focused.getAttribute("href");
    main.replaceWith(document.adoptNode(page.getElementById("main")));
    document.title = page.title;
    state = page.body.dataset.state;
    const again = href && document.querySelector(`main a[href="${CSS.escape(href)}"]`);
    if (again) {
      again.focus({ preventScroll: true });
    }
    return true;
  }

  async function look() {
    try {
      const response = await fetch("/state", { cache: "no-store" });
      missed = 0;
      if (!response.ok) {
        status.textContent = "the tables cannot be read now";
        setTimeout(look, EVERY_MS);
        return;
      }
      const now = await response.json();
      const current = now.state;
      fresh.textContent = now.freshness; // how old the last batch of a stream is; its age grows without a new state
      fresh.hidden = !now.freshness;
      if (current && current !== state && (await refresh())) {
        status.textContent = "updated " + new Date().toISOString().slice(11, 19);
      } else if (status.textContent.startsWith("the ")) {
        status.textContent = "";
      }
    } catch {
      missed += 1;
      status.textContent = "the explorer does not answer: is it still running?";
    }
    setTimeout(look, EVERY_MS * Math.min(1 + missed, 15));
  }

  let prefix = false;
  let chosen = -1;

  function choose(step) {
    const rows = [...document.querySelectorAll("main tbody tr")];
    if (!rows.length) {
      return;
    }
    rows.forEach((row) => row.classList.remove("chosen"));
    chosen = Math.min(Math.max(chosen + step, 0), rows.length - 1);
    rows[chosen].classList.add("chosen");
    rows[chosen].scrollIntoView({ block: "nearest" });
    const link = rows[chosen].querySelector("a[href]");
    if (link) {
      link.focus({ preventScroll: true });
    }
  }

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && typing) {
      event.target.blur();
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (prefix) {
      prefix = false;
      const link = document.querySelector(`header nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        link.click();
      }
    } else if (event.key === "g") {
      prefix = true;
    } else if (event.key === "/") {
      event.preventDefault();
      document.getElementById("find").focus();
    } else if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      choose(event.key === "j" ? 1 : -1);
    }
  });

  if (state) {
    setTimeout(look, EVERY_MS);
  }
})();
