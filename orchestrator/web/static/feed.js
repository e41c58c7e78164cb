// The event feed: newest at the bottom, by type and scope, with a pause that holds the view and counts.

import { attr, h, put, say } from './dom.js';
import { duration, timeOfDay } from './format.js';
import { Windowed } from './windowed.js';

export const TYPES = ['turns', 'tools', 'children', 'messages', 'money', 'trouble'];
const KEPT = 5_000;
const LINE_PX = 22;

export class Feed {
  types = new Set(TYPES.filter((type) => type !== 'messages'));
  scope = 'tree';
  isPaused = false;
  #lines = [];
  #shown = [];
  #held = [];
  #heldCount = 0;
  #key = 0;
  #cursor = null;

  /** `go(id)`: a row leads to its agent. `inScope(id)`: whether a session belongs to what is selected. */
  constructor(box, forest, { go, inScope }) {
    Object.assign(this, { box, forest, go, inScope });
    this.buttons = TYPES.map((type) => h('button', { class: 'pillbox', on: { click: () => this.toggle(type) } }, type));
    this.scopeButton = h('button', { class: 'plain', on: { click: () => this.switchScope() } });
    this.pauseButton = h('button', { class: 'button', on: { click: () => this.pause() } });
    this.view = h('div', { class: 'view', role: 'listbox', 'aria-label': 'Event feed', tabindex: 0 });
    this.empty = h('div', { class: 'empty' }, 'No events of these types yet.');
    put(
      box,
      h(
        'div',
        { class: 'feedhead' },
        h('h2', {}, 'Events'),
        this.buttons,
        h('span', { class: 'grow' }),
        this.scopeButton,
        this.pauseButton,
      ),
      this.view,
      this.empty,
    );
    this.rows = new Windowed(
      this.view,
      LINE_PX,
      () => make(),
      (element, line) => this.#fill(element, line),
    );
    this.view.addEventListener('scroll', () => this.rows.paint(), { passive: true });
    this.view.addEventListener('click', (event) => {
      const id = event.target.closest('.event')?.dataset.session;
      if (id) this.go(id);
    });
    new ResizeObserver(() => this.rows.paint()).observe(this.view);
    this.#head();
    this.#layout();
  }

