// Forms of whole pages: an error is shown at its field, and what was typed stays.
"use strict";

// The API names fields: "shop: it is empty; seller: it is empty", "client_id, client_secret: ...".
const FIELDS = /^([a-z_]+(?:, [a-z_]+)*): (.+)$/s;

function field(form, name) {
  return [...form.elements].find((input) => input.name === name && !input.disabled && input.offsetParent);
}

function clearTrouble(form) {
  for (const note of form.querySelectorAll(".field-trouble")) note.remove();
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.setAttribute("aria-describedby", input.getAttribute("aria-describedby").split(" ")[0]);
  }
  form.querySelector(".trouble").hidden = true;
}

function sentence(text) {
  return `${capital(text)}${/[.!?]$/.test(text) ? "" : "."}`;
}

function markField(input, text) {
  const note = Object.assign(document.createElement("small"), { className: "field-trouble", id: `${input.id}-trouble`, textContent: sentence(text) });
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", `${input.getAttribute("aria-describedby")} ${note.id}`);
  input.after(note);
}

// Shows each part of a message at the field that it names, and the rest above the form.
function showTrouble(form, message) {
  clearTrouble(form);
  const rest = [];
  for (const part of message.split(/; (?=[a-z_]+(?:, [a-z_]+)*: )/)) {
    const [, names, text] = part.match(FIELDS) || [];
    const input = names && names.split(", ").map((name) => field(form, name)).find(Boolean);
    if (input) markField(input, text);
    else rest.push(sentence(part));
  }
  const box = form.querySelector(".trouble");
  box.textContent = rest.join(" ");
  box.hidden = !rest.length;
  const first = form.querySelector("[aria-invalid]");
  if (first) first.focus();
  else box.scrollIntoView({ block: "nearest" });
}

// Marks what was left empty; true if nothing was.
function isComplete(form) {
  clearTrouble(form);
  const empty = [...form.querySelectorAll("[data-needed]")].filter((input) => !input.disabled && input.offsetParent && !input.value.trim());
  for (const input of empty) markField(input, "this is needed");
  if (empty.length) empty[0].focus();
  return !empty.length;
}

function setBusy(button, isBusy) {
  mark(button, isBusy);
  button.disabled = isBusy;
}

function messageOfTrouble(trouble) {
  return trouble instanceof TypeError ? "the server is not responding; try again" : trouble.message;
}
