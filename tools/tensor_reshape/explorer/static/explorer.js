// The page: each change sends a query to the server. Only the result of the latest query is shown.

import { showFailure, showRecord } from "./answers.js";
import { copyText } from "./copies.js";
import { readForm, writeForm } from "./links.js";

const PAUSE_MS = 120;
const LONG_QUERY = 8000; // characters that every server accepts; a server may reject a longer address unread
const NARROW = matchMedia("(max-width: 61.99rem)"); // the form and the result are one below the other

const form = document.getElementById("question");
const access = document.getElementById("access");
const more = document.getElementById("more");
const result = document.getElementById("result");
let request = new AbortController();
let timer = 0;
let edited = null; // the input whose edits are one step of the history

/** Sends the query of the form. The result of an older query is dropped. */
async function ask() {
  clearTimeout(timer);
  request.abort();
  request = new AbortController();
  const { signal } = request;
  result.setAttribute("aria-busy", "true");
  const query = readForm(form);
  query.set("server", new URL(".", location.href).href); // for the code that the page shows
  try {
    const response = await fetch(`explore/answer?${query}`, { signal, headers: readToken() });
    const record = await response.json();
    if (signal.aborted) return;
    showAccess(response.status);
    if (response.ok) showRecord(record, form);
    else showFailure(describeFailure(response, record), form);
  } catch (error) {
    if (signal.aborted) return;
    const isLong = query.toString().length > LONG_QUERY;
    showFailure(`No result: ${isLong ? "the query is too long, or " : ""}the server cannot be reached.`, form);
  }
  result.removeAttribute("aria-busy");
}

function readToken() {
  const token = form.elements.token.value.trim();
  return /^[!-~]+$/.test(token) ? { Authorization: `Bearer ${token}` } : {}; // other texts are not valid in a header
}

function showAccess(status) {
  if (status === 401) access.hidden = false;
}

function describeFailure(response, record) {
  const wait = response.headers.get("Retry-After");
  const text = record.message ?? response.statusText;
  return `No result: ${text}${wait ? ` (try again in ${wait} s)` : ""}`;
}

function keepInHistory(input) {
  const address = `?${readForm(form)}`;
  if (address === location.search) return;
  // Consecutive edits of one input are one step of the history.
  if (input !== null && input === edited) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  edited = input;
}

function showLink() {
  edited = null;
  writeForm(form, new URLSearchParams(location.search));
  foldOptions();
  return ask();
}

/** In a narrow window, hides the options that the query does not use, so that the result is on the first screen. */
function foldOptions() {
  const { operation, expected } = form.elements;
  more.open = !NARROW.matches || operation.selectedIndex > 0 || Boolean(expected.value);
}

form.addEventListener("input", ({ target }) => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (target.id !== "token") keepInHistory(target);
    ask();
  }, PAUSE_MS);
});
form.addEventListener("focusin", ({ target }) => { if (target !== edited) edited = null; });
form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
// The underline lies below its input and follows its scrolling.
form.addEventListener("scroll", ({ target }) => {
  const mirror = target.previousElementSibling;
  if (mirror?.classList.contains("mirror")) mirror.scrollLeft = target.scrollLeft;
}, { capture: true });
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.id === "copy-link") copyText(new URL(`?${readForm(form)}`, location.href).href, button);
  else if (button?.dataset.copied) copyText(button.dataset.copied, button);
});
document.getElementById("examples").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  showLink();
  result.focus();
});
addEventListener("popstate", showLink);
NARROW.addEventListener("change", foldOptions);

// An address without a query shows the first example.
if (!location.search) history.replaceState(null, "", document.querySelector("#examples a").getAttribute("href"));
showLink();
