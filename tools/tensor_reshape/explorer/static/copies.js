// Copies texts to the clipboard. The button shows the outcome.

const SHOWN_MS = 2000;

/** Copies a text and shows on the button whether that worked. */
export async function copyText(text, button) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = (await write(text)) ? "Copied" : "Not copied. Select it by hand";
  announce(button.textContent);
  setTimeout(() => { button.textContent = label; }, SHOWN_MS);
}

async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // over plain HTTP from another machine, or if the user forbids it
    return writeSelected(text);
  }
}

function writeSelected(text) {
  const area = document.createElement("textarea");
  const focused = document.activeElement;
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

function announce(text) {
  document.getElementById("announcement").textContent = text;
}
