// Suggestions under the search box on top: the first few matches, reached by arrow keys. Without
// scripts the box stays what it is, a form that leads to the list of parts.
"use strict";

{
  const DEBOUNCE_MS = 150;
  const field = document.getElementById("find");
  const list = document.getElementById("find-list");
  let timer = 0;
  let asking = null;
  let chosen = -1;

  const options = () => [...list.querySelectorAll("[data-href]")];

  function choose(at) {
    const all = options();
    chosen = at;
    all.forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    if (at < 0) field.removeAttribute("aria-activedescendant");
    else {
      field.setAttribute("aria-activedescendant", all[at].id);
      all[at].scrollIntoView({ block: "nearest" });
    }
  }

  function show(isShown) {
    list.hidden = !isShown;
    field.setAttribute("aria-expanded", String(isShown));
    choose(-1);
  }

  function close() {
    clearTimeout(timer);
    asking?.abort();
    show(false);
  }

  async function suggest() {
    const text = field.value.trim();
    asking?.abort();
    if (!text) return show(false);
    asking = new AbortController();
    const { signal } = asking;
    try {
      const answer = await fetch(`/find?${new URLSearchParams({ q: text })}`, { signal });
      const html = answer.ok ? await answer.text() : "";
      // Somebody who has left the box, or typed on, wants no answer to what was.
      if (signal.aborted || document.activeElement !== field) return undefined;
      list.innerHTML = html;
      show(list.childElementCount > 0);
      setText(document.getElementById("announcer"), list.firstElementChild?.dataset.announcement || "");
    } catch (error) {
      if (error.name !== "AbortError") show(false);
    }
    return undefined;
  }

  function onKey(event) {
    const count = options().length;
    if (event.key === "Escape" && !list.hidden) close();
    else if (event.key === "ArrowDown" && list.hidden) suggest();
    else if (event.key === "ArrowDown" && count) choose(chosen + 1 < count ? chosen + 1 : -1);
    else if (event.key === "ArrowUp" && count && !list.hidden) choose(chosen < 0 ? count - 1 : chosen - 1);
    else if (event.key === "Enter" && chosen >= 0) location.assign(options()[chosen].dataset.href);
    else return;
    event.preventDefault();
  }

  field.setAttribute("role", "combobox");
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-controls", list.id);
  field.setAttribute("aria-expanded", "false");
  field.addEventListener("keydown", onKey);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, DEBOUNCE_MS);
  });
  field.addEventListener("blur", close);
  field.addEventListener("focus", () => { if (field.value.trim()) suggest(); });
  // The focus stays in the box, or the list would be gone before the click.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[data-href]");
    if (option) location.assign(option.dataset.href);
  });
}
