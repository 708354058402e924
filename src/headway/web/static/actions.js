// Buttons that act: each names a request of the API; the answer or the error is shown as text.
"use strict";

const pending = new Set(); // ids of buttons whose request is under way
const TOAST_MS = 8000;
const TOASTS_MAX = 4;

function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function toast(text, { isBad = false, undo = null } = {}) {
  const box = document.createElement("div");
  box.className = isBad ? "toast bad" : "toast";
  if (isBad) box.setAttribute("role", "alert");
  const words = document.createElement("p");
  words.textContent = `${isBad ? "Not done. " : ""}${capital(text)}${/[.!?]$/.test(text) ? "" : "."}`;
  box.append(words);
  if (undo) box.append(link("Undo", () => { box.remove(); undo(); }));
  box.append(link("Close", () => box.remove(), "close"));
  const toasts = document.getElementById("toasts");
  while (toasts.children.length >= TOASTS_MAX) toasts.firstElementChild.remove();
  toasts.append(box);
  // What went wrong stays until it is read.
  if (!isBad) setTimeout(() => box.remove(), TOAST_MS);
}

function link(text, act, name = "") {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: text, className: name });
  button.addEventListener("click", act);
  return button;
}

async function ask(verb, body, key = freshKey()) {
  const [method, url] = verb.split(/ (.*)/s);
  const headers = {
    Accept: "application/json",
    "X-CSRF-Token": document.querySelector('meta[name="csrf-token"]').content,
  };
  // The shop that this page shows, whatever another tab has chosen since.
  if (document.body.dataset.seller) headers["Headway-Seller"] = encodeURIComponent(document.body.dataset.seller);
  if (method !== "GET") Object.assign(headers, { "Content-Type": "application/json", "Idempotency-Key": key });
  const answer = await fetch(url, { method, headers, body: method === "GET" ? undefined : JSON.stringify(body), credentials: "same-origin" });
  const reply = await answer.json().catch(() => ({}));
  if (answer.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
  if (!answer.ok) {
    const trouble = new Error(reply.detail || reply.title || `the server answered ${answer.status}`);
    throw Object.assign(trouble, { status: answer.status, retryAfterS: Number(answer.headers.get("Retry-After")) });
  }
  return reply;
}

// Every answer of the API says in words what was done; of several, the first and how many more.
function messageOf(reply, fallback) {
  if (reply.new && reply.next_sync_at) return `${reply.sku}: moved to ${slot(reply.new)}, next read at ${reply.next_sync_at.slice(11, 16)} UTC`;
  if (reply.batch_id) return requested(reply);
  if (reply.shops?.[0]?.batch !== undefined) return reply.shops.map(({ seller, batch, error }) => `${seller}: ${batch ? requested(batch) : error}`).join(" · ");
  if (reply.terms) return `price rule of ${reply.seller} saved; it takes effect when a part is next read`;
  if (Array.isArray(reply.pauses)) return paused(reply.pauses);
  const results = Object.values(reply).find((list) => Array.isArray(list)) || [];
  const words = (one) => one.message || one.sentence || one.reason || fallback;
  if (results.length === 1) return results[0].sku ? `${results[0].sku}: ${words(results[0])}` : words(results[0]);
  if (results.length > 1) {
    const done = results.filter((one) => one.is_done !== false).length;
    return `${done} of ${results.length} done; ${results[0].sku || ""} ${words(results[0])}`;
  }
  return Array.isArray(reply.listings) ? "there was nothing to do" : words(reply);
}

// 12% and 0.12 alike; what is neither goes as it is, and the API says what is wrong with it.
function share(text) {
  const [, number] = text.trim().match(/^(-?[\d.]+) ?%$/) || [];
  return number === undefined ? text.trim() : (Number(number) / 100).toFixed(6);
}

function requested({ counts, parts }) {
  const totals = Object.entries(counts).map(([status, count]) => `${count} ${status}`).join(", ");
  const first = parts.find((part) => part.status === "refused") || parts[0];
  return `${totals}; ${first.part_number}: ${first.reason || first.note}`;
}

function paused([pause]) {
  const whole = pause.kind === "all" ? "everything" : `the ${pause.kind}`;
  const what = pause.sku || pause.seller || (pause.supplier ? `${whole} ${pause.supplier}` : whole);
  return `paused: ${what}, until ${pause.until ? `${pause.until.slice(11, 16)} UTC` : "someone resumes"}`;
}

function slot({ hour_bucket: hour, minute_offset: minute }) {
  return `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`;
}

function mark(button, isBusy) {
  if (isBusy) button.setAttribute("aria-busy", "true");
  else button.removeAttribute("aria-busy");
}

// The board may have been drawn again meanwhile: what is under way stays marked.
function markPending() {
  for (const id of pending) {
    const button = document.getElementById(id);
    if (button) mark(button, true);
  }
}

async function act(button, more = {}) {
  if (pending.has(button.id)) return;
  const { id, dataset } = button;
  const label = button.textContent.trim();
  pending.add(id);
  mark(button, true);
  try {
    const reply = await ask(dataset.verb, { ...JSON.parse(dataset.body || "{}"), ...more });
    const undo = dataset.undo ? () => undoIt(dataset) : null;
    if (reply.key) showKey(reply.key);
    else toast(messageOf(reply, `${label}: done`), { undo });
    if ("reload" in dataset) window.location.reload();
  } catch (trouble) {
    fail(trouble);
  } finally {
    pending.delete(id);
    const now = document.getElementById(id);
    if (now) mark(now, false);
  }
}

// A key is shown once: it leaves the page with the dialog.
function showKey(key) {
  const field = document.getElementById("made-key");
  const dialog = document.getElementById("made");
  field.value = key;
  dialog.addEventListener("close", () => { field.value = ""; }, { once: true });
  document.getElementById("made-copy").onclick = () => {
    field.select();
    navigator.clipboard?.writeText(key).then(() => toast("copied"), () => {});
  };
  dialog.showModal();
}

async function undoIt({ undo, body }) {
  try {
    toast(messageOf(await ask(undo, JSON.parse(body)), "undone"));
  } catch (trouble) {
    toast(trouble.message, { isBad: true });
  }
}

function price(state) {
  return state && state.price !== undefined && state.price !== null ? state.price : "no price";
}

// What a dry run answers, in words: one change from old to new, of many the count and the range.
function outcomeOf({ listings, done, left }) {
  if (!listings.length) return "There is nothing to do.";
  const [first] = listings;
  if (listings.length === 1) return first.is_done ? `${first.sku}: ${price(first.old)} → ${price(first.new)}.` : `${first.sku}: ${first.message}.`;
  const moves = listings.filter((one) => one.is_done && Number(price(one.old))).map((one) => (price(one.new) / price(one.old) - 1) * 100);
  const percent = (move) => `${move < 0 ? "−" : "+"}${Math.abs(move).toFixed(1)} %`;
  const range = moves.length ? `, from ${percent(Math.min(...moves))} to ${percent(Math.max(...moves))}` : "";
  const rest = left ? ` ${left} cannot be changed: ${listings.find((one) => !one.is_done).message}.` : "";
  return `${done} ${done === 1 ? "price changes" : "prices change"}${range}.${rest}`;
}

// Shows in the dialog what a request would do; returns what makes the request mean just that.
async function preview(button, more) {
  const { dataset } = button;
  const body = { ...JSON.parse(dataset.body || "{}"), ...more };
  const reply = await ask(dataset.verb, { ...body, dry_run: true });
  document.getElementById("ask-text").textContent = `${outcomeOf(reply)} ${dataset.text}`;
  if (!body.skus) return { version: reply.version };
  return { versions: Object.fromEntries(reply.listings.filter((one) => one.version).map((one) => [one.sku, one.version])) };
}

function fail(trouble) {
  toast(trouble instanceof TypeError ? "the server is not responding; reload the page to see whether the change was made" : trouble.message, { isBad: true });
}

// Asks in the dialog; the fields that a button wants are shown, `!` makes one required.
async function askFirst(button) {
  const dialog = document.getElementById("ask");
  const form = dialog.querySelector("form");
  const askedFields = new Map(button.dataset.ask.split(" ").map((name) => [name.replace("!", ""), name.endsWith("!")]));
  form.reset();
  document.getElementById("ask-title").textContent = button.dataset.title;
  document.getElementById("ask-text").textContent = button.dataset.text;
  document.getElementById("ask-yes").textContent = button.dataset.yes;
  for (const field of form.querySelectorAll("[data-field]")) {
    field.hidden = !askedFields.has(field.dataset.field);
    for (const input of field.querySelectorAll("input, select, textarea")) {
      input.disabled = field.hidden;
      delete input.dataset.loaded;
      input.required = (askedFields.get(field.dataset.field) && input.type !== "checkbox") || false;
      if (button.dataset[input.name]) input.value = button.dataset[input.name];
    }
  }
  const yes = document.getElementById("ask-yes");
  let shown = button.dataset.preview === "submit" ? null : {};
  form.oninput = () => {
    if (button.dataset.preview === "submit") shown = null;
    yes.textContent = button.dataset.yes;
  };
  form.onsubmit = (event) => {
    if (shown) act(button, { ...answers(form), ...shown });
    else {
      event.preventDefault();
      preview(button, answers(form)).then((versions) => { shown = versions; yes.textContent = "Confirm"; }, fail);
    }
  };
  try {
    if (button.dataset.loads) await load(form, button.dataset.loads);
    if (button.dataset.preview === "open") shown = await preview(button, {});
    dialog.showModal();
  } catch (trouble) {
    fail(trouble);
  }
}

// Fills a form with what holds now; only what is then changed is sent.
async function load(form, address) {
  const { terms } = await ask(`GET ${address}`);
  for (const input of form.elements) {
    if (input.disabled || !(input.name in terms)) continue;
    input.value = input.name === "markup" ? `${Number((terms.markup * 100).toFixed(4))}%` : terms[input.name];
    input.dataset.loaded = input.value;
  }
}

function answers(form) {
  const values = {};
  for (const [name, value] of new FormData(form)) {
    const { loaded } = form.elements[name]?.dataset || {};
    if (loaded !== undefined && loaded === value) continue;
    if (name === "for_min") {
      if (value) values.until = until(Number(value));
    } else if (name === "hour" || name === "minute") values[name] = Number(value);
    else if (name === "part_numbers") values[name] = value.split("\n").map((line) => line.trim()).filter(Boolean);
    else if (name === "markup") { if (value) values.markup = share(value); }
    else if (name === "gives_up") values.reset = true;
    else if (name === "sellers") (values.sellers ||= []).push(value);
    else if (name === "currency") values.currency = value.toUpperCase();
    else if (name === "to") values.to = `${value}Z`;
    else if (value || loaded) values[name] = value;
  }
  return values;
}

// The second click of a double-click must not act on what the first one uncovered.
let lastClicked = null;
document.addEventListener("click", (event) => {
  if (event.detail > 1 && event.target !== lastClicked) {
    event.preventDefault();
    event.stopPropagation();
  }
  lastClicked = event.target;
}, { capture: true });

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-verb], [data-opens], [data-closes]");
  if (!button) return;
  if (button.dataset.opens) openDialog(button.dataset.opens);
  else if ("closes" in button.dataset) button.closest("dialog").close();
  else if (button.dataset.ask) askFirst(button);
  else act(button);
});

function openDialog(id) {
  document.querySelector("[popover]:popover-open")?.hidePopover();
  document.getElementById(id).showModal();
}