  /** Lines as they come: of events, of gaps, of hosts that ended. */
  add(lines) {
    const keyed = lines.map((line) => ({ ...line, key: ++this.#key }));
    if (this.isPaused) {
      this.#held = [...this.#held, ...keyed].slice(-KEPT);
      this.#heldCount += keyed.length;
      this.#head();
    } else this.#append(keyed);
  }

  gap(missed, why, lostForMs) {
    const count = missed === null ? 'events' : `${missed} events`;
    const text =
      why === 'slow'
        ? `↯ gap: ${count} missed because this view was slow. Rows were refreshed from a snapshot.`
        : `↯ gap: ${count} missed while disconnected (${duration(lostForMs)}). Rows were refreshed from a snapshot.`;
    this.add([{ gap: text }]);
  }

  #append(lines) {
    this.#lines.push(...lines);
    this.#shown.push(...lines.filter((line) => this.#isShown(line)));
    const dropped = this.#lines.splice(0, Math.max(0, this.#lines.length - KEPT)).at(-1);
    if (dropped) this.#shown.splice(0, this.#shown.findLastIndex((line) => line.key <= dropped.key) + 1);
    this.isDirty = true;
  }

  #isShown(line) {
    if (!line.line) return true;
    return this.types.has(line.line.type) && (this.scope === 'tree' || this.inScope(line.session));
  }

  toggle(type) {
    if (!this.types.delete(type)) this.types.add(type);
    this.refilter();
  }

  switchScope() {
    this.scope = this.scope === 'tree' ? 'selected' : 'tree';
    this.refilter();
  }

  /** Types, scope or selection changed. */
  refilter() {
    this.#shown = this.#lines.filter((line) => this.#isShown(line));
    this.#head();
    this.#layout();
  }

  pause() {
    this.isPaused = !this.isPaused;
    this.#heldCount = 0;
    if (!this.isPaused) this.#append(this.#held.splice(0));
    this.#head();
    this.#layout();
  }

  /** The line that the keyboard is at: one up or down. */
  move(by) {
    const at = this.#shown.findIndex((line) => line.key === this.#cursor);
    const next = at < 0 ? this.#shown.length - 1 : Math.max(0, Math.min(this.#shown.length - 1, at + by));
    if (next < 0) return;
    this.#cursor = this.#shown[next].key;
    this.rows.reveal(next);
    this.rows.paint();
    attr(this.view, 'aria-activedescendant', `event-${this.#cursor}`);
  }

  /** To the agent of that line. */
  enter() {
    const line = this.#shown.find((each) => each.key === this.#cursor);
    if (line?.session) this.go(line.session);
  }

  /** Once a frame. */
  paint() {
    if (!this.isDirty) return;
    this.isDirty = false;
    this.#layout();
  }

  #layout() {
    const wasAtEnd = this.rows.isAtEnd;
    this.rows.set(this.#shown);
    this.empty.hidden = this.#shown.length > 0;
    if (wasAtEnd && !this.isPaused) this.rows.scrollTo(this.#shown.length * LINE_PX);
    this.rows.paint();
  }

  #head() {
    TYPES.forEach((type, at) => attr(this.buttons[at], 'aria-pressed', this.types.has(type)));
    say(this.scopeButton, this.scope === 'tree' ? 'whole tree' : 'selected');
    say(this.pauseButton, this.isPaused ? `▶ Resume · paused · ${this.#heldCount} new` : '❚❚ Pause');
    attr(this.pauseButton, 'aria-pressed', this.isPaused);
  }

  #fill(element, line) {
    element.dataset.session = line.session ?? '';
    element.id = `event-${line.key}`;
    attr(element, 'aria-selected', line.key === this.#cursor);
    const notice = line.gap ?? (line.missed ? slow(line.missed) : line.ended ? ended(line.ended, this.forest) : '');
    element.classList.toggle('notice', notice !== '');
    const [time, seq, agent, glyph, kind, text] = element.parts;
    say(text, notice || line.line.text);
    if (notice) {
      for (const part of [time, seq, agent, glyph, kind]) say(part, '');
      return;
    }
    say(time, timeOfDay(line.at * 1000));
    say(seq, String(line.seq));
    say(agent, this.forest.get(line.session)?.row.name ?? line.session.slice(-8));
    const state = this.forest.state({ word: line.line.word });
    say(glyph, state.glyph);
    say(kind, line.line.kind);
    for (const part of [glyph, kind]) part.style.color = `var(${state.token})`;
  }
}

const slow = (missed) =>
  `↯ gap: ${missed} events missed because this view was slow. Rows were refreshed from a snapshot.`;

/** `The host (pid 5210) ended at 14:13. 9 agents are lost. They can be continued: sapwood run -r port-billing` */
export function ended(host, forest) {
  const roots = host.rootIds.map((id) => forest.get(id)).filter(Boolean);
  const lost = roots.flatMap((root) => [...forest.below(root)]).filter((node) => node.row.word === 'lost').length;
  const head = `The host (pid ${host.pid}) ended at ${timeOfDay(host.at * 1000, false)}.`;
  if (!lost) return head;
  const are = lost === 1 ? '1 agent is lost. It' : `${lost} agents are lost. They`;
  return `${head} ${are} can be continued: sapwood run -r ${roots[0].row.name}`;
}

function make() {
  const parts = ['mono soft', 'mono soft num', 'ell text', 'glyph', 'ell text', 'ell text'].map((name) =>
    h('span', { class: name }),
  );
  const element = h('div', { class: 'event', role: 'option' }, parts);
  element.parts = parts;
  return element;
}
