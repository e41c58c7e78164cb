// The pane of the selected agent: who it is, what can be done with it, its tabs, and where one talks to it.

import { attr, h, place, put, say } from './dom.js';
import { Composer } from './composer.js';
import { context, doing } from './doing.js';
import { duration, lastPart, money, tokens } from './format.js';
import { TabPane } from './tabpane.js';

export class Detail {
  node = null;
  isReadOnly = false;

  /** `on`: {go(id), opened(id or null), close()}. `isOff()`: nothing can be done now. */
  constructor(box, { forest, clock, actions, isOff, on }) {
    Object.assign(this, { forest, clock, actions, isOff });
    this.pane = new TabPane({ forest, clock, go: on.go, opened: on.opened });
    this.composer = new Composer((verb, node, text) => actions.say(verb, node, text));
    this.title = h('h1', { class: 'ell text' });
    this.glyph = h('span', { class: 'glyph', 'aria-hidden': 'true' });
    this.word = h('b', { class: 'word' });
    this.state = h('span', { class: 'state' }, this.glyph, this.word);
    this.doing = h('span', { class: 'soft ell text' });
    this.buttons = this.#buttons(on.close);
    this.facts = h('dl', { class: 'facts' });
    this.nothing = h('div', { class: 'empty' }, 'Select an agent to see its conversation, timeline and cost.');
    this.whole = h(
      'div',
      { class: 'whole' },
      h(
        'div',
        { class: 'who' },
        h('div', { class: 'line' }, this.title, this.state, this.doing),
        this.buttons,
        this.facts,
      ),
      this.pane.list,
      this.pane.panel,
      this.composer.element,
    );
    put(box, this.nothing, this.whole);
    this.show(null);
  }

  #buttons(close) {
    const act = (label, name, run, more = '') =>
      h('button', { class: `button ${more}`, 'data-act': name, on: { click: () => run(this.node) } }, label);
    return h(
      'div',
      { class: 'actions' },
      act('Abort…', 'abort', (node) => this.actions.end('abort', node), 'danger'),
      act('Stop…', 'stop', (node) => this.actions.end('stop', node), 'danger'),
      act('Rename…', 'rename', (node) => this.actions.rename(node)),
      act('Archive', 'archive', (node) => this.actions.archive(node)),
      h('button', { class: 'button sheetclose', 'aria-label': 'Close', on: { click: close } }, '✕'),
    );
  }

  /** Another agent, or none. */
  show(node) {
    const isOther = node !== this.node;
    this.node = node;
    this.whole.hidden = !node;
    this.nothing.hidden = Boolean(node);
    if (isOther) this.composer.clear();
    if (isOther || !node) this.pane.show(node ? node.row.id : null);
    this.paint();
  }

  /** Once a second. */
  tick() {
    if (this.node && !this.isOff()) this.pane.tick();
  }

  /** Each frame: all but the open tab. */
  paint() {
    if (!this.node) return;
    const { row } = this.node;
    const state = this.forest.state(row);
    const now = this.clock.now();
    say(this.title, row.name);
    say(this.glyph, state.glyph);
    say(this.word, row.word);
    this.state.className = `state s-${row.word.replaceAll(' ', '-')}`;
    place(this.state, { color: `var(${state.token})` });
    say(this.doing, this.actions.pending(row.id) ?? doing(row, now));
    this.#facts(row, now);
    this.#offers(row, state);
    this.pane.issues(row.issues);
    this.composer.paint(this.node, { isOff: this.isOff(), isHidden: this.isReadOnly || row.word === 'damaged' });
  }

  #facts(row, now) {
    const facts = {
      own: money(row.ownUsd, row.ownIsPart),
      total: money(row.totalUsd, row.totalIsPart),
      tokens: tokens(row.totalTokens),
      context: context(row).text,
      below: row.descendants ? `${row.working}/${row.descendants}` : 'none',
      retries: row.retry ? `${row.retry.attempt}/${row.retry.of}` : '0',
      queued: String(row.queued),
      elapsed: duration(this.forest.elapsed(row, now)),
      model: lastPart(row.model),
    };
    const texts = Object.values(facts);
    if (this.facts.children.length !== texts.length) {
      put(
        this.facts,
        Object.keys(facts).map((label) => h('div', {}, h('dd', { class: 'text' }), h('dt', {}, label))),
      );
    }
    texts.forEach((text, at) => say(this.facts.children[at].firstChild, text));
    attr(this.facts.lastChild, 'title', row.model);
  }

  /** Only what makes sense for it now. */
  #offers(row, state) {
    const hasWork = state.isWorking || row.working > 0;
    const makesSense = { abort: hasWork, stop: hasWork || row.hostPid !== null, rename: true, archive: !hasWork };
    for (const button of this.buttons.querySelectorAll('[data-act]')) {
      button.disabled = this.isOff() || this.actions.pending(row.id) !== null;
      button.hidden = this.isReadOnly || !makesSense[button.dataset.act];
    }
  }
}
