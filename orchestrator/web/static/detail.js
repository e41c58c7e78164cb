// The pane of the selected agent: who it is, what can be done with it, its tabs, and where one talks to it.

import { attr, h, place, put, say } from './dom.js';
import { Conversation } from './conversation.js';
import { Cost } from './cost.js';
import { context, doing } from './doing.js';
import { duration, lastPart, money, tokens } from './format.js';
import * as small from './tabs.js';
import { Timeline } from './timeline.js';

const TABS = ['Overview', 'Conversation', 'Tools', 'Timeline', 'Cost', 'Issues', 'Info'];
const REFRESH_MS = 2_000;
const REST = 5;

export class Detail {
  tab = 'Overview';
  node = null;
  #seen = '';
  #loadedAt = 0;
  #took = 0;
  #mode = 'message';

  /** `on`: {go(id), opened(id or null), close()}. */
  constructor(box, { forest, clock, actions, isOff, on }) {
    Object.assign(this, { box, forest, clock, actions, isOff, on });
    this.conversation = new Conversation();
    this.cost = new Cost({ go: on.go });
    this.timeline = this.#newTimeline();
    this.nothing = h('div', { class: 'empty' }, 'Select an agent to see its conversation, timeline and cost.');
    this.#build();
    this.show(null);
  }

