// The tabs of the selected agent: one is open, is read when it is opened, and again when its agent has moved on.

import { attr, h, place, put, say } from './dom.js';
import { Conversation } from './conversation.js';
import { Cost } from './cost.js';
import * as small from './tabs.js';
import { Timeline } from './timeline.js';

const TABS = ['Overview', 'Conversation', 'Tools', 'Timeline', 'Cost', 'Issues', 'Info'];
const REFRESH_MS = 2_000;
const REST = 5;
const ASIDE = ['visibility', 'position', 'width', 'height'];

export class TabPane {
  tab = 'Overview';
  #id = null;
  #seen = '';
  #loadedAt = 0;
  #took = 0;

  /** `go(id)`: to an agent. `opened(id)`: the conversation of this session is seen; null: none is. */
  constructor({ forest, clock, go, opened }) {
    Object.assign(this, { forest, clock, go, opened });
    this.conversation = new Conversation();
    this.cost = new Cost({ go });
    this.timeline = this.#newTimeline();
    this.tabs = TABS.map((tab) =>
      h(
        'button',
        { role: 'tab', id: `tab-${tab}`, 'aria-controls': 'panel', on: { click: () => this.open(tab) } },
        tab,
      ),
    );
    this.list = h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Views of this agent' }, this.tabs);
    this.list.addEventListener('keydown', (event) => this.#key(event));
    this.panel = this.#newPanel();
  }

  #newTimeline() {
    return new Timeline({ go: this.go, forest: this.forest, clock: this.clock });
  }

  #newPanel() {
    return h('div', {
      class: 'panel',
      id: 'panel',
      role: 'tabpanel',
      tabindex: 0,
      'aria-labelledby': `tab-${this.tab}`,
    });
  }

  /** Another agent; null: none. */
  show(id) {
    this.#id = id;
    if (id === null) this.opened(null);
    else this.open(this.tab);
  }

  /** Open a tab, with what is there now. */
  async open(tab) {
    this.tab = tab;
    for (const button of this.tabs) {
      const isIt = button.id === `tab-${tab}`;
      attr(button, 'aria-selected', isIt);
      button.tabIndex = isIt ? 0 : -1;
    }
    this.opened(tab === 'Conversation' ? this.#id : null);
    const panel = this.#newPanel();
    this.panel.replaceWith(panel);
    this.panel = panel;
    attr(panel, 'aria-busy', true);
    await this.#load(panel);
    attr(panel, 'aria-busy', null);
  }

  async #load(panel) {
    const id = this.#id;
    const begin = performance.now();
    this.#loadedAt = Date.now();
    this.#seen = this.#sign();
    const inside = h('div', {});
    if (this.tab !== 'Conversation') put(panel, inside);
    try {
      await {
        Overview: () =>
          small.overview(inside, id, { go: this.go, show: (tab) => this.open(tab), timeline: this.#newTimeline() }),
        Conversation: () => this.conversation.load(panel, id),
        Tools: () => small.tools(inside, id),
        Timeline: () => this.timeline.load(inside, id),
        Cost: () => this.cost.load(inside, id),
        Issues: () => small.issues(inside, id, { forest: this.forest, go: this.go }),
        Info: () => small.info(inside, id),
      }[this.tab]();
    } catch (error) {
      put(panel, h('p', { class: 'soft text' }, `Nothing can be shown: ${error.message}`));
    }
    this.#took = performance.now() - begin;
  }

  /** What has to change before the open tab is read again. */
  #sign() {
    const row = this.forest.get(this.#id)?.row;
    return row ? `${row.messages} ${row.lastEventAt} ${row.word} ${row.totalTokens}` : '';
  }

  /** Once a second: read again what has moved on; what takes long to read, seldom; never under a hand that is at work in it. */
  async tick() {
    if (this.#id === null || this.#sign() === this.#seen) return;
    if (Date.now() - this.#loadedAt < Math.max(REFRESH_MS, REST * this.#took)) return;
    if (this.tab === 'Conversation') {
      this.#loadedAt = Date.now();
      this.#seen = this.#sign();
      await this.conversation.refresh().catch(() => {});
    } else if (this.tab !== 'Info' && !this.panel.contains(document.activeElement)) await this.#replace();
  }

  /** Draw anew beside what is seen, then put it in its place: nothing flickers, and the scroll stays. */
  async #replace() {
    const old = this.panel;
    const fresh = this.#newPanel();
    attr(fresh, 'id', null);
    place(fresh, {
      visibility: 'hidden',
      position: 'absolute',
      width: `${old.clientWidth}px`,
      height: `${old.clientHeight}px`,
    });
    old.after(fresh);
    await this.#load(fresh);
    if (this.panel !== old) {
      fresh.remove();
      return;
    }
    const top = old.scrollTop;
    old.remove();
    this.panel = fresh;
    attr(fresh, 'id', 'panel');
    for (const property of ASIDE) fresh.style.removeProperty(property);
    fresh.scrollTop = top;
  }

  /** The keyboard goes to the open tab. */
  focus() {
    this.tabs[TABS.indexOf(this.tab)].focus();
  }

  issues(count) {
    say(this.tabs[TABS.indexOf('Issues')], count ? `Issues ${count}` : 'Issues');
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    this.open(TABS[(TABS.indexOf(this.tab) + step + TABS.length) % TABS.length]);
    this.focus();
  }
}
