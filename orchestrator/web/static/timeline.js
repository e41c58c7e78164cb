// The tab Timeline: a lane per agent on one clock. Lanes cannot overlap, so neither can what siblings did.

import { h, put } from './dom.js';
import { duration, took } from './format.js';
import { detail } from './server.js';

const STEPS_MS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].map((s) => s * 1000);
const LABEL_PX = 116;
const MOST_TICKS = 7;

/** Where a moment lies, in pixels of a lane `width` wide. */
const scaleOf = (lanes, now, width) => {
  const begin = Math.min(...lanes.map((lane) => lane.beginMs));
  const end = Math.max(
    ...lanes.map((lane) => lane.endMs ?? now),
    begin + 1000,
    ...lanes.flatMap((lane) => lane.bars.map((bar) => bar.endMs)),
  );
  const perMs = (width - 18) / (end - begin);
  return { begin, end, x: (ms) => (ms - begin) * perMs, width: (ms) => ms * perMs };
};

export class Timeline {
  #open = new Set();
  isChainShown = false;

  constructor({ go, forest, clock }) {
    Object.assign(this, { go, forest, clock });
  }

  async load(box, id, most = Infinity) {
    Object.assign(this, { box, most });
    const found = await detail('timeline', id);
    if (this.box !== box) return;
    this.found = found;
    this.draw();
  }

  showChain() {
    this.isChainShown = !this.isChainShown;
    if (this.found) this.draw();
  }

  draw() {
    const lanes = this.found.lanes.slice(0, this.most);
    const left = this.found.lanes.length - lanes.length + this.found.leftOut;
    const scale = scaleOf(lanes, this.clock.now(), Math.max(120, (this.box.clientWidth || 468) - LABEL_PX));
    const chain = this.isChainShown ? chainOf(this.found.lanes) : new Set();
    put(
      this.box,
      h(
        'div',
        { class: 'legend', 'aria-hidden': 'true' },
        ['model', 'tool', 'retry', 'compaction', 'waiting'].map((kind) =>
          h('span', {}, h('i', { class: `b-${kind}` }), kind),
        ),
      ),
      h(
        'div',
        { class: 'lanes', role: 'list', 'aria-label': 'Timeline' },
        lanes.map((lane) => this.#lane(lane, scale, chain)),
        this.#axis(scale),
      ),
      left ? h('p', { class: 'soft' }, `${left} more lanes are not shown.`) : null,
    );
  }

  #lane(lane, scale, chain) {
    const state = this.forest.state({ word: lane.word });
    const isOpen = this.#open.has(lane.sessionId);
    const flip = () => {
      if (!this.#open.delete(lane.sessionId)) this.#open.add(lane.sessionId);
      this.draw();
    };
    const bars = lane.bars.map((bar) => barOf(bar, scale));
    const spawns = lane.spawns.map((spawn) =>
      h('i', {
        class: 'spawn',
        title: `starts ${this.forest.get(spawn.child)?.row.name ?? 'a child'}`,
        css: { left: `${scale.x(spawn.atMs)}px` },
      }),
    );
    const end =
      lane.endMs === null
        ? null
        : h(
            'i',
            { class: 'end', title: lane.word, css: { left: `${scale.x(lane.endMs)}px`, color: `var(${state.token})` } },
            state.glyph,
          );
    const label = h(
      'button',
      { class: 'lanelabel', 'aria-expanded': isOpen, on: { click: flip, dblclick: () => this.go(lane.sessionId) } },
      h('span', { class: 'glyph', css: { color: `var(${state.token})` }, 'aria-hidden': 'true' }, state.glyph),
      h('span', { class: 'ell text' }, lane.name),
    );
    const said = `${lane.name}: ${lane.word}, ${duration((lane.endMs ?? this.clock.now()) - lane.beginMs)}`;
    return h(
      'div',
      {
        class: `lane${chain.has(lane.sessionId) ? ' chain' : ''}`,
        role: 'listitem',
        'aria-label': said,
        'data-session': lane.sessionId,
      },
      label,
      h('div', { class: 'track' }, bars, spawns, end),
      isOpen ? lane.bars.filter((bar) => bar.kind !== 'waiting').map((bar) => this.#step(bar, scale)) : null,
    );
  }

  #step(bar, scale) {
    return [
      h('span', { class: 'steplabel ell text' }, `${bar.label || bar.kind} · ${took(bar.endMs - bar.startMs)}`),
      h('div', { class: 'track' }, barOf(bar, scale)),
    ];
  }

  #axis(scale) {
    const span = scale.end - scale.begin;
    const step = STEPS_MS.find((ms) => span / ms <= MOST_TICKS) ?? span;
    const ticks = [];
    for (let at = 0; at <= span; at += step)
      ticks.push(h('span', { css: { left: `${scale.width(at)}px` } }, duration(at)));
    return h('div', { class: 'lane', 'aria-hidden': 'true' }, h('span', {}), h('div', { class: 'axis' }, ticks));
  }
}

function barOf(bar, scale) {
  const width = scale.width(bar.endMs - bar.startMs);
  const waited =
    bar.firstMs === null || bar.firstMs === undefined
      ? bar.isOpen
        ? 100
        : 0
      : (100 * (bar.firstMs - bar.startMs)) / (bar.endMs - bar.startMs || 1);
  return h('i', {
    class: `span b-${bar.kind}${bar.isOpen ? ' open' : ''}`,
    title: `${bar.label || bar.kind} · ${took(bar.endMs - bar.startMs)}`,
    'data-ms': bar.endMs - bar.startMs,
    css: { left: `${scale.x(bar.startMs)}px`, width: `${width}px`, '--waited': `${waited}%` },
  });
}

/** The chain that decided the end: from the top, always the child that was the last to end. */
function chainOf(lanes) {
  const kids = new Map();
  for (const lane of lanes) kids.set(lane.parent, [...(kids.get(lane.parent) ?? []), lane]);
  const chain = new Set();
  for (let lane = lanes[0]; lane;) {
    chain.add(lane.sessionId);
    const below = kids.get(lane.sessionId) ?? [];
    lane = below.reduce(
      (last, each) => ((each.endMs ?? Infinity) > (last?.endMs ?? (last ? Infinity : -1)) ? each : last),
      null,
    );
  }
  return chain;
}
