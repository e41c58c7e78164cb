// The tab Cost: the chart, and the same figures as a table, with the verdict whether they add up.

import { h, put } from './dom.js';
import { exactMoney, tokens } from './format.js';
import { drawIcicle, sum } from './icicle.js';
import { detail } from './server.js';

const HEADS = ['Agent', 'Origin', 'Calls', 'Input', 'Cached', 'Output', 'Own', 'Total', 'Share'];

export class Cost {
  measure = 'usd';
  #trail = [];

  constructor({ go }) {
    this.go = go;
  }

  async load(box, id) {
    this.box = box;
    const costs = await detail('cost', id);
    if (this.box !== box) return;
    this.costs = costs;
    if (this.#trail[0] !== id) this.#trail = [id];
    this.draw();
  }

  /** Into the part of this session, if it is another one. */
  enter(node) {
    if (node.sessionId === this.#trail.at(-1)) return;
    this.#trail.push(node.sessionId);
    this.draw();
  }

  leave() {
    if (this.#trail.length > 1) this.#trail.pop();
    this.draw();
  }

  draw() {
    const nodes = part(this.costs.nodes, this.#trail.at(-1));
    const chart = h('div', { class: 'icicle', role: 'tree', 'aria-label': 'Cost by subtree' });
    const press = (measure) => () => {
      this.measure = measure;
      this.draw();
    };
    const choice = (measure, label) =>
      h('button', { 'aria-pressed': this.measure === measure, on: { click: press(measure) } }, label);
    put(
      this.box,
      h(
        'div',
        { class: 'sectionhead' },
        h('h2', { class: 'ell text' }, nodes[0].name),
        h('span', { class: 'soft' }, `width = ${this.measure === 'usd' ? 'cost' : 'tokens'}`),
        h('span', { class: 'grow' }),
        this.#trail.length > 1 ? h('button', { class: 'button', on: { click: () => this.leave() } }, '⌫ back') : null,
        h(
          'div',
          { class: 'choice', role: 'group', 'aria-label': 'Measure' },
          choice('usd', 'cost'),
          choice('tokens', 'tokens'),
        ),
      ),
      chart,
      table(nodes, (id) => this.go(id)),
      h('p', { class: this.costs.verified ? 'soft' : 'bad' }, verdict(this.costs)),
    );
    drawIcicle(chart, nodes, { measure: this.measure, enter: (node) => this.enter(node) });
    chart.addEventListener('keydown', (event) => {
      if (event.key === 'Backspace') this.leave();
    });
  }
}

const verdict = (costs) => {
  const sessions = costs.nodes.length === 1 ? '1 session' : `${costs.nodes.length} sessions`;
  return costs.verified
    ? `${sessions}, own sums to total: verified`
    : `${sessions}, own sums to total: NOT verified: run sapwood sessions check`;
};

/** A node and what is below it, parents first. */
export function part(nodes, id) {
  const inside = new Set([id]);
  return nodes.filter((node) => {
    if (inside.has(node.parent)) inside.add(node.sessionId);
    return inside.has(node.sessionId);
  });
}

function table(nodes, go) {
  const whole = nodes[0].total?.cost.total ?? 0;
  const body = nodes.map((node) => {
    const own = node.own;
    const cells = [
      node.origins.map((origin) => origin.replaceAll('_', ' ')).join(', ') || '–',
      node.calls,
      tokens(own?.input),
      tokens(own ? own.cacheRead + own.cacheWrite : null),
      tokens(own?.output),
      exactMoney(own?.cost.total, Boolean(own?.cost.unpriced?.length)),
      exactMoney(node.total?.cost.total, Boolean(node.total?.cost.unpriced?.length)),
      whole > 0 ? `${Math.round((100 * (node.total?.cost.total ?? 0)) / whole)}%` : '–',
    ];
    const name = h('button', { class: 'link text', on: { click: () => go(node.sessionId) } }, node.name);
    const indent = h('span', { class: 'indent', css: { width: `${(node.depth - nodes[0].depth) * 12}px` } });
    return h(
      'tr',
      {
        'data-session': node.sessionId,
        'data-total': node.total?.cost.total ?? 0,
        'data-own': own?.cost.total ?? 0,
        'data-tokens': sum(own),
      },
      h('td', { class: 'first' }, indent, name),
      cells.map((cell, at) => h('td', { class: at ? 'num' : '' }, String(cell))),
    );
  });
  const head = HEADS.map((text, at) => h('th', { scope: 'col', class: at > 1 ? 'num' : '' }, text));
  return h('table', {}, h('thead', {}, h('tr', {}, head)), h('tbody', {}, body));
}
