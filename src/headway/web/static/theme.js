// Light, dark or as the system: chosen before the first paint, so that nothing flashes.
"use strict";

(() => {
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("theme") || "auto";
  } catch {
    // Without storage the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
