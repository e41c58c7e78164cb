// The head of the page: where one is, whether it is live, what is looked for, light or dark; and the bar above the tree.

import { attr, h, put, say } from './dom.js';
import { counted } from './format.js';
import { ORDERS } from './order.js';
import { remembered, remember } from './memory.js';

const THEMES = ['auto', 'light', 'dark'];
const SYSTEM = matchMedia('(prefers-color-scheme: dark)');

export class TopBar {
  constructor(box, { filter, keys }) {
    this.trees = h('span', {});
    this.tree = h('b', { class: 'text' });
    this.rest = h('span', { class: 'soft text' });
    this.pill = h('span', { class: 'pill' });
    this.input = h('input', {
      type: 'search',
      'aria-label': 'Filter agents',
      placeholder: 'Filter: text, status:failed, cost>0.5, model:haiku',
      autocomplete: 'off',
      spellcheck: 'false',
    });
    this.input.addEventListener('input', () => filter(this.input.value));
    this.theme = h('button', { class: 'button', on: { click: () => this.#nextTheme() } });
    put(
      box,
      h('span', { class: 'brand' }, logo(), 'sapwood'),
      h('span', { class: 'crumb' }, this.trees, h('span', { class: 'soft' }, '›'), this.tree, this.rest),
      this.pill,
      h('span', { class: 'grow' }),
      h('label', { class: 'search' }, this.input, h('kbd', {}, '/')),
      this.theme,
      h('button', { class: 'button', 'aria-label': 'Keys', on: { click: keys } }, '?'),
    );
    this.#setTheme(remembered('theme', 'auto'));
    SYSTEM.addEventListener('change', () => this.#setTheme(this.chosen));
  }

  #nextTheme() {
    this.#setTheme(THEMES[(THEMES.indexOf(this.chosen) + 1) % THEMES.length]);
    remember('theme', this.chosen);
  }

  #setTheme(theme) {
    this.chosen = THEMES.includes(theme) ? theme : 'auto';
    const system = SYSTEM.matches ? 'dark' : 'light';
    attr(document.documentElement, 'data-theme', this.chosen === 'auto' ? system : this.chosen);
    say(this.theme, { auto: '◐', light: '○', dark: '●' }[this.chosen]);
    attr(this.theme, 'aria-label', `Theme: ${this.chosen}`);
  }

  where(trees, root) {
    say(this.trees, counted(trees, 'tree'));
    say(this.tree, root ? root.row.name : 'none');
    say(this.rest, root && root.row.hostPid !== null ? `· pid ${root.row.hostPid}` : '');
    document.title = root ? `sapwood · ${root.row.name}` : 'sapwood';
  }

  /** What of the filter is no term. */
  problem(text) {
    attr(this.input, 'aria-invalid', text ? true : null);
    attr(this.input, 'title', text || null);
  }

  /** `rate`: events in the last second. */
  connection(state, rate = 0) {
    this.pill.classList.toggle('live', state.is === 'live');
    this.pill.classList.toggle('lost', state.is === 'lost');
    const events = rate ? ` · ${counted(rate, 'event')}/s` : '';
    say(
      this.pill,
      { live: `● live${events}`, lost: `○ reconnecting · try ${state.tries}`, new: '○ connecting' }[state.is],
    );
  }
}

/** Rings of a tree, drawn here: no file is fetched for it. */
function logo() {
  const svg = (tag, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const drawn = svg('svg', { width: 20, height: 20, viewBox: '0 0 20 20', 'aria-hidden': 'true' });
  for (const [r, x] of [
    [8.6, 10],
    [5.6, 10.4],
    [2.6, 10.8],
  ]) {
    drawn.append(svg('circle', { cx: x, cy: 10, r, fill: 'none', stroke: 'currentColor', 'stroke-width': 2 }));
  }
  return drawn;
}

export class Bar {
  constructor(box, { order, fold, columns, ended }) {
    this.orders = Object.fromEntries(ORDERS.map((by) => [by, h('button', { on: { click: () => order(by) } }, by)]));
    this.stale = h('button', { class: 'plain', hidden: true, on: { click: () => order(null) } });
    const depth = (label, to) =>
      h('button', { 'aria-label': `Fold to ${to || 'all'}`, on: { click: () => fold(to) } }, label);
    this.wide = h('button', { class: 'button', 'aria-pressed': 'false', on: { click: columns } }, 'More columns');
    this.endedButton = h('button', { class: 'button', hidden: true, on: { click: ended } });
    put(
      box,
      h('span', { class: 'soft' }, 'Order'),
      h('div', { class: 'choice', role: 'group', 'aria-label': 'Order' }, Object.values(this.orders)),
      this.stale,
      h('span', { class: 'grow' }),
      h('span', { class: 'soft' }, 'Fold to'),
      h(
        'div',
        { class: 'choice', role: 'group', 'aria-label': 'Fold to' },
        depth('1', 1),
        depth('2', 2),
        depth('all', 0),
      ),
      this.endedButton,
      this.wide,
    );
  }

  order(by, isStale) {
    for (const [each, button] of Object.entries(this.orders)) attr(button, 'aria-pressed', each === by);
    this.stale.hidden = !isStale;
    if (isStale) say(this.stale, `order: ${by} ▾ (changed, o to redo)`);
  }

  /** How many trees have ended and are not shown, unless they are. */
  ended(count, isShown) {
    this.endedButton.hidden = !count && !isShown;
    say(this.endedButton, isShown ? 'Hide ended' : `Show ended: ${count}`);
    attr(this.endedButton, 'aria-pressed', isShown);
  }

  columns(isWide) {
    attr(this.wide, 'aria-pressed', isWide);
  }
}
