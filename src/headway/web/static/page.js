// What the server cannot do: tick between two events, say whether we are live, listen to keys.
"use strict";

let anchor = null; // simulated time at a moment of ours, and how fast it runs
const ANNOUNCE_MS = 10000;
let announcedAt = -ANNOUNCE_MS;
let callSeen = null;
let lostAt = null;

function left(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${hours}:${twoDigits(minutes)}:${twoDigits(seconds % 60)}` : `${minutes}:${twoDigits(seconds % 60)}`;
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function now() {
  return anchor ? anchor.now + (performance.now() - anchor.at) * anchor.speed : Date.now();
}

// What a dialog's "for an hour" comes to, on the server's clock.
function until(minutes) {
  return new Date(now() + minutes * 60000).toISOString();
}

function tick() {
  requestAnimationFrame(tick);
  if (!anchor) return;
  const at = now();
  const timer = document.getElementById("countdown");
  if (timer) {
    const remaining = Number(timer.dataset.at) - at;
    setText(timer, left(remaining));
    timer.classList.toggle("leaving", remaining <= 0);
  }
  const date = new Date(at);
  const minutes = `${twoDigits(date.getUTCHours())}:${twoDigits(date.getUTCMinutes())}`;
  setText(document.getElementById("sim-clock"), `now ${minutes}:${twoDigits(date.getUTCSeconds())}`);
  setText(document.getElementById("sim-time"), minutes);
}

// The frame around the board follows what the board says: counts, pause, the last call.
function readState() {
  const state = document.getElementById("state");
  if (!state || state.dataset.down) return;
  // Drawn for nobody, while nobody could be known: now we can be.
  if ("nobody" in document.body.dataset) location.reload();
  const facts = state.dataset;
  // Another tab has chosen another shop of the owner: the buttons here are about this one.
  if (facts.seller !== document.body.dataset.seller) {
    location.reload();
    return;
  }
  if (!anchor || anchor.now !== Number(facts.now)) {
    anchor = { now: Number(facts.now), at: performance.now(), speed: Number(facts.speed) };
  }
  for (const badge of document.querySelectorAll("[data-count]")) {
    const count = facts[`count${badge.dataset.count[0].toUpperCase()}${badge.dataset.count.slice(1)}`] || "0";
    badge.hidden = count === "0";
    setText(badge, count.length > 3 ? "999+" : count);
  }
  const alerts = facts.alerts || "0";
  const bell = document.getElementById("bell-count");
  bell.hidden = alerts === "0";
  setText(bell, alerts);
  document.getElementById("bell").setAttribute("aria-label", `Alerts: ${alerts === "0" ? "none" : alerts}`);
  show("pause-button", !facts.paused);
  show("resume-button", facts.paused);
  announceCall(facts);
}

function show(id, isShown) {
  const element = document.getElementById(id);
  if (element) element.hidden = !isShown;
}

// In a demo calls leave every second: nobody could listen to that.
function announceCall(facts) {
  if (!facts.call || facts.call === callSeen) return;
  const isFirst = callSeen === null;
  callSeen = facts.call;
  if (isFirst || performance.now() - announcedAt < ANNOUNCE_MS) return;
  announcedAt = performance.now();
  setText(document.getElementById("announcer"), facts.callAnnouncement);
}

function sayLink(state) {
  const link = document.getElementById("link");
  if (state === "lost" && !lostAt) lostAt = new Date();
  if (state === "live") lostAt = null;
  document.body.dataset.link = state;
  link.dataset.state = state;
  const since = lostAt ? `${twoDigits(lostAt.getHours())}:${twoDigits(lostAt.getMinutes())}:${twoDigits(lostAt.getSeconds())}` : "";
  const words = { live: "Live", loading: "Connecting", lost: `Lost since ${since}, trying again` };
  setText(link.lastElementChild, words[state]);
  link.title = words[state];
}

function refresh() {
  readState();
  markPending();
  drawCharts(false);
}

// What was searched for stays in the address: it can be kept, shared and come back to.
function nameSearch() {
  const form = document.querySelector("form.filters");
  if (!form) return;
  const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const address = asked.size ? `/parts?${asked}` : "/parts";
  if (!new URLSearchParams(location.search).has("cursor") && location.pathname + location.search !== address) history.replaceState(null, "", address);
}

const THEMES = { auto: "system", light: "light", dark: "dark" };

function theme() {
  return document.documentElement.dataset.theme || "auto";
}

function nameTheme() {
  const button = document.getElementById("theme");
  button.setAttribute("aria-label", `Theme: ${THEMES[theme()]}`);
  button.title = `Theme: ${THEMES[theme()]}`;
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const chosen = names[(names.indexOf(theme()) + 1) % names.length];
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("theme", chosen);
  } catch {
    // It lasts until the page is left.
  }
  nameTheme();
  drawCharts(true);
}

let afterG = false;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, dialog[open]")) return;
  const goes = afterG && document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`);
  afterG = event.key === "g";
  if (goes) location.assign(goes.href);
  else if (event.key === "/") {
    const field = [document.getElementById("parts-q"), document.getElementById("find")].find((each) => each?.offsetParent);
    if (field) field.focus();
    else location.assign("/parts");
  } else if (event.key === "?") openDialog("shortcuts");
  else if (event.key === "p") document.querySelector(".pause:not([hidden])")?.click();
  else return;
  event.preventDefault();
}

document.addEventListener("keydown", onKey);
document.getElementById("theme").addEventListener("click", nextTheme);
document.addEventListener("htmx:sse:after:connection", () => sayLink("live"));
document.addEventListener("htmx:sse:after:message", () => { sayLink("live"); refresh(); });
document.addEventListener("htmx:sse:error", () => sayLink("lost"));
document.addEventListener("htmx:error", () => sayLink("lost"));
document.addEventListener("htmx:after:swap", () => { refresh(); nameSearch(); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts(true));
let widthSeen = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === widthSeen) return;
  widthSeen = window.innerWidth;
  drawCharts(true);
});

// Not by scrollIntoView: newer browsers would let the first Tab begin there, and not at the top.
function showSection() {
  const link = document.querySelector(".sections [aria-current]");
  if (!link) return;
  const row = link.closest(".sections");
  const [at, all] = [link.getBoundingClientRect(), row.getBoundingClientRect()];
  row.scrollLeft += at.left + at.width / 2 - (all.left + all.width / 2);
}

nameTheme();
refresh();
tick();
showSection();
