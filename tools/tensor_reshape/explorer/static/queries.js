// Queries: the form, the address of the page, and the JSON of InferShapeRequest.

import { isIncomplete, parseDim, splitItems, trim } from "./notation.js";

const SHAPES = ["data", "shape", "expected"];
const NAMES = ["data", "shape", "special_zero", "operation", "expected", "compare"];
const FIELDS = { data: "data.dims", shape: "shape", expected: "expected_shape.dims" };
const FIELD = /^(data|shape|expected_shape|special_zero|operation)(?:\.(?:shape\.)?(?:dims|items))?(?:\[(\d+)\])?/;
const MAX_S64 = 2n ** 63n - 1n;

/** A rejection of a text that is not a shape, with the fields of a rejection of the server. */
export class SyntaxRejection extends Error {
  constructor(reason, message, field) {
    super(message);
    Object.assign(this, { reason, field, accepted: "" });
  }
}

/** Returns the query string of the form. Of the optional values, it has only those that are set. */
export function readForm(form) {
  const query = new URLSearchParams();
  for (const name of NAMES) {
    const { value } = form.elements[name];
    if (value !== "" || name === "data" || name === "shape") query.set(name, value);
  }
  return query;
}

/** Fills the form from a query. Values that the query does not have become empty, and the operation the first one. */
export function writeForm(form, query) {
  const { elements } = form;
  for (const name of SHAPES) elements[name].value = query.get(name) ?? "";
  for (const choice of elements.special_zero) choice.checked = choice.value === query.get("special_zero");
  for (const name of ["operation", "compare"]) {
    elements[name].value = query.get(name) ?? "";
    if (elements[name].selectedIndex < 0) elements[name].selectedIndex = 0;
  }
}

/** Returns the operations of the form: one, or two that are compared. */
export function listOperations(form) {
  const { operation, compare } = form.elements;
  return [operation, compare].slice(0, compare.value && compare.value !== operation.value ? 2 : 1)
    .map((list) => ({ name: list.value, label: list.selectedOptions[0].label }));
}

/** Returns the InferShapeRequest of a query, or throws the rejection of a text. */
export function buildRequest(query, operation) {
  const data = buildShape(query.get("data") ?? "", "data");
  const shape = buildShape(query.get("shape") ?? "", "shape");
  const expected = query.get("expected") ?? "";
  return {
    operation: `OPERATION_${operation.toUpperCase()}`,
    ...(query.has("special_zero") ? { specialZero: query.get("special_zero") === "true" } : {}),
    data: data ? { shape: data } : {},
    ...(shape ? { shape } : {}),
    ...(trim(expected) ? { expectedShape: buildShape(expected, "expected") ?? undefined } : {}),
    explain: true,
  };
}

function buildShape(text, name) {
  const items = splitItems(text);
  if (items === null) return null;
  const dims = items.map((item, index) => parseItem(item.text, `${FIELDS[name]}[${index}]`));
  const numbers = dims.map((dim) => (typeof dim === "bigint" ? writeNumbers(dim) : -1));
  // A -1 in a requested shape infers, so an unknown item has an entry there.
  const partial = dims.flatMap((dim, index) => (
    typeof dim === "bigint" || (dim === null && name !== "shape") ? [] : [{ index, ...writeNumbers(dim) }]
  ));
  return { [name === "shape" ? "items" : "dims"]: numbers, ...(partial.length ? { partial } : {}) };
}

function parseItem(text, field) {
  const dim = parseDim(text);
  if (dim === undefined) {
    const message = `${field} is '${text}', which is not a valid dimension: write a number, lo..hi, lo.., ?, a name, `
      + "name:lo..hi, or a product such as 4*C or N/2; put any other name in quotes: 'my dim'";
    throw new SyntaxRejection("DIM_SYNTAX_INVALID", message, field);
  }
  if (!fits(dim)) {
    throw new SyntaxRejection("DIM_OUT_OF_RANGE", `${field} is ${text}; a number must be below 2^63`, field);
  }
  return dim;
}

/** Whether all numbers of a dim fit into an s64. The rules check the rest. */
function fits(value) {
  if (typeof value === "bigint") return value >= -MAX_S64 - 1n && value <= MAX_S64;
  return value === null || typeof value !== "object" || Object.values(value).every(fits);
}

/** Returns a value in which each BigInt is a number of JSON, or a text if JavaScript's numbers would round it. */
function writeNumbers(value) {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (Array.isArray(value)) return value.map(writeNumbers);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, writeNumbers(item)]));
}

/** Returns the input of a field of the request, and the positions of the item in the text of this input. */
export function findWrongItem(query, field) {
  const [, path, index] = FIELD.exec(field) ?? [];
  if (!path) return null;
  const name = path === "expected_shape" ? "expected" : path;
  const item = SHAPES.includes(name) && index ? splitItems(query.get(name) ?? "")?.[Number(index)] : null;
  return { name, start: item?.start ?? null, end: item?.end ?? null };
}

/** Whether the focused input of the form is a shape of which more may be typed. */
export function findOpenInput(form) {
  const input = document.activeElement;
  return form.contains(input) && SHAPES.includes(input.name) && isIncomplete(input.value) ? input : null;
}
