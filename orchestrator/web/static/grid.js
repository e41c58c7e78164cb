// The tree of agents: a treegrid whose rows outside the window are not in the document.

import { attr, h, place, put, say } from './dom.js';
import { context, doing, queued, threshold } from './doing.js';
import { duration, lastPart, money, tokens } from './format.js';
import { Windowed } from './windowed.js';

export const ROW_PX = 26;
const INDENT_PX = 15;

/** key, head, `num`: right-aligned; `wide`: only in the wide set; `order`: the sort that its head asks for. */
const COLUMNS = [
  { key: 'name', head: 'Name', order: 'name' },
  { key: 'status', head: 'Status' },
  { key: 'doing', head: 'Doing' },
  { key: 'model', head: 'Model' },
  { key: 'own', head: 'Own', num: true, order: 'own' },
  { key: 'total', head: 'Total', num: true, order: 'total' },
  { key: 'tokens', head: 'Tokens', num: true },
  { key: 'ownTokens', head: 'Own tok', num: true, wide: true },
  { key: 'context', head: 'Context', num: true, order: 'context' },
  { key: 'turns', head: 'Turns', num: true, wide: true },
  { key: 'retry', head: 'Retry', num: true, wide: true },
  { key: 'queue', head: 'Queue', num: true, wide: true },
  { key: 'last', head: 'Last', num: true, wide: true },
  { key: 'time', head: 'Time', num: true, order: 'time' },
  { key: 'agents', head: 'Agents', num: true },
];

export class Grid {
  selected = null;
  #columns = [];
  #heads = [];

