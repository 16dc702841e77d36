// Texts to the clipboard, and a word on the button that says so.

const SHOWN_MS = 2000;

/** Copies a text, and has the button say whether it could. */
export async function copyText(text, button) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = (await write(text)) ? "Copied" : "Not copied: select it by hand";
  announce(button.textContent);
  setTimeout(() => { button.textContent = label; }, SHOWN_MS);
}

async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // not over plain HTTP from another machine, and not where the user forbids it
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
