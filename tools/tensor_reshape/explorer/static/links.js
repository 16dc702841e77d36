// The question in the address: the form is written from it, and it from the form.

const TEXTS = ["data", "shape", "expected", "strides"];
const OPTIONAL = ["expected", "strides"];

/** Returns the query string of what the form holds. */
export function readForm(form) {
  const query = new URLSearchParams();
  for (const name of ["data", "shape", "special_zero", "operation", "expected", "strides"]) {
    const value = form.elements[name].value;
    if (value !== "" || TEXTS.includes(name) && !OPTIONAL.includes(name)) {
      query.set(name, value);
    }
  }
  return query;
}

/** Writes a question into the form; what it does not name is empty, the operation the first. */
export function writeForm(form, query) {
  for (const name of TEXTS) {
    form.elements[name].value = query.get(name) ?? "";
  }
  for (const choice of form.elements.special_zero) {
    choice.checked = choice.value === query.get("special_zero");
  }
  const names = [...form.elements.operation.options].map((option) => option.value);
  const operation = query.get("operation");
  form.elements.operation.value = names.includes(operation) ? operation : names[0];
}