  /** `on`: {pick(key), toggle(key), order(by)}. `pending(id)`: what is under way with a session, or null. */
  constructor(box, forest, clock, pending, on) {
    Object.assign(this, { box, forest, clock, pending, on });
    this.head = h('div', { class: 'head', role: 'row', 'aria-rowindex': 1 });
    this.view = h('div', { class: 'view', role: 'rowgroup', tabindex: -1 });
    this.empty = h('div', { class: 'empty', hidden: true });
    attr(box, 'role', 'treegrid');
    attr(box, 'aria-label', 'Agents');
    box.append(h('div', { role: 'rowgroup' }, this.head), this.view, this.empty);
    this.view.addEventListener('scroll', () => this.rows.paint(), { passive: true });
    box.addEventListener('click', (event) => this.#click(event));
    this.columns(false);
    new ResizeObserver(() => this.rows.paint()).observe(this.view);
  }

  get items() {
    return this.rows.items;
  }

  get index() {
    return this.items.findIndex((item) => item.key === this.selected);
  }

  /** The wide set of columns, or the usual one. */
  columns(isWide) {
    this.#columns = COLUMNS.filter((column) => isWide || !column.wide);
    this.box.classList.toggle('wide', isWide);
    this.#heads = this.#columns.map((column) => this.#headCell(column));
    put(this.head, this.#heads);
    attr(this.box, 'aria-colcount', this.#columns.length);
    const items = this.rows?.items ?? [];
    put(this.view);
    this.rows = new Windowed(
      this.view,
      ROW_PX,
      () => this.#make(),
      (...given) => this.#fill(...given),
      () => this.index,
    );
    this.rows.set(items);
    this.rows.paint();
  }

  #headCell(column) {
    const inside = column.order
      ? h('button', { tabindex: -1, on: { click: () => this.on.order(column.order) } }, column.head)
      : column.head;
    return h('span', { role: 'columnheader', class: column.num ? 'num' : '', 'data-order': column.order }, inside);
  }

  /** Which column is sorted by, and whether that is still so. */
  sorted(by) {
    for (const cell of this.#heads)
      attr(cell, 'aria-sort', cell.dataset.order === by ? (by === 'name' ? 'ascending' : 'descending') : null);
  }

  /** New lines. The selected row, or else the first in sight, stays on its line of the screen. */
  set(items) {
    const before = this.index >= 0 && this.#isInSight(this.index) ? this.index : Math.ceil(this.rows.top / ROW_PX);
    const anchor = this.items[before]?.key;
    const offset = before * ROW_PX - this.rows.top;
    const after = anchor === undefined ? -1 : items.findIndex((item) => item.key === anchor);
    const top = after < 0 ? this.rows.top : Math.max(0, after * ROW_PX - offset);
    const spare = Math.max(0, top + this.view.clientHeight - items.length * ROW_PX);
    this.rows.set(items, after > before || this.rows.top > 0 ? spare : 0);
    if (after >= 0 && top !== this.rows.top) this.rows.scrollTo(top);
    attr(this.box, 'aria-rowcount', items.length + 1);
    this.rows.paint();
  }

  #isInSight(index) {
    const y = index * ROW_PX - this.rows.top;
    return y > -ROW_PX && y < this.view.clientHeight;
  }

  paint() {
    this.rows.paint();
  }

  /** Select a key and bring it into sight; with `focus` the keyboard goes there, too. */
  pick(key, { focus = false } = {}) {
    this.selected = key;
    const index = this.index;
    if (index >= 0) this.rows.reveal(index);
    this.rows.paint();
    if (focus) this.rows.element(key)?.focus({ preventScroll: true });
  }

  /** What to say instead of rows; null where there are some. */
  instead(...content) {
    const isEmpty = content[0] !== null;
    this.empty.hidden = !isEmpty;
    if (isEmpty) put(this.empty, ...content);
  }

  #make() {
    const cells = {};
    const element = h('div', { class: 'row', role: 'row', tabindex: -1 });
    for (const column of this.#columns) {
      const cell = h('span', { role: 'gridcell', class: `c-${column.key}${column.num ? ' num' : ''}` });
      cells[column.key] = cell;
      element.append(cell);
    }
    element.parts = parts(cells);
    return element;
  }

  #fill(element, item, at) {
    const isSelected = item.key === this.selected;
    element.dataset.key = item.key;
    attr(element, 'id', `row-${item.key}`);
    attr(element, 'aria-level', item.level);
    attr(element, 'aria-posinset', item.pos);
    attr(element, 'aria-setsize', item.size);
    attr(element, 'aria-rowindex', at + 2);
    attr(element, 'aria-selected', isSelected);
    attr(element, 'aria-expanded', item.group || item.node.kids.length ? item.isOpen : null);
    element.tabIndex = isSelected || (at === 0 && this.index < 0) ? 0 : -1;
    element.classList.toggle('dim', item.isDim === true);
    place(element.parts.indent, { width: `${(item.level - 1) * INDENT_PX}px` });
    if (item.group) this.#fillGroup(element, item);
    else this.#fillAgent(element, item);
  }

