// Import parts: send a file in chunks, show what would happen, then do it.
"use strict";

const CHUNK_BYTES = 600000;
const CHUNK_TRIES = 3;
const REFUSED_SHOWN = 50;
const importForm = document.getElementById("import-form");
const importResult = document.getElementById("import-result");
let sent = null; // what was sent and previewed: its id, size and seller
let isCancelled = false;
let downloadUrl = "";

function sourceOf(form) {
  const [file] = form.elements.file.files;
  const pasted = form.elements.pasted.value;
  if (file && pasted.trim()) throw new Error("pasted: choose a file or paste rows, not both");
  if (file) return file;
  if (pasted.trim()) return new Blob([pasted]);
  throw new Error("file: choose a file, or paste rows");
}

function doing(text, share = null) {
  document.getElementById("import-progress").hidden = !text;
  setText(document.getElementById("import-doing"), text);
  const bar = document.getElementById("import-bar");
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
}

async function inBase64(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

function pass(seconds) {
  return new Promise((done) => { setTimeout(done, seconds * 1000); });
}

// A broken connection is tried again; so is a server that asks to wait.
async function sendChunk(address, body) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask(`PUT ${address}`, body);
    } catch (trouble) {
      const isPassing = trouble instanceof TypeError || trouble.status === 429 || trouble.status === 503;
      if (!isPassing || tries >= CHUNK_TRIES || isCancelled) throw trouble;
      await pass(trouble.retryAfterS || 1);
    }
  }
}

async function send(source) {
  const upload = freshKey() + freshKey();
  const total = Math.max(1, Math.ceil(source.size / CHUNK_BYTES));
  for (let number = 0; number < total; number += 1) {
    if (isCancelled) throw new Error("cancelled; nothing was imported");
    doing(`Sending ${source.name || "rows"}`, number / total);
    const content = await inBase64(source.slice(number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES));
    await sendChunk(`/api/sync/imports/${upload}/chunks/${number}`, { content });
  }
  return { upload, size: source.size };
}

async function previewImport() {
  const source = sourceOf(importForm);
  isCancelled = false;
  importResult.hidden = true;
  const seller = importForm.elements.seller.value.trim();
  const ready = { ...(await send(source)), ...(seller && { seller }) };
  document.getElementById("import-cancel").hidden = true;
  doing("Checking rows");
  const { upload, ...body } = ready;
  const reply = await ask(`POST /api/sync/imports/${upload}`, { ...body, dry_run: true });
  sent = ready;
  showImported(reply, true);
}

async function applyImport() {
  const { upload, ...body } = sent;
  const reply = await ask(`POST /api/sync/imports/${upload}`, body);
  sent = null;
  importForm.reset();
  showImported(reply, false);
}

function showImported(reply, isPreview) {
  const changes = reply.added + reply.updated;
  const title = isPreview ? "Preview" : "Imported";
  setText(document.getElementById("import-title"), title);
  const whose = reply.sellers.length ? ` of ${reply.sellers.slice(0, 5).join(", ")}${reply.sellers.length > 5 ? " and others" : ""}` : "";
  const summary = isPreview
    ? changes ? `Nothing was changed yet. This is what an import would do with the parts${whose}.` : "An import would change nothing."
    : `Parts${whose} are read at the supplier when they are due. A shop that was not started yet is not written.`;
  setText(document.getElementById("import-summary"), summary);
  for (const place of importResult.querySelectorAll("[data-count-of]")) {
    const count = reply[place.dataset.countOf];
    setText(place, (Array.isArray(count) ? count.length : count).toLocaleString("en"));
    place.classList.toggle("bad", place.dataset.countOf === "refused" && count.length > 0);
  }
  showRefused(reply.refused);
  const apply = document.getElementById("import-apply");
  apply.hidden = !isPreview || !changes;
  apply.textContent = `Import ${changes.toLocaleString("en")} ${changes === 1 ? "part" : "parts"}`;
  document.getElementById("import-done").hidden = isPreview;
  importResult.hidden = false;
  importResult.focus();
}

function showRefused(refused) {
  document.getElementById("import-refused").hidden = !refused.length;
  const rows = refused.slice(0, REFUSED_SHOWN).map(({ line, reason, cells }) => {
    const row = document.createElement("tr");
    const place = Object.assign(document.createElement("th"), { scope: "row", className: "num", textContent: line });
    place.dataset.label = "Line";
    const part = Object.assign(document.createElement("td"), { textContent: cells.sku || "–" });
    part.dataset.label = "Part";
    row.append(place, part, Object.assign(document.createElement("td"), { className: "reason", textContent: reason }));
    return row;
  });
  importResult.querySelector(".refusals tbody").replaceChildren(...rows);
  const more = refused.length - rows.length;
  setText(document.getElementById("import-more"), more > 0 ? `and ${more.toLocaleString("en")} more.` : "");
  URL.revokeObjectURL(downloadUrl);
  if (!refused.length) return;
  downloadUrl = URL.createObjectURL(new Blob([refusedCsv(refused)], { type: "text/csv" }));
  document.getElementById("import-download").href = downloadUrl;
}

// The columns `line` and `reason` are ignored by an import, so the file can be corrected and sent.
function refusedCsv(refused) {
  const columns = [...new Set(refused.flatMap((row) => Object.keys(row.cells)))];
  const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = refused.map((row) => [String(row.line), row.reason, ...columns.map((name) => row.cells[name] || "")]);
  return [["line", "reason", ...columns], ...lines].map((cells) => cells.map(cell).join(",")).join("\r\n");
}

async function whileBusy(button, act) {
  clearTrouble(importForm);
  setBusy(button, true);
  document.getElementById("import-cancel").hidden = false;
  try {
    await act();
  } catch (trouble) {
    importResult.hidden = true;
    showTrouble(importForm, messageOfTrouble(trouble));
  } finally {
    doing("");
    setBusy(button, false);
  }
}

importForm.addEventListener("submit", (event) => {
  event.preventDefault();
  whileBusy(document.getElementById("import-preview"), previewImport);
});
// A preview is of what was sent: other rows need another one.
importForm.addEventListener("input", () => { sent = null; importResult.hidden = true; });
document.getElementById("import-cancel").addEventListener("click", () => { isCancelled = true; });
document.getElementById("import-apply").addEventListener("click", (event) => whileBusy(event.target, applyImport));
