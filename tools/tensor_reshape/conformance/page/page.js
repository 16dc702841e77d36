// Filters. Without this script the page has all of its differences; with it, those that the filters leave. What is
// chosen stands behind the # of the address, so that a link shows the same, and so do the links of the matrix.
const form = document.getElementById("filters");
const count = document.getElementById("count");
const differences = [...document.querySelectorAll("details")];
const texts = new Map(differences.map((one) => [one, one.textContent.toLowerCase()]));
const FIELDS = ["implementation", "rule", "verdict"];

function show() {
  const text = form.text.value.trim().toLowerCase();
  let shown = 0;
  for (const one of differences) {
    const fits = FIELDS.every((name) => !form[name].value || one.dataset[name] === form[name].value);
    one.hidden = !(fits && (!form.smallest.checked || "smallest" in one.dataset) && texts.get(one).includes(text));
    shown += one.hidden ? 0 : 1;
  }
  count.textContent = differences.length ? `${shown} of ${differences.length} are shown.` : "There are none.";
}

function read() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  if (location.hash && ![...chosen.keys()].some((name) => name in form.elements)) return; // a place on this page
  for (const name of [...FIELDS, "text"]) form[name].value = chosen.get(name) ?? "";
  for (const name of FIELDS) if (form[name].selectedIndex < 0) form[name].value = "";
  form.smallest.checked = chosen.get("smallest") !== "no";
  show();
}

function write() {
  const chosen = new URLSearchParams();
  for (const name of [...FIELDS, "text"]) if (form[name].value) chosen.set(name, form[name].value);
  if (!form.smallest.checked) chosen.set("smallest", "no");
  history.replaceState(null, "", `#${chosen}`);
  show();
}

form.hidden = false;
form.addEventListener("input", write);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(() => { form.smallest.checked = false; write(); }));
addEventListener("hashchange", () => { read(); if (location.hash.includes("=")) document.getElementById("differences").focus(); });
read();
show();
