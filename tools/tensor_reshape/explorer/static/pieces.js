// Makes elements of the page. Every text is set as text.

export function make(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** Returns a list with an item for each row of parts. */
export function makeList(name, className, rows) {
  const list = make(name, "", className);
  list.append(...rows.map((parts) => {
    const item = make("li");
    item.append(...parts);
    return item;
  }));
  return list;
}
