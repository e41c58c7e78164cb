// A long list of rows of one height, of which only those in sight are in the document.

import { h, place } from './dom.js';

const AROUND = 8;

/**
 * `make()` gives an empty row element, `fill(element, item, index)` makes it show an item. Items have a `key`; the row of
 * a key keeps its element while it is in sight. `pinned()` is an index that is never taken out: it has the focus.
 */
export class Windowed {
  items = [];
  #count = 0;
  #elements = new Map();
  #spare = [];

  constructor(viewport, height, make, fill, pinned = () => -1) {
    Object.assign(this, { viewport, height, make, fill, pinned });
    this.room = h('div', { class: 'room', role: 'presentation' });
    viewport.append(this.room);
  }

  get top() {
    return this.viewport.scrollTop;
  }

  /** As of the last `set`: the list itself may have grown since. */
  get isAtEnd() {
    const { scrollTop, clientHeight } = this.viewport;
    return scrollTop + clientHeight >= (this.#count - 1) * this.height;
  }

  /** New items. `extra`: room below the last, so that a row can stay where it is although rows came above it. */
  set(items, extra = 0) {
    this.items = items;
    this.#count = items.length;
    place(this.room, { height: `${items.length * this.height + extra}px` });
  }

  scrollTo(top) {
    this.viewport.scrollTop = top;
  }

  /** Scroll as little as needed to have this row in sight. */
  reveal(index) {
    const { scrollTop, clientHeight } = this.viewport;
    const top = index * this.height;
    if (top < scrollTop) this.scrollTo(top);
    else if (top + this.height > scrollTop + clientHeight) this.scrollTo(top + this.height - clientHeight);
  }

  element(key) {
    return this.#elements.get(key) ?? null;
  }

  paint() {
    const { scrollTop, clientHeight } = this.viewport;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - AROUND);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.height) + AROUND);
    const wanted = [];
    for (let at = first; at < last; at++) wanted.push(at);
    const pinned = this.pinned();
    if (pinned >= 0 && pinned < this.items.length && (pinned < first || pinned >= last)) wanted.push(pinned);
    const keys = new Set(wanted.map((at) => this.items[at].key));
    for (const [key, element] of this.#elements) {
      if (keys.has(key)) continue;
      this.#elements.delete(key);
      element.remove();
      if (this.#spare.length < 2 * AROUND) this.#spare.push(element);
    }
    for (const at of wanted) this.#show(at);
  }

  #show(at) {
    const item = this.items[at];
    let element = this.#elements.get(item.key);
    if (!element) {
      element = this.#spare.pop() ?? this.make();
      this.#elements.set(item.key, element);
      this.room.append(element);
    }
    const top = `translateY(${at * this.height}px)`;
    if (element.style.transform !== top) element.style.transform = top;
    this.fill(element, item, at);
  }
}
