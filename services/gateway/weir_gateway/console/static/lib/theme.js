// Light and dark: as the system says until somebody chooses.

const KEY = "weir.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

/** `light` or `dark`, as it is drawn now. */
export const theme = () => document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");

/** Goes to the other one and remembers it. */
export function toggleTheme() {
  const next = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Without storage it holds until the page is left.
  }
  tell();
  return next;
}

/** Calls back when the theme changes, until the signal is aborted. */
export function onTheme(listener, signal) {
  listeners.add(listener);
  signal?.addEventListener("abort", () => listeners.delete(listener));
}

/** A colour of tokens.css as canvas takes it, in the theme of now. */
export function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function tell() {
  for (const listener of listeners) listener();
}

system.addEventListener("change", tell);
