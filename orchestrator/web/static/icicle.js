// The cost chart: x is money, one level per row; siblings and the own part lie side by side and cannot overlap.

import { h, put } from './dom.js';
import { money, tokens } from './format.js';

const LEVELS = 6;
const ROW_PX = 30;
const MERGE_PX = 14;
const LABEL_PX = 34;
const UNPRICED_PX = 64;
const SHADES = 5;

/** What a node is measured by: `usd`, or `tokens`. */
const MEASURES = {
  usd: {
    own: (node) => node.own?.cost.total ?? 0,
    total: (node) => node.total?.cost.total ?? 0,
    text: (value) => money(value),
  },
  tokens: { own: (node) => sum(node.own), total: (node) => sum(node.total), text: (value) => tokens(value) },
};

export const sum = (usage) => (usage ? usage.input + usage.output + usage.cacheRead + usage.cacheWrite : 0);
const hasUnpriced = (node) => Boolean(node.total?.cost.unpriced?.length);

/** Boxes of the chart: {x, width, level, kind, node, value, count}. `nodes` parents first, the first is the whole. */
function boxes(nodes, width, measure = 'usd') {
  const of = MEASURES[measure];
  const kids = new Map();
  for (const node of nodes.slice(1)) kids.set(node.parent, [...(kids.get(node.parent) ?? []), node]);
  const top = nodes[0];
  const aside = measure === 'usd' && hasUnpriced(top) ? UNPRICED_PX : 0;
  const whole = of.total(top);
  const scale = whole > 0 ? (width - aside) / whole : 0;
  const found = [];
  const stack = [{ node: top, x: 0, level: 0 }];
  while (stack.length) {
    const { node, x, level } = stack.pop();
    const value = of.total(node);
    found.push({ kind: 'node', node, x, width: value * scale, level, value });
    if (level + 1 >= LEVELS) continue;
    let at = x;
    const own = of.own(node);
    const below = (kids.get(node.sessionId) ?? []).slice().sort((a, b) => of.total(b) - of.total(a));
    if (own > 0 && below.length) {
      found.push({ kind: 'own', node, x: at, width: own * scale, level: level + 1, value: own });
      at += own * scale;
    }
    const big = below.filter((kid) => of.total(kid) * scale >= MERGE_PX);
    for (const kid of big) {
      stack.push({ node: kid, x: at, level: level + 1 });
      at += of.total(kid) * scale;
    }
    const small = below.slice(big.length).filter((kid) => of.total(kid) > 0);
    const rest = small.reduce((total, kid) => total + of.total(kid), 0);
    if (rest > 0)
      found.push({
        kind: 'rest',
        node,
        x: at,
        width: rest * scale,
        level: level + 1,
        value: rest,
        count: small.length,
      });
  }
  if (aside) found.push({ kind: 'unpriced', node: top, x: width - aside, width: aside, level: 0, value: 0 });
  return found;
}

/** Draw it. `enter(node)`: a box was chosen. */
export function drawIcicle(box, nodes, { measure = 'usd', enter, levels = LEVELS }) {
  const of = MEASURES[measure];
  const width = box.clientWidth || 468;
  const all = boxes(nodes, width, measure).filter((each) => each.level < levels);
  const highest = Math.max(...nodes.map(of.own), 0);
  const depth = Math.max(0, ...all.map((each) => each.level)) + 1;
  box.style.setProperty('height', `${depth * ROW_PX}px`);
  put(
    box,
    all.filter((each) => each.width >= 1).map((each) => element(each, of, highest, enter)),
  );
  box.onkeydown = (event) => step(box, event);
}

/** Arrow keys go along a level, to what a box is part of, and to its parts. */
function step(box, event) {
  const from = event.target.closest('.box');
  const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const levels = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!from || (!sideways && !levels)) return;
  const [x, level] = [parseFloat(from.style.left), Number(from.ariaLevel)];
  const row = [...box.children]
    .filter((each) => Number(each.ariaLevel) === level + (levels ?? 0))
    .sort((a, b) => parseFloat(a.style.left) - parseFloat(b.style.left));
  const near =
    levels === -1
      ? row.filter((each) => parseFloat(each.style.left) <= x + 0.5).at(-1)
      : row.find((each) => parseFloat(each.style.left) >= x - 0.5);
  const to = sideways ? row[row.indexOf(from) + sideways] : near;
  if (!to) return;
  event.preventDefault();
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

function element(each, of, highest, enter) {
  const { node, kind } = each;
  const name = { node: node.name, own: `${node.name} own`, rest: `+${each.count} smaller`, unpriced: 'price ?' }[kind];
  const models = node.total?.cost.unpriced?.join(', ') ?? '';
  const title = kind === 'unpriced' ? `no price for ${models}: not in the sum` : `${name}: ${of.text(each.value)}`;
  const short = {
    node: `${node.name} ${of.text(each.value)}`,
    own: `own ${of.text(each.value)}`,
    rest: `+${each.count}`,
    unpriced: 'price ?',
  }[kind];
  const part = h(
    'button',
    {
      class: `box ${kind} shade${shade(of.own(node), highest)}`,
      role: 'treeitem',
      'aria-level': each.level + 1,
      'aria-label': title,
      title,
      tabindex: each.level === 0 && kind === 'node' ? 0 : -1,
      'data-session': node.sessionId,
      css: { left: `${each.x}px`, top: `${each.level * ROW_PX}px`, width: `${each.width}px` },
      on: { click: () => enter(node) },
    },
    each.width >= LABEL_PX || kind === 'rest' ? short : '',
  );
  return part;
}

const shade = (own, highest) => (highest > 0 ? Math.min(SHADES - 1, Math.floor((own / highest) * (SHADES - 0.01))) : 0);
