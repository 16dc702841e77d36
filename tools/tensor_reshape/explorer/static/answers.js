// Shows the outcomes of queries. Every text is set as text.

import { drawElements } from "./elements.js";
import { formatShape, listDims } from "./notation.js";
import { make, makeList } from "./pieces.js";

const SVG = "image/svg+xml";
const LEAST_SCALE = 0.7;
const MOST_SCALE = 1.5;
const KINDS = { KIND_LITERAL: "number" }; // as drawings call it

/** Shows an outcome in its place. `label` names the operation if two are compared, and is empty otherwise. */
export function showOutcome(place, { answer, rejection, failure, drawing = "", request }, label) {
  const find = (name) => place.querySelector(name);
  place.hidden = false;
  find(".operation").hidden = !label;
  find(".operation").textContent = label;
  const summary = answer ? [describeShape(answer)] : rejection ? describeRejection(rejection) : [make("p", failure, "failure")];
  find(".summary").replaceChildren(...summary);
  showDrawing(find(".drawing"), drawing);
  showParts(find(".elements"), answer ? drawElements(request.data.shape, answer.shape) : []);
  showParts(find(".dims"), answer ? describeDims(answer) : []);
}

function showParts(place, parts) {
  place.hidden = !parts.length;
  place.replaceChildren(...parts);
}

function describeShape({ shape }) {
  const line = make("p", "Output shape ");
  line.append(make("bdi", formatShape(shape), "shape"));
  return line;
}

function describeRejection({ reason, message, accepted }) {
  const title = make("p", "Rejected ", "rejected");
  title.append(make("code", reason));
  return [title, make("p", message), ...(accepted ? [make("p", `Accepted: ${accepted}`)] : [])];
}

function describeDims({ shape, origins = [], conditions = [], conditionsComplete }) {
  const parts = [];
  if (origins.length) {
    const dims = listDims(shape);
    const rows = origins.map(({ kind, text }, index) => [
      make("bdi", dims[index], "dim"),
      make("span", KINDS[kind] ?? kind.replace("KIND_", "").toLowerCase(), "kind"),
      make("span", text, "origin"),
    ]);
    parts.push(make("h3", "Origin of each dimension"), makeList("ol", "origins", rows));
  }
  if (conditions.length) {
    const heading = conditionsComplete ? "Accepted if" : "Accepted only if";
    parts.push(make("h3", heading), makeList("ul", "conditions", conditions.map(({ text }) => [make("bdi", text)])));
  }
  return parts;
}

function showDrawing(place, text) {
  const root = text ? new DOMParser().parseFromString(text, SVG).documentElement : null;
  place.hidden = root?.localName !== "svg";
  if (place.hidden) {
    place.replaceChildren();
    return;
  }
  const drawing = document.importNode(root, true);
  // A drawing fills its place while its texts are readable. In a narrower place it is scrolled.
  const width = Number(drawing.getAttribute("width"));
  drawing.style.minWidth = `${LEAST_SCALE * width}px`;
  drawing.style.maxWidth = `${MOST_SCALE * width}px`;
  place.style.flexBasis = `${width}px`;
  place.replaceChildren(drawing);
}

/** Underlines the wrong item. The message stands in the result only, and describes the input for screen readers. */
export function showBlamed(form, blamed, summaryId) {
  for (const field of form.querySelectorAll(".field")) {
    const isBlamed = field.dataset.name === blamed?.name;
    field.classList.toggle("blamed", isBlamed);
    if (isBlamed && field.closest("details")) field.closest("details").open = true;
    for (const input of field.querySelectorAll("input, select")) describe(input, isBlamed, summaryId);
    const mirror = field.querySelector(".mirror");
    if (mirror) mirror.replaceChildren(...(isBlamed ? markItem(field.querySelector("input").value, blamed) : []));
  }
}

function describe(input, isBlamed, summaryId) {
  input.dataset.described ??= input.getAttribute("aria-describedby") ?? "";
  const described = `${input.dataset.described} ${isBlamed ? summaryId : ""}`.trim();
  if (isBlamed) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
  if (described) input.setAttribute("aria-describedby", described);
  else input.removeAttribute("aria-describedby");
}

// The text again, below the input. There the wrong item can be underlined.
function markItem(text, { start, end }) {
  if (start === null) return [make("mark", text)];
  return [text.slice(0, start), make("mark", text.slice(start, end) || " "), text.slice(end)];
}

/** Shows pieces of code with their titles, or hides their section if there are none. */
export function showSnippets(snippets) {
  document.getElementById("code").hidden = snippets.length === 0;
  const parts = snippets.map(({ title, text }) => {
    const part = make("section", "", "snippet");
    const button = make("button", "Copy");
    button.type = "button";
    button.dataset.copied = text;
    button.setAttribute("aria-label", `Copy: ${title}`);
    const head = make("div", "", "snippet-head");
    head.append(make("h3", title), button);
    const code = make("pre");
    code.append(make("code", text));
    part.append(head, code);
    return part;
  });
  document.getElementById("snippets").replaceChildren(...parts);
}
