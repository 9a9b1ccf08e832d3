// Small conveniences over pages that work without them: nothing here holds state that the address does not.
"use strict";
(() => {
  const q = document.getElementById("q"), form = document.getElementById("search"), live = document.getElementById("live");
  const root = document.documentElement;
  const saved = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  if (saved) root.dataset.theme = saved;

  // Light or dark.
  document.querySelector("[data-theme-toggle]")?.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this page */ }
  });

  // Parts that are fetched after the hits; leaving the page ends them on the server, too.
  const leaving = new AbortController();
  addEventListener("pagehide", () => leaving.abort());
  async function load(place, address) {
    try {
      const answer = await fetch(address, { signal: leaving.signal });
      const markup = await answer.text();
      const made = new DOMParser().parseFromString(markup, "text/html").body;
      if (place.id === "count") place.replaceChildren(...made.childNodes);
      else if (answer.ok && place.dataset.load) place.replaceWith(...made.childNodes);
      else place.replaceChildren(...made.childNodes);
      place.classList.remove("loading");
      place.removeAttribute("aria-busy");
      brush();
      travel();
      openLater();
    } catch (error) {
      if (error.name !== "AbortError") place.textContent = "This could not be loaded.";
    }
  }
  for (const place of document.querySelectorAll("[data-load]")) load(place, place.dataset.load);
  // Parts that are fetched when they are opened.
  function openLater() {
    for (const place of document.querySelectorAll("[data-open-load]:not([data-ready])")) {
      place.dataset.ready = "";
      place.closest("details").addEventListener("toggle", () => {
        if (place.closest("details").open && !place.childNodes.length) load(place, place.dataset.openLoad);
      });
    }
  }
  openLater();

  // The histogram: a stretch is drawn over its bars.
  function brush() {
    const svg = document.querySelector("[data-brush]:not([data-ready])");
    if (!svg) return;
    svg.dataset.ready = "";
    const bars = [...svg.querySelectorAll("a")];
    let first = -1, last = -1;
    const at = (event) => bars.findIndex((bar) => {
      const box = bar.querySelector(".reach").getBoundingClientRect();
      return event.clientX >= box.left && event.clientX < box.right;
    });
    const show = () => bars.forEach((bar, n) =>
      bar.classList.toggle("in", first >= 0 && n >= Math.min(first, last) && n <= Math.max(first, last)));
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0) { first = last = at(event); } });
    svg.addEventListener("pointermove", (event) => { if (first >= 0 && at(event) >= 0) { last = at(event); show(); } });
    addEventListener("pointerup", () => {
      const [low, high] = [Math.min(first, last), Math.max(first, last)];
      const drawn = first >= 0 && high > low;
      first = last = -1;
      show();
      if (drawn) {
        svg.addEventListener("click", (event) => event.preventDefault(), { capture: true, once: true });
        const address = new URL(bars[low].getAttribute("href"), location.href);
        address.searchParams.set("since", bars[low].dataset.since);
        address.searchParams.set("until", bars[high].dataset.until);
        location.assign(address);
      }
    });
    for (const bar of bars) bar.addEventListener("dragstart", (event) => event.preventDefault());
  }
  brush();

  // Choices take hold at once.
  for (const select of document.querySelectorAll("select[data-submit]"))
    select.addEventListener("change", () => form.requestSubmit());
  form?.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
  addEventListener("pageshow", () => { for (const field of form?.elements ?? []) field.disabled = false; });

  const copy = document.querySelector("[data-copy]");
  if (copy) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(location.href); copy.textContent = "Copied"; }
      catch { prompt("The link:", location.href); }
    });
  }
  const apply = document.querySelector("[data-apply-columns]");
  if (apply) {
    apply.hidden = false;
    apply.addEventListener("click", () => {
      const boxes = [...document.querySelectorAll("[data-column]")], chosen = boxes.filter((box) => box.checked);
      const address = new URL(location.href);
      address.searchParams.delete("c");
      if (chosen.length < boxes.length) for (const box of chosen) address.searchParams.append("c", box.value);
      location.assign(address);
    });
  }
  function travel() {
    const slider = document.querySelector("[data-versions][hidden]");
    if (!slider) return;
    slider.hidden = false;
    slider.addEventListener("input", () => { slider.nextElementSibling.textContent = `version ${slider.value}`; });
    slider.addEventListener("change", () => {
      const address = new URL(location.href);
      address.searchParams.delete("from");
      if (slider.value === slider.dataset.newest) address.searchParams.delete("v");
      else address.searchParams.set("v", slider.value);
      location.assign(address);
    });
  }
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".choices details[open]"))
      if (!menu.contains(event.target)) menu.open = false;
  });

  // The box: a count while typing, errors with their place, completion of columns and values.
  const list = document.getElementById("completions");
  let timer = 0, asked = null, chosen = -1;
  function close() { if (list) { list.hidden = true; chosen = -1; q.setAttribute("aria-expanded", "false"); q.removeAttribute("aria-activedescendant"); } }
  async function look() {
    asked?.abort();
    asked = new AbortController();
    const words = new URLSearchParams(new FormData(form));
    try {
      const [count, next] = await Promise.all([
        fetch(`live?${words}`, { signal: asked.signal }).then((answer) => answer.json()),
        fetch(`completions?q=${encodeURIComponent(q.value.slice(0, q.selectionStart))}`, { signal: asked.signal }).then((answer) => answer.json()),
      ]);
      live.classList.toggle("bad", count.count === undefined);
      live.textContent = count.count === undefined
        ? (count.message ?? "") : `${count.count.toLocaleString("en")} ${count.count === 1 ? "hit" : "hits"}`;
      offer(next.completions ?? []);
    } catch (error) { if (error.name !== "AbortError") live.textContent = ""; }
  }
  function offer(found) {
    list.replaceChildren(...found.map(([word, about], n) => {
      const item = document.createElement("li"), note = document.createElement("small");
      item.id = `completion-${n}`; item.setAttribute("role", "option"); item.setAttribute("aria-selected", "false");
      item.textContent = word; note.textContent = about; item.append(note);
      item.dataset.word = word;
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(item); });
      return item;
    }));
    list.hidden = !found.length || document.activeElement !== q;
    q.setAttribute("aria-expanded", String(!list.hidden));
    chosen = -1;
  }
  function take(item) {
    const cursor = q.selectionStart, before = q.value.slice(0, cursor), quotes = before.split('"').length % 2 === 0;
    const base = quotes ? before.slice(0, before.lastIndexOf('"')) : before;
    const start = Math.max(base.lastIndexOf(" "), base.lastIndexOf("(")) + 1;
    const word = item.dataset.word + (item.dataset.word.endsWith(":") ? "" : " ");
    q.value = before.slice(0, start) + word + q.value.slice(cursor);
    q.setSelectionRange(start + word.length, start + word.length);
    close();
    look();
  }
  function choose(step) {
    const items = [...list.children];
    chosen = (chosen + step + items.length) % items.length;
    items.forEach((item, n) => item.setAttribute("aria-selected", String(n === chosen)));
    q.setAttribute("aria-activedescendant", items[chosen].id);
    items[chosen].scrollIntoView({ block: "nearest" });
  }
  q?.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 180); });
  q?.addEventListener("blur", close);
  q?.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); choose(event.key === "ArrowDown" ? 1 : -1); }
    else if (event.key === "Escape") { event.preventDefault(); close(); }
    else if ((event.key === "Tab" || event.key === "Enter") && chosen >= 0) { event.preventDefault(); take(list.children[chosen]); }
  });

  // Keys.
  const keys = { "/": "the search box", "j / k": "next and previous hit", "n / p": "next and previous page", "?": "these keys", Esc: "leave the box" };
  function help() {
    const box = document.createElement("dialog"), dl = document.createElement("dl");
    for (const [key, what] of Object.entries(keys)) {
      const dt = document.createElement("dt"), dd = document.createElement("dd"), kbd = document.createElement("kbd");
      kbd.textContent = key; dt.append(kbd); dd.textContent = what; dl.append(dt, dd);
    }
    box.setAttribute("aria-label", "Keys"); box.append(dl); document.body.append(box);
    box.addEventListener("close", () => box.remove()); box.addEventListener("click", () => box.close()); box.showModal();
  }
  addEventListener("keydown", (event) => {
    const inside = event.target.closest?.("input, select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (inside) { if (event.key === "Escape" && list?.hidden !== false) event.target.blur(); return; }
    const hits = [...document.querySelectorAll(".hit")], here = hits.indexOf(document.activeElement.closest?.(".hit"));
    if (event.key === "/" && q) { event.preventDefault(); q.focus(); q.select(); }
    else if (event.key === "j") hits[Math.min(hits.length - 1, here + 1)]?.focus();
    else if (event.key === "k") hits[Math.max(0, here - 1)]?.focus();
    else if (event.key === "n") document.querySelector('[rel="next"]')?.click();
    else if (event.key === "p") document.querySelector('[rel="prev"]')?.click();
    else if (event.key === "?") help();
  });
})();
