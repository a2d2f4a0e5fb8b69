// Building elements. Text is only ever set as text: nothing that a server says becomes markup.

/**
 * An element.
 *
 * @param {string} tag name, with classes behind dots: `div.card.wide`
 * @param {object} [props] `on` + event: a listener; `data`: data attributes; `vars`: custom
 *   properties; properties of the element by name; all else attributes. null and false: left out.
 * @param {...(Node|string|number|null|Array)} children
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(props ?? {})) setProp(element, key, value);
  append(element, children);
  return element;
}

function setProp(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2).toLowerCase(), value);
  else if (key === "data") Object.assign(element.dataset, value);
  else if (key === "vars") setVars(element, value);
  else if (key === "class") element.classList.add(...value.split(" ").filter(Boolean));
  else if (key in element && !key.includes("-") && key !== "list") element[key] = value;
  else element.setAttribute(key, value === true ? "" : value);
}

/** Sets custom properties, such as `{"--swatch": "red"}`. */
export function setVars(element, vars) {
  for (const [name, value] of Object.entries(vars)) element.style.setProperty(name, value);
}

/** Appends children; null and false are left out, arrays are flattened. */
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Sets the text of an element if it is another one: a screen reader hears changes only. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Puts children in place of what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Says something to those who hear the page. */
export function announce(text) {
  const announcer = document.getElementById("announcer");
  if (announcer) announcer.textContent = text;
}
