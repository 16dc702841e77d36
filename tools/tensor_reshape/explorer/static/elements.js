// Shows the elements 0, 1, 2, ... of small shapes in the rows of the input and in the rows of the output.

import { formatShape } from "./notation.js";
import { make } from "./pieces.js";

const MAX_ELEMENTS = 24;
const COLOURS = 6;

/** Returns the tables of the input and the output, or nothing if a shape is not known or has too many elements. */
export function drawElements(input, output) {
  const [dims, newDims] = [input, output].map((shape) => shape?.dims?.map(Number) ?? (shape ? [] : null));
  if (!dims || !newDims || [...dims, ...newDims].includes(-1)) return [];
  const count = multiply(dims);
  if (count < 1 || count > MAX_ELEMENTS) return [];
  const findRow = (element) => Math.floor(element / (dims.at(-1) ?? 1)) % COLOURS;
  const tables = make("div", "", "tables");
  tables.append(drawTable(`Input shape ${formatShape(input)}`, dims, count, findRow));
  tables.append(drawTable(`Output shape ${formatShape(output)}`, newDims, count, findRow));
  const text = "A reshape keeps the order of the elements. A colour is a row of the input.";
  return [make("h3", "Elements"), make("p", text, "hint"), tables];
}

function drawTable(title, dims, count, findRow) {
  const width = dims.at(-1) ?? 1;
  const table = make("table");
  table.append(make("caption", title));
  const body = make("tbody");
  for (let start = 0; start < count; start += width) {
    const index = findIndex(dims, start / width);
    // A gap shows where a dimension before the last two counts on.
    const row = make("tr", "", start && index.at(-1) === 0 ? "block" : "");
    if (index.length) {
      const head = make("th", `[${index.join(", ")}]`);
      head.scope = "row";
      row.append(head);
    }
    for (let element = start; element < start + width; element += 1) {
      row.append(make("td", String(element), `row-${findRow(element)}`));
    }
    body.append(row);
  }
  table.append(body);
  return table;
}

/** Returns the index of a row in the dimensions before the last one. */
function findIndex(dims, row) {
  return dims.slice(0, -1).map((dim, at) => Math.floor(row / multiply(dims.slice(at + 1, -1))) % dim);
}

function multiply(dims) {
  return dims.reduce((product, dim) => product * dim, 1);
}
