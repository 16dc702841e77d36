// The query in the address of the page: the form is filled from it, and edits of the form change it.

const TEXTS = ["data", "shape", "expected"];
const OPTIONAL = ["expected"];

/** Returns the query string of the form. */
export function readForm(form) {
  const query = new URLSearchParams();
  for (const name of ["data", "shape", "special_zero", "operation", "expected"]) {
    const value = form.elements[name].value;
    if (value !== "" || TEXTS.includes(name) && !OPTIONAL.includes(name)) {
      query.set(name, value);
    }
  }
  return query;
}

/** Fills the form from a query. Values that the query does not have become empty, and the operation the first one. */
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
