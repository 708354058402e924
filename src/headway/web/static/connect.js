// Connect a shop: which fields a platform needs, and what came of it. Secrets leave the page at once.
"use strict";

const SECRETS = ["client_secret", "access_token", "refresh_token"];
const connectForm = document.getElementById("connect-form");
const connectResult = document.getElementById("connect-result");

function chosen(name) {
  return connectForm.querySelector(`input[name="${name}"]:checked`);
}

function about() {
  return JSON.parse(chosen("platform").dataset.about);
}

function showFields() {
  const { ways, asks_for_shop: asksForShop, has_owners: hasOwners, ...notes } = about();
  for (const radio of connectForm.elements.way) radio.closest("label").hidden = !ways.includes(radio.value);
  if (!ways.includes(chosen("way")?.value)) connectForm.querySelector(`input[name="way"][value="${ways[0]}"]`).checked = true;
  const way = chosen("way").value;
  const hidden = { shop: way === "link" && asksForShop, owner: !hasOwners, refresh_token: Boolean(notes.refresh_refused) };
  for (const part of connectForm.querySelectorAll("[data-way], [data-name]")) {
    const isOther = part.dataset.way && !part.dataset.way.split(" ").includes(way);
    part.hidden = isOther || Boolean(hidden[part.dataset.name]);
    for (const input of part.querySelectorAll("input")) input.disabled = part.hidden;
  }
  connectForm.elements.refresh_token.toggleAttribute("data-needed", Boolean(notes.refresh_required));
  setText(document.getElementById("connect-shop-note"), notes.shop);
  connectForm.querySelector('[type="submit"]').textContent = way === "link" ? "Make the link" : "Connect";
}

function bodyOf(form) {
  const values = [...new FormData(form)].map(([name, value]) => [name, value.trim()]);
  const { way, ...body } = Object.fromEntries(values.filter(([, value]) => value));
  if (way !== "link") return body;
  const { seller, platform, shop = platform, main_seller } = body;
  return { seller, platform, shop, main_seller };
}

function forgetSecrets() {
  for (const name of SECRETS) connectForm.elements[name].value = "";
}

async function connectShop(button) {
  if (!isComplete(connectForm)) return;
  const body = bodyOf(connectForm);
  const isLink = chosen("way").value === "link";
  connectResult.hidden = true;
  setBusy(button, true);
  try {
    const reply = await ask(isLink ? "POST /api/shops/link" : "POST /api/shops/connect", body);
    if (isLink) showLink(reply);
    else showConnected(reply, body);
  } catch (trouble) {
    showTrouble(connectForm, messageOfTrouble(trouble));
  } finally {
    setBusy(button, false);
  }
}

function showConnected(reply, body) {
  const { account } = reply;
  forgetSecrets();
  if (account.reason) {
    showTrouble(connectForm, `${body.client_id ? "client_secret" : "access_token"}: ${account.shop} refused it: ${account.reason}`);
    return;
  }
  showResult(`${account.title || account.shop} is connected to ${account.seller}`, factsOf(reply, body));
  const next = document.getElementById("connect-next");
  next.hidden = !account.locations || account.started_at !== null;
  next.href = `/rehearsal?shop=${encodeURIComponent(account.seller)}`;
}

function factsOf({ account, unknown_locations: unknown, missing_scopes: missing, scope_advice: advice }, body) {
  const facts = [];
  if (account.locations) {
    const names = Object.keys(account.locations);
    facts.push(`It has ${names.length} ${names.length === 1 ? "location" : "locations"}: ${names.join(", ")}.`);
  } else facts.push("It is tried when Headway's worker next runs.");
  if (unknown?.length) facts.push(`It has no location named ${unknown.join(", ")}: stock there is not sold. Set the locations in the price rule of ${account.seller}.`);
  if (missing?.length) facts.push(`It has not granted ${missing.map((scope) => scope.name).join(", ")}. ${sentence(advice)}`);
  if (account.locations && account.started_at === null) facts.push("Nothing is written to it yet. Import or publish parts, then see what would be written.");
  if (body.access_token && !body.refresh_token && about().note) facts.push(sentence(about().note));
  return facts;
}

function showLink({ link, seller, expires_at: end, callback }) {
  showResult("The link is made", [
    `It works once, until ${end.slice(11, 16)} UTC, and connects a shop to ${seller}.`,
    `The address that the platform sends people back to must be known there: ${callback}`,
  ]);
  const box = document.getElementById("connect-link");
  box.hidden = false;
  box.querySelector("input").value = link || "";
  document.getElementById("connect-copy").hidden = false;
}

function showResult(title, facts) {
  setText(document.getElementById("connect-title"), title);
  const lines = facts.map((text) => Object.assign(document.createElement("li"), { textContent: text }));
  document.getElementById("connect-facts").replaceChildren(...lines);
  for (const id of ["connect-link", "connect-copy", "connect-next"]) document.getElementById(id).hidden = true;
  connectResult.hidden = false;
  connectResult.focus();
}

connectForm.addEventListener("change", showFields);
connectForm.addEventListener("submit", (event) => {
  event.preventDefault();
  connectShop(connectForm.querySelector('[type="submit"]'));
});
document.getElementById("connect-copy").addEventListener("click", () => {
  const input = document.querySelector("#connect-link input");
  input.select();
  navigator.clipboard?.writeText(input.value).then(() => toast("copied"), () => {});
});
window.addEventListener("pagehide", forgetSecrets);
showFields();
