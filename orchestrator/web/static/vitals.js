// The line of totals: chips with counts, what has been spent and how fast.

import { attr, h, place, put, say } from './dom.js';
import { CHIPS } from './filter.js';
import { duration, money, tokens } from './format.js';
import { detail } from './server.js';

const MINUTE_MS = 60_000;
const LABELS = {
  running: ['●', '--run'],
  waiting: ['◌', '--wait'],
  issues: ['!', '--fail'],
  ended: ['✓', '--done'],
  costly: ['$', '--ink'],
};

export class Vitals {
  #samples = [];
  #budgets = new Map();

  /** `pick(chip)`: somebody wants to see only those, or all again. */
  constructor(box, pick) {
    this.chips = {};
    for (const [chip, [glyph, token]] of Object.entries(LABELS)) {
      const count = h('b', { css: { color: `var(${token})` } }, '0');
      const button = h(
        'button',
        { class: 'chip', 'aria-pressed': 'false', on: { click: () => pick(chip) } },
        count,
        ` ${glyph} ${chip}`,
      );
      this.chips[chip] = { button, count };
    }
    this.spent = h('span', { class: 'spent' });
    this.noPrice = h('span', { class: 'soft' });
    this.used = h('i', {});
    this.meter = h(
      'div',
      { class: 'meter', role: 'meter', 'aria-label': 'Budget', 'aria-valuemin': 0, hidden: true },
      this.used,
    );
    this.facts = h('dl', { class: 'facts' });
    put(
      box,
      h(
        'div',
        { class: 'chips', role: 'group', 'aria-label': 'Filters' },
        Object.values(this.chips).map((chip) => chip.button),
      ),
      h('div', { class: 'money' }, h('div', { class: 'line' }, this.spent, this.noPrice), this.meter),
      this.facts,
    );
  }

  pressed(chip) {
    for (const [name, { button }] of Object.entries(this.chips)) attr(button, 'aria-pressed', name === chip);
  }

  /** `roots`: the trees in view; `root`: the one that the selection is in. */
  show(forest, roots, root, now) {
    const counts = Object.fromEntries(Object.keys(CHIPS).map((chip) => [chip, 0]));
    for (const top of roots) {
      for (const { row } of forest.below(top)) {
        const state = forest.state(row);
        for (const [chip, test] of Object.entries(CHIPS))
          if (test(row, state, now, top.row.totalUsd ?? 0)) counts[chip] += 1;
      }
    }
    for (const [chip, count] of Object.entries(counts)) say(this.chips[chip].count, String(count));
    if (root) this.#tree(forest, root.row, now);
  }

  #tree(forest, row, now) {
    const budget = this.#budget(row.id);
    const of = budget === null ? ' spent' : ` spent of ${money(budget)} budget`;
    put(this.spent, h('b', {}, money(row.totalUsd, row.totalIsPart)), of);
    this.meter.hidden = budget === null;
    if (budget !== null) {
      place(this.used, { width: `${Math.min(100, (100 * (row.totalUsd ?? 0)) / budget)}%` });
      attr(this.meter, 'aria-valuemax', budget);
      attr(this.meter, 'aria-valuenow', row.totalUsd ?? 0);
    }
    say(this.noPrice, noPrice(row, forest));
    const facts = {
      'per minute': money(this.#perMinute(row, now)),
      tokens: tokens(row.totalTokens),
      [row.descendants ? 'agents' : 'agent']: String(row.descendants + 1),
      elapsed: duration(forest.elapsed(row, now)),
    };
    put(
      this.facts,
      Object.entries(facts).map(([label, text]) => h('div', {}, h('dd', {}, text), h('dt', {}, label))),
    );
  }

  /** Dollars that a tree may spend, or null: asked for once. */
  #budget(id) {
    if (!this.#budgets.has(id)) {
      this.#budgets.set(id, null);
      detail('info', id).then(
        ({ maxCost }) => this.#budgets.set(id, maxCost || null),
        () => {},
      );
    }
    return this.#budgets.get(id);
  }

  /** Dollars spent in the last minute, as far as this page has seen it. */
  #perMinute(row, now) {
    const samples = this.#samples;
    if (samples.length && samples[0].root !== row.id) samples.length = 0;
    if (!samples.length || now - samples.at(-1).at >= 1000)
      samples.push({ root: row.id, at: now, usd: row.totalUsd ?? 0 });
    while (samples.length > 1 && now - samples[0].at > MINUTE_MS) samples.shift();
    const span = now - samples[0].at;
    return span < 1000 ? 0 : ((row.totalUsd ?? 0) - samples[0].usd) * (MINUTE_MS / Math.max(span, MINUTE_MS));
  }
}

/** `no price for local/qwen (58k tokens), so ≥ is a lower bound`; the tokens where they can be told apart from priced ones. */
function noPrice(row, forest) {
  if (!row.totalIsPart) return '';
  const node = forest.get(row.id);
  return row.unpriced
    .map((model) => {
      let count = 0;
      if (node) {
        for (const each of forest.below(node)) {
          const isAlone = each.row.ownIsPart && !each.row.ownUsd && each.row.model === model;
          if (isAlone) count += each.row.ownTokens ?? 0;
        }
      }
      return `no price for ${model}${count ? ` (${tokens(count)} tokens)` : ''}, so ≥ is a lower bound`;
    })
    .join(' · ');
}
