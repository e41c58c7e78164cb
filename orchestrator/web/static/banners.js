// What is wrong as a whole: the connection, hosts that ended, journals that are damaged.

import { h, put } from './dom.js';
import { duration } from './format.js';
import { ended } from './feed.js';
import { detail } from './server.js';

const MOST = 3;

export class Banners {
  #hosts = [];
  #dismissed = new Set();
  #entries = new Map();

  constructor(box, forest, tryNow) {
    Object.assign(this, { box, forest, tryNow });
    this.lost = h('span', {});
    this.lostBanner = h(
      'div',
      { class: 'banner', hidden: true },
      this.lost,
      h('button', { class: 'button', on: { click: tryNow } }, 'Try now'),
    );
    this.others = h('div', {});
    put(box, this.lostBanner, this.others);
  }

  /** The connection as the stream tells it; called every second while it is lost, since the text counts. */
  connection(state, now) {
    this.lostBanner.hidden = state.is !== 'lost';
    if (state.is !== 'lost') return;
    if (state.isRefused) {
      this.lost.textContent = `↯ This page is not let in any more: ${state.why}`;
      return;
    }
    const wait = Math.max(0, Math.ceil((state.tryAt - now) / 1000));
    this.lost.textContent =
      `↯ Connection lost ${duration(now - state.since)} ago. Showing the last known state; times are frozen. ` +
      `Trying again in ${wait}s.`;
    this.lostBanner.title = state.why;
  }

  hostEnded(host) {
    this.#hosts.push(host);
    this.show();
  }

  show() {
    const found = [
      ...this.#hosts.map((host) => [`host ${host.pid}`, ended(host, this.forest), '']),
      ...[...this.forest.nodes.values()]
        .filter(({ row }) => row.word === 'damaged')
        .map(({ row }) => [row.id, damaged(row, this.#readable(row.id)), `sapwood sessions check ${row.name}`]),
    ].filter(([key]) => !this.#dismissed.has(key));
    put(
      this.others,
      found.slice(0, MOST).map((each) => this.#banner(...each)),
    );
  }

  /** How many entries of a damaged journal can be read: asked for once, 0 until it is known. */
  #readable(id) {
    if (!this.#entries.has(id)) {
      this.#entries.set(id, 0);
      detail('info', id).then(
        ({ entries }) => {
          this.#entries.set(id, entries);
          this.show();
        },
        () => {},
      );
    }
    return this.#entries.get(id);
  }

  #banner(key, text, command) {
    const close = () => {
      this.#dismissed.add(key);
      this.show();
    };
    return h(
      'div',
      { class: 'banner' },
      h('span', { class: 'text' }, text),
      command ? h('code', { class: 'mono text' }, command) : null,
      h('span', { class: 'grow' }),
      h('button', { class: 'plain', 'aria-label': 'Dismiss', on: { click: close } }, '✕'),
    );
  }
}

/** `! import-0611 is damaged: line 2,114 is not JSON. Opened read-only, nothing was changed. 2,113 entries are readable.` */
function damaged(row, entries) {
  const why = row.activity?.label ? `: ${row.activity.label.replace(/\.$/, '')}` : '';
  const readable = entries ? ` ${entries.toLocaleString('en')} entries are readable.` : '';
  return `! ${row.name} is damaged${why}. Opened read-only, nothing was changed.${readable}`;
}
