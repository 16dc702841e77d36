// The page: each change sends a query to the server. Only the outcome of the latest query is shown.

import { showBlamed, showOutcome, showSnippets } from "./answers.js";
import { INFER_SHAPE, infer } from "./calls.js";
import { copyText } from "./copies.js";
import { buildRequest, findOpenInput, findWrongItem, listOperations, readForm, writeForm } from "./queries.js";
import { writeSnippets } from "./snippets.js";

const PAUSE_MS = 120;
const NARROW = matchMedia("(max-width: 61.99rem)"); // the form and the result are one below the other

const form = document.getElementById("question");
const access = document.getElementById("access");
const more = document.getElementById("more");
const result = document.getElementById("result");
const waiting = document.getElementById("waiting");
const places = [...document.querySelectorAll(".outcome")];
let running = new AbortController();
let timer = 0;
let edited = null; // the input whose edits are one step of the history

/** Sends the query of the form. The outcome of an older query is dropped. `isDone` is whether no more will be typed. */
async function ask(isDone = false) {
  clearTimeout(timer);
  running.abort();
  running = new AbortController();
  const { signal } = running;
  result.setAttribute("aria-busy", "true");
  const [query, operations] = [readForm(form), listOperations(form)];
  const token = form.elements.token.value.trim();
  let outcomes;
  try {
    const requests = operations.map(({ name }) => buildRequest(query, name));
    outcomes = await Promise.all(requests.map(async (request) => ({ request, ...await infer(request, token, signal) })));
  } catch (rejection) {
    if (!rejection.reason) throw rejection; // a bug
    outcomes = [{ rejection }]; // of a text, which is the same for all operations
  }
  if (signal.aborted) return;
  result.removeAttribute("aria-busy");
  // While an input has the focus and its text may go on, the query is not rejected.
  const open = isDone || !outcomes.some(({ rejection }) => rejection) ? null : findOpenInput(form);
  result.classList.toggle("old", open !== null);
  waiting.textContent = open ? `waiting for the rest of the ${open.labels[0].firstChild.data.trim().toLowerCase()}` : "";
  if (open) showBlamed(form, null, "");
  else show(outcomes, query, operations);
}

function show(outcomes, query, operations) {
  if (outcomes.some(({ needsToken }) => needsToken)) access.hidden = false;
  for (const [index, place] of places.entries()) {
    if (index < outcomes.length) showOutcome(place, outcomes[index], outcomes.length > 1 ? operations[index].label : "");
    else place.hidden = true;
  }
  const wrong = outcomes.findIndex(({ rejection }) => rejection);
  const blamed = wrong < 0 ? null : findWrongItem(query, outcomes[wrong].rejection.field);
  showBlamed(form, blamed, places[Math.max(wrong, 0)].querySelector(".summary").id);
  const [{ request, failure }] = outcomes;
  const link = new URL(INFER_SHAPE, location.href).href;
  showSnippets(request && !failure ? writeSnippets(query, operations[0].name, request, link) : []);
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
  return ask(true);
}

/** In a narrow window, hides the options that the query does not use, so that the result is on the first screen. */
function foldOptions() {
  const { operation, expected, compare } = form.elements;
  more.open = !NARROW.matches || operation.selectedIndex > 0 || Boolean(expected.value || compare.value);
}

form.addEventListener("input", ({ target }) => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (target.id !== "token") keepInHistory(target);
    ask();
  }, PAUSE_MS);
});
form.addEventListener("focusin", ({ target }) => { if (target !== edited) edited = null; });
form.addEventListener("focusout", () => { if (waiting.textContent) ask(true); });
// A form with several inputs and no button is not submitted when Enter is pressed.
form.addEventListener("keydown", ({ key, target }) => {
  if (key !== "Enter" || !target.matches("input")) return;
  keepInHistory(target);
  ask(true);
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
