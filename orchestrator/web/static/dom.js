// Elements. Text becomes text nodes and nothing else; positions are set through the CSSOM.

/** An element. `props`: `class`, `on: {event: listener}`, `css: {property: value}`, else attributes; null leaves one out. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith('aria-')) element.setAttribute(name, String(value));
    else if (value === false) continue;
    else if (name === 'on')
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === 'css') place(element, value);
    else if (name === 'class') element.className = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...kept(children));
  return element;
}

/** Replace what is inside. */
export function put(element, ...children) {
  element.replaceChildren(...kept(children));
}

export function place(element, css) {
  for (const [property, value] of Object.entries(css)) element.style.setProperty(property, value);
}

/** Set text only where it differs: a text node that is left alone costs no layout. */
export function say(element, text) {
  if (element.firstChild && element.childNodes.length === 1 && element.firstChild.nodeType === Node.TEXT_NODE) {
    if (element.firstChild.data !== text) element.firstChild.data = text;
  } else element.replaceChildren(text);
}

export function attr(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

function kept(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}
