// The tab Conversation: pages of 200, older ones when somebody scrolls up, and what is being written at the end.

import { h, put } from './dom.js';
import { timeOfDay, took } from './format.js';
import { detail } from './server.js';

const NEAR_PX = 40;
const GLYPHS = { ok: '✓', failed: '✗', open: '●' };

export class Conversation {
  #entries = [];
  #before = 0;
  #isLoading = false;
  #unseen = 0;
  #writing = null;

  async load(box, id) {
    Object.assign(this, { box, id });
    this.#entries = [];
    this.#before = 0;
    this.#unseen = 0;
    this.#writing = null;
    const list = h('div', { class: 'said', role: 'log', 'aria-live': 'off', 'aria-label': 'Conversation' });
    this.list = list;
    this.older = h('button', { class: 'link', hidden: true, on: { click: () => this.#older() } });
    this.tail = h('div', { class: 'writing text', hidden: true });
    this.newer = h('button', { class: 'button newer', hidden: true, on: { click: () => this.toEnd() } });
    put(box, this.older, this.list, this.tail, this.newer);
    box.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    const page = await detail('conversation', id);
    if (this.list !== list) return;
    this.#entries = page.entries;
    this.#before = page.before;
    put(
      this.list,
      page.entries.length ? page.entries.map(entry) : h('p', { class: 'soft' }, 'Nothing has been said yet.'),
    );
    this.#told();
    this.toEnd();
  }

  get isAtEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    return scrollHeight - scrollTop - clientHeight < NEAR_PX;
  }

  toEnd() {
    this.#unseen = 0;
    this.newer.hidden = true;
    this.box.scrollTop = this.box.scrollHeight;
  }

  /** What has been said since: entries whose calls had not ended are shown anew. */
  async refresh() {
    if (this.#isLoading || !this.list) return;
    this.#isLoading = true;
    const list = this.list;
    try {
      const settled = this.#entries.findLastIndex((each) => each.calls.every((call) => call.state !== 'open'));
      const firstOpen = this.#entries.findIndex((each) => each.calls.some((call) => call.state === 'open'));
      const keep = firstOpen < 0 ? settled : firstOpen - 1;
      const after = keep >= 0 ? { after: this.#entries[keep].id } : {};
      const page = await detail('conversation', this.id, after);
      if (this.list !== list) return;
      this.#replace(keep + 1, page);
    } finally {
      this.#isLoading = false;
    }
  }

  #replace(from, page) {
    const fresh = page.entries;
    const wasAtEnd = this.isAtEnd;
    const had = this.#entries.length;
    const dropped = this.#entries.splice(from);
    this.#entries.push(...fresh);
    for (const _ of dropped) this.list.lastChild.remove();
    if (had === 0) put(this.list);
    this.list.append(...fresh.map(entry));
    if (this.#entries.length > had) this.#stopWriting();
    if (wasAtEnd) this.toEnd();
    else this.#new(this.#entries.length - had);
  }

  #new(count) {
    this.#unseen += Math.max(0, count);
    this.newer.hidden = this.#unseen === 0;
    this.newer.textContent = `↓ ${this.#unseen} new`;
  }

  /** A piece of the answer that is being written. */
  written({ session, messageId, at, text }) {
    if (session !== this.id || !this.tail) return;
    const wasAtEnd = this.isAtEnd;
    if (this.#writing?.messageId !== messageId) this.#writing = { messageId, text: '' };
    this.#writing.text = this.#writing.text.slice(0, at) + text;
    this.tail.textContent = this.#writing.text;
    this.tail.hidden = false;
    if (wasAtEnd) this.toEnd();
  }

  #stopWriting() {
    this.#writing = null;
    this.tail.hidden = true;
    this.tail.textContent = '';
  }

  #scrolled() {
    if (this.box.scrollTop < NEAR_PX && this.#before > 0) this.#older();
    if (this.isAtEnd) {
      this.#unseen = 0;
      this.newer.hidden = true;
    }
  }

  async #older() {
    if (this.#isLoading || !this.#before) return;
    this.#isLoading = true;
    const list = this.list;
    try {
      const page = await detail('conversation', this.id, { before: this.#entries[0].id });
      if (this.list !== list) return; // another conversation was opened meanwhile
      const height = this.box.scrollHeight;
      this.#entries.unshift(...page.entries);
      this.#before = page.before;
      this.list.prepend(...page.entries.map(entry));
      this.box.scrollTop += this.box.scrollHeight - height;
      this.#told();
    } finally {
      this.#isLoading = false;
    }
  }

  #told() {
    this.older.hidden = this.#before === 0;
    this.older.textContent = `${this.#before} earlier`;
  }
}

/** One entry as an element. */
export function entry(said) {
  return h(
    'article',
    { class: `entry e-${said.who}`, 'data-entry': said.id },
    h(
      'div',
      { class: 'who' },
      h('b', { class: 'ell text' }, said.name),
      h('time', {}, timeOfDay(Date.parse(said.at), false)),
    ),
    h(
      'div',
      { class: 'what' },
      said.thinking ? folded('thinking', said.thinking) : null,
      said.text ? long(said) : null,
      said.error ? h('p', { class: 'bad text' }, said.error) : null,
      said.calls.map(call),
    ),
  );
}

function long(said) {
  if (said.who === 'summary' || said.who === 'bash') return folded(said.name, said.text);
  return h('p', { class: 'text' }, said.text);
}

function folded(head, text) {
  return h('details', {}, h('summary', { class: 'soft text' }, head), h('pre', { class: 'text' }, text));
}

function call(made) {
  const state = { ok: 'completed', failed: 'failed', open: 'running' }[made.state];
  return h(
    'details',
    { class: `call c-${made.state}` },
    h(
      'summary',
      {},
      h('b', { class: 'mono text' }, made.name),
      h('span', { class: 'mono soft ell text' }, made.argument),
      h('span', { class: 'glyph', role: 'img', 'aria-label': state }, GLYPHS[made.state]),
      h('span', { class: 'soft' }, made.durationMs === null ? '' : took(made.durationMs)),
    ),
    h('pre', { class: 'mono text' }, made.arguments),
    made.output ? h('pre', { class: 'mono text' }, made.output) : null,
    made.spill ? h('p', { class: 'soft text' }, `all of it: ${made.spill}`) : null,
  );
}
