// Keys: `g` and a letter goes to a page, single keys act. Quiet in fields, and can be turned off.

const OFF = "weir.shortcuts.off";
const SEQUENCE_MS = 1200;

let bindings = new Map();
let pending = "";
let since = 0;

/** Sets what keys do: `{"g q": action, "?": action}`. */
export function setShortcuts(actions) {
  bindings = new Map(Object.entries(actions));
}

/** Whether single keys act. */
export const shortcutsOn = () => stored() !== "yes";

/** Turns them on or off, and remembers it. */
export function switchShortcuts(on) {
  try {
    localStorage.setItem(OFF, on ? "no" : "yes");
  } catch {
    // Without storage the choice cannot be kept.
  }
}

function stored() {
  try {
    return localStorage.getItem(OFF);
  } catch {
    return null;
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (!shortcutsOn() || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const sequence = pending && performance.now() - since < SEQUENCE_MS ? `${pending} ${event.key}` : event.key;
  pending = "";
  if (bindings.has(sequence)) {
    event.preventDefault();
    bindings.get(sequence)();
  } else if ([...bindings.keys()].some((key) => key.startsWith(`${event.key} `))) {
    [pending, since] = [event.key, performance.now()];
  }
});

function isTyping(target) {
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