  #newTimeline() {
    return new Timeline({ go: this.on.go, forest: this.forest, clock: this.clock });
  }

  #build() {
    this.title = h('h1', { class: 'ell text' });
    this.glyph = h('span', { class: 'glyph', 'aria-hidden': 'true' });
    this.word = h('b', {});
    this.state = h('span', { class: 'state' }, this.glyph, this.word);
    this.doing = h('span', { class: 'soft ell text' });
    const act = (label, name, run, more = '') =>
      h('button', { class: `button ${more}`, 'data-act': name, on: { click: () => this.node && run(this.node) } }, label);
    this.buttons = h(
      'div',
      { class: 'actions' },
      act('Abort…', 'abort', (node) => this.actions.end('abort', node), 'danger'),
      act('Stop…', 'stop', (node) => this.actions.end('stop', node), 'danger'),
      act('Rename…', 'rename', (node) => this.actions.rename(node)),
      act('Archive', 'archive', (node) => this.actions.archive(node)),
      h('button', { class: 'button sheetclose', 'aria-label': 'Close', on: { click: () => this.on.close() } }, '✕'),
    );
    this.facts = h('dl', { class: 'facts' });
    this.tabs = TABS.map((tab) =>
      h('button', { role: 'tab', id: `tab-${tab}`, 'aria-controls': 'panel', on: { click: () => this.open(tab) } }, tab),
    );
    const tablist = h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Views of this agent', on: { keydown: (event) => this.#tabKey(event) } }, this.tabs);
    this.panel = h('div', { class: 'panel', id: 'panel', role: 'tabpanel', tabindex: 0 });
    this.composer = this.#composer();
    this.whole = h('div', { class: 'whole' }, h('div', { class: 'who' }, h('div', { class: 'line' }, this.title, this.state, this.doing), this.buttons, this.facts), tablist, this.panel, this.composer);
    put(this.box, this.nothing, this.whole);
  }

  #composer() {
    const mode = (name, label) => h('button', { type: 'button', 'data-mode': name, on: { click: () => this.mode(name) } }, label);
    this.modes = [mode('message', 'Follow-up'), mode('steer', 'Steer')];
    this.input = h('input', { autocomplete: 'off' });
    this.send = h('button', { class: 'button primary', on: { click: () => this.#say() } }, 'Send');
    this.hint = h('span', {});
    this.input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.#say();
    });
    return h(
      'div',
      { class: 'composer' },
      h('div', { class: 'line' }, h('div', { class: 'choice', role: 'group', 'aria-label': 'How it is delivered' }, this.modes), this.input, this.send),
      h('div', { class: 'hint soft' }, this.hint, h('kbd', {}, 'm')),
    );
  }

  /** Another agent, or none. */
  show(node) {
    const isOther = node !== this.node;
    this.node = node;
    this.whole.hidden = !node;
    this.nothing.hidden = Boolean(node);
    if (!node) this.on.opened(null);
    else if (isOther) {
      this.input.value = '';
      this.mode('message');
      this.open(this.tab);
    }
    this.paint();
  }

  /** Load a tab of the agent. */
  async open(tab) {
    this.tab = tab;
    for (const button of this.tabs) {
      const isIt = button.id === `tab-${tab}`;
      attr(button, 'aria-selected', isIt);
      button.tabIndex = isIt ? 0 : -1;
    }
    attr(this.panel, 'aria-labelledby', `tab-${tab}`);
    if (!this.node) return;
    const { id } = this.node.row;
    this.on.opened(tab === 'Conversation' ? id : null);
    const panel = h('div', { class: 'panel', id: 'panel', role: 'tabpanel', tabindex: 0, 'aria-labelledby': `tab-${tab}`, 'aria-busy': true });
    this.panel.replaceWith(panel);
    this.panel = panel;
    await this.#load(panel, id);
    attr(panel, 'aria-busy', null);
  }

  async #load(panel, id) {
    const begin = performance.now();
    this.#loadedAt = Date.now();
    this.#seen = this.#sign();
    const inside = h('div', {});
    if (this.tab !== 'Conversation') put(panel, inside);
    try {
      await {
        Overview: () => small.overview(inside, id, { go: this.on.go, show: (tab) => this.open(tab), timeline: this.#newTimeline() }),
        Conversation: () => this.conversation.load(panel, id),
        Tools: () => small.tools(inside, id),
        Timeline: () => this.timeline.load(inside, id),
        Cost: () => this.cost.load(inside, id),
        Issues: () => small.issues(inside, id, { forest: this.forest, go: this.on.go }),
        Info: () => small.info(inside, id),
      }[this.tab]();
    } catch (error) {
      put(panel, h('p', { class: 'soft text' }, `Nothing can be shown: ${error.message}`));
    }
    this.#took = performance.now() - begin;
  }

  /** What has to change before the open tab is read again. */
  #sign() {
    const row = this.node?.row;
    return row ? `${row.messages} ${row.lastEventAt} ${row.word} ${row.totalTokens}` : '';
  }

  /**
   * Once a second: read the tab again where its agent has moved on; what takes long to read, seldom. A hand that is at work
   * in it is not disturbed.
   */
  async tick() {
    if (!this.node || this.isOff() || this.#sign() === this.#seen) return;
    if (Date.now() - this.#loadedAt < Math.max(REFRESH_MS, REST * this.#took)) return;
    if (this.tab === 'Conversation') {
      this.#loadedAt = Date.now();
      this.#seen = this.#sign();
      await this.conversation.refresh().catch(() => {});
    } else if (!this.panel.contains(document.activeElement) && this.tab !== 'Info' && !this.isLoading) {
      this.isLoading = true;
      const top = this.panel.scrollTop;
      const fresh = h('div', { class: 'panel', id: 'panel', role: 'tabpanel', tabindex: 0, 'aria-labelledby': `tab-${this.tab}` });
      const old = this.panel;
      place(fresh, { visibility: 'hidden', position: 'absolute', width: `${old.clientWidth}px`, height: `${old.clientHeight}px` });
      old.after(fresh);
      this.panel = fresh;
      await this.#load(fresh, this.node.row.id);
      old.remove();
      for (const property of ['visibility', 'position', 'width', 'height']) fresh.style.removeProperty(property);
      fresh.scrollTop = top;
      this.isLoading = false;
    }
  }

  /** Follow-up or steer; `answer` where the agent asks. */
  mode(name) {
    this.#mode = name;
    for (const button of this.modes) attr(button, 'aria-pressed', button.dataset.mode === name);
    this.paint();
  }

  /** The keyboard goes to where one writes. */
  write(mode) {
    if (this.composer.hidden) return;
    this.mode(mode);
    this.input.focus();
  }

  async #say() {
    const node = this.node;
    const verb = node.row.word === 'needs input' ? 'answer' : this.#mode;
    if (await this.actions.say(verb, node, this.input.value)) this.input.value = '';
  }

  /** Each frame: the head. */
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
      put(this.facts, Object.keys(facts).map((label) => h('div', {}, h('dd', { class: 'text' }), h('dt', {}, label))));
    }
    texts.forEach((text, at) => say(this.facts.children[at].firstChild, text));
    attr(this.facts.lastChild, 'title', row.model);
  }

  #offers(row, state) {
    const isOff = this.isOff();
    const hasWork = state.isWorking || row.working > 0;
    for (const button of this.buttons.querySelectorAll('[data-act]')) {
      const act = button.dataset.act;
      button.disabled = isOff || this.actions.pending(row.id) !== null;
      button.hidden = this.isReadOnly || (act === 'abort' && !hasWork) || (act === 'archive' && hasWork) || (act === 'stop' && row.hostPid === null && !hasWork);
    }
    this.composer.hidden = Boolean(this.isReadOnly) || row.word === 'damaged';
    this.input.disabled = this.send.disabled = isOff;
    const asks = row.word === 'needs input';
    this.modes[0].parentElement.hidden = asks;
    attr(this.input, 'placeholder', `${asks ? 'Answer' : this.#mode === 'steer' ? 'Steer' : 'Message'} ${row.name}…`);
    attr(this.input, 'aria-label', `${asks ? 'Answer' : 'Message'} ${row.name}`);
    say(this.hint, asks ? 'It waits for this answer.' : 'Follow-up waits for the end of the turn; steer goes in before the next model call.');
    this.#tabLabels(row);
  }

  #tabLabels(row) {
    say(this.tabs[TABS.indexOf('Issues')], row.issues ? `Issues ${row.issues}` : 'Issues');
  }

  #tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = TABS[(TABS.indexOf(this.tab) + step + TABS.length) % TABS.length];
    this.open(next);
    this.tabs[TABS.indexOf(next)].focus();
  }
}