  #fillAgent(element, item) {
    const { row } = item.node;
    const { parts: p } = element;
    const state = this.forest.state(row);
    const now = this.clock.now();
    say(p.twist, item.node.kids.length ? (item.isOpen ? '▾' : '▸') : '');
    say(p.name, row.name);
    const inside = item.node.kids.length && !item.isOpen ? row.issues - (state.isIssue ? 1 : 0) : 0;
    say(p.badge, inside ? `!${inside}` : '');
    attr(p.badge, 'aria-label', inside ? `${inside} issues inside` : null);
    this.#status(p, row.word, state);
    const waiting = queued(row, state.isWorking);
    say(p.queued, waiting ? `${waiting} queued` : '');
    const under = this.pending(row.id);
    say(p.doing, under ?? doing(row, now));
    this.#figures(p, {
      model: lastPart(row.model),
      own: money(row.ownUsd, row.ownIsPart),
      total: money(row.totalUsd, row.totalIsPart),
      tokens: tokens(row.totalTokens),
      ownTokens: tokens(row.ownTokens),
      turns: row.turns ?? '–',
      retry: row.retry ? `${row.retry.attempt}/${row.retry.of}` : '–',
      queue: row.queued || '–',
      last: row.lastEventAt ? duration(now - Date.parse(row.lastEventAt)) : '–',
      time: duration(this.forest.elapsed(row, now)),
      agents: row.descendants ? `${row.working}/${row.descendants}` : '',
    });
    this.#context(p, row);
    attr(element, 'title', null);
  }

  #fillGroup(element, item) {
    const { parts: p } = element;
    const state = this.forest.state({ word: item.word });
    say(p.twist, item.isOpen ? '▾' : '▸');
    say(p.name, `${item.members.length} ${item.word}`);
    say(p.badge, '');
    this.#status(p, item.word, state);
    say(p.queued, '');
    say(p.doing, 'folded together');
    const sum = (of) => item.members.reduce((total, kid) => total + (of(kid.row) ?? 0), 0);
    const models = new Set(item.members.map((kid) => lastPart(kid.row.model)));
    this.#figures(p, {
      model: models.size === 1 ? [...models][0] : '',
      total: money(
        sum((row) => row.totalUsd),
        item.members.some((kid) => kid.row.totalIsPart),
      ),
      tokens: tokens(sum((row) => row.totalTokens)),
    });
    this.#context(p, null);
  }

  #status(p, word, state) {
    say(p.glyph, state.glyph);
    say(p.word, word);
    const name = `state s-${word.replaceAll(' ', '-')}`;
    if (p.status.className !== name) p.status.className = name;
    const colour = `var(${state.token})`;
    if (p.status.style.color !== colour) p.status.style.color = colour;
  }

  #figures(p, figures) {
    for (const [key, cell] of Object.entries(p.plain)) say(cell, String(figures[key] ?? ''));
  }

  #context(p, row) {
    const found = row ? context(row) : { text: '', share: null, isHigh: false };
    say(p.contextText, found.text);
    p.contextCell.classList.toggle('high', found.isHigh);
    p.gauge.hidden = found.share === null;
    if (found.share !== null) {
      place(p.fillBar, { width: `${found.share * 100}%` });
      place(p.tick, { left: `${threshold(row.contextWindow) * 100}%` });
    }
  }

  #click(event) {
    const element = event.target.closest('.row');
    if (!element) return;
    if (event.target.closest('.twist')) this.on.toggle(element.dataset.key);
    this.on.pick(element.dataset.key);
  }
}

const PLAIN = new Set([
  'model',
  'own',
  'total',
  'tokens',
  'ownTokens',
  'turns',
  'retry',
  'queue',
  'last',
  'time',
  'agents',
]);

/** The nodes of a row that change. */
function parts(cells) {
  const p = { plain: {} };
  for (const [key, cell] of Object.entries(cells)) if (PLAIN.has(key)) p.plain[key] = cell;
  p.indent = h('span', { class: 'indent' });
  p.twist = h('span', { class: 'twist', 'aria-hidden': 'true' });
  p.name = h('span', { class: 'ell text' });
  p.badge = h('span', { class: 'badge' });
  cells.name.append(p.indent, p.twist, p.name, p.badge);
  p.glyph = h('span', { class: 'glyph', 'aria-hidden': 'true' });
  p.word = h('span', { class: 'word' });
  p.status = h('span', { class: 'state' }, p.glyph, p.word);
  cells.status.append(p.status);
  p.queued = h('span', { class: 'queued' });
  p.doing = h('span', { class: 'ell text' });
  cells.doing.append(p.queued, p.doing);
  p.fillBar = h('i', { class: 'part' });
  p.tick = h('i', { class: 'tick' });
  p.gauge = h('span', { class: 'gauge', 'aria-hidden': 'true' }, p.fillBar, p.tick);
  p.contextText = h('span', {});
  p.contextCell = cells.context;
  cells.context.append(p.gauge, p.contextText);
  return p;
}
