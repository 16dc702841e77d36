// Shows the responses of the server on the page. Nothing is computed here, and every text is set as text.

const SVG = "image/svg+xml";
const LEAST_SCALE = 0.7;
const KINDS = { literal: "number" }; // as drawings call it

function make(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** Shows a result or a rejection, and marks the wrong item. */
export function showRecord(record, form) {
  showBlamed(form, record.rejection);
  const summary = record.answer ? [describeShape(record.answer)] : describeRejection(record.rejection);
  document.getElementById("summary").replaceChildren(...summary);
  showDrawing(record.drawing);
  document.getElementById("dims").replaceChildren(...(record.answer ? describeDims(record.answer) : []));
  showSnippets(record.snippets ?? []);
}

/** Shows why there is no result, and removes the previous one. */
export function showFailure(text, form) {
  showBlamed(form, null);
  document.getElementById("summary").replaceChildren(make("p", text, "failure"));
  showDrawing("");
  document.getElementById("dims").replaceChildren();
  showSnippets([]);
}

function describeShape(answer) {
  const line = make("p", "Output shape ");
  line.append(make("bdi", answer.text, "shape"));
  return line;
}

function describeRejection(rejection) {
  const title = make("p", "Rejected ", "rejected");
  title.append(make("code", rejection.reason));
  const lines = [title, make("p", rejection.message)];
  if (rejection.accepted) lines.push(make("p", `Accepted: ${rejection.accepted}`));
  return lines;
}

function describeDims(answer) {
  const parts = [];
  if (answer.dims.some((dim) => dim.origin)) {
    const list = make("ol", "", "origins");
    list.setAttribute("aria-label", "Origin of each dimension");
    for (const dim of answer.dims) {
      const item = make("li");
      item.append(make("bdi", dim.text, "dim"), make("span", KINDS[dim.kind] ?? dim.kind ?? "", "kind"));
      item.append(make("span", dim.origin ?? "", "origin"));
      list.append(item);
    }
    parts.push(make("h3", "Origin of each dimension"), list);
  }
  if (answer.conditions.length) {
    const list = make("ul", "", "conditions");
    for (const condition of answer.conditions) {
      const item = make("li");
      item.append(make("bdi", condition));
      list.append(item);
    }
    const heading = answer.conditions_complete ? "Accepted if" : "Accepted only if";
    parts.push(make("h3", heading), list);
  }
  return parts;
}

function showDrawing(text) {
  const place = document.getElementById("drawing");
  place.hidden = !text;
  const root = text ? new DOMParser().parseFromString(text, SVG).documentElement : null;
  if (root?.localName !== "svg") {
    place.replaceChildren();
    return;
  }
  const drawing = document.importNode(root, true);
  // In a narrow window the drawing shrinks while it is readable. In a narrower one it is scrolled.
  drawing.style.minWidth = `${LEAST_SCALE * Number(drawing.getAttribute("width"))}px`;
  place.replaceChildren(drawing);
}

// The message stands in the result only. An input with a wrong item is underlined, and the message describes it.
function showBlamed(form, rejection) {
  const blamed = rejection?.blamed ?? { name: "" };
  for (const field of form.querySelectorAll(".field")) {
    const isBlamed = field.dataset.name === blamed.name && blamed.name !== "";
    field.classList.toggle("blamed", isBlamed);
    if (isBlamed && field.closest("details")) field.closest("details").open = true;
    for (const input of field.querySelectorAll("input, select")) describe(input, isBlamed);
    const mirror = field.querySelector(".mirror");
    if (mirror) mirror.replaceChildren(...markItem(field.querySelector("input").value, isBlamed ? blamed : {}));
  }
}

function describe(input, isBlamed) {
  input.dataset.described ??= input.getAttribute("aria-describedby") ?? "";
  const described = `${input.dataset.described} ${isBlamed ? "summary" : ""}`.trim();
  if (isBlamed) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
  if (described) input.setAttribute("aria-describedby", described);
  else input.removeAttribute("aria-describedby");
}

// The text again, below the input. There the wrong item can be underlined.
function markItem(text, { name, start, end }) {
  if (!name) return [];
  if (start === null) return [make("mark", text)];
  const characters = [...text]; // the server counts code points, JavaScript counts UTF-16 units
  const mark = make("mark", characters.slice(start, end).join("") || " ");
  return [characters.slice(0, start).join(""), mark, characters.slice(end).join("")];
}

function showSnippets(snippets) {
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
