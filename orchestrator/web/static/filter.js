// What is looked for: the chips of orchestrator/views/chips.py and the language of query.py; a test compares them.

import { context, doing, secondsSince } from './doing.js';

const COSTLY_SHARE = 0.05;
const NOT_ENDED = new Set(['idle', 'needs input', 'unknown', 'damaged']);
const TERM = /^(status|model|depth|cost|tokens|ctx|quiet|name|tool)(:|>=|<=|>|<|=)(.*)$/i;
const NUMBER = /^\$?(\d+(?:\.\d+)?)(k|m|s|h|d|%)?$/i;
const UNITS = { tokens: { k: 1e3, m: 1e6 }, quiet: { s: 1, m: 60, h: 3600, d: 86400 }, ctx: { '%': 1 } };

const COMPARE = {
  '>': (found, wanted) => found > wanted,
  '<': (found, wanted) => found < wanted,
  '>=': (found, wanted) => found >= wanted,
  '<=': (found, wanted) => found <= wanted,
  '=': (found, wanted) => found === wanted,
  ':': (found, wanted) => found === wanted,
};

/** Field → its figure of a row, or null. */
const NUMBERS = {
  depth: (row) => row.depth,
  cost: (row) => row.totalUsd,
  tokens: (row) => row.totalTokens,
  ctx: (row) => (row.contextWindow && row.contextTokens !== null ? Number.parseInt(context(row).text, 10) : null),
  quiet: (row, state, now) => (state.isWorking ? secondsSince(row.lastEventAt, now) : null),
};
const EXAMPLES = { depth: 'depth:2', cost: 'cost>0.5', tokens: 'tokens>100k', ctx: 'ctx>80', quiet: 'quiet>2m' };

/** Chip → whether a row belongs to it. `treeUsd`: what its whole tree has cost. */
export const CHIPS = {
  running: (row, state) => state.isWorking && row.word !== 'waiting',
  waiting: (row) => row.word === 'waiting',
  issues: (row, state) => state.isIssue,
  ended: (row, state) => !state.isWorking && !NOT_ENDED.has(row.word),
  costly: (row, state, now, treeUsd) => row.ownUsd > 0 && row.ownUsd >= COSTLY_SHARE * treeUsd,
};

/**
 * {test, problem}: `test` of (row, state, now, treeUsd), null where nothing is asked for; all terms must hold. `problem`:
 * what of the text is no term; such a text asks for nothing.
 */
export function filter(text, chip) {
  const terms = text.split(/\s+/).filter(Boolean).map(term);
  const problem = terms.find((each) => typeof each === 'string') ?? '';
  const tests = problem ? [] : terms;
  if (chip) tests.push(CHIPS[chip]);
  return { test: tests.length ? (...given) => tests.every((test) => test(...given)) : null, problem };
}

function term(word) {
  const match = TERM.exec(word);
  if (!match) return anywhere(word.toLowerCase());
  const [, name, sign, value] = [match[0], match[1].toLowerCase(), match[2], match[3]];
  if (name in NUMBERS) return compared(name, sign, value, word);
  if ((sign !== ':' && sign !== '=') || !value) return `expected ${name}:word, found ${word.slice(0, 40)}`;
  return FIELDS[name](value.toLowerCase());
}

function compared(name, sign, value, word) {
  const match = NUMBER.exec(value);
  const unit = (match?.[2] ?? '').toLowerCase();
  const factor = unit ? UNITS[name]?.[unit] : 1;
  if (!match || factor === undefined) return `expected a number in ${word.slice(0, 40)}, such as ${EXAMPLES[name]}`;
  const wanted = Number(match[1]) * factor;
  return (row, state, now) => {
    const found = NUMBERS[name](row, state, now);
    return found !== null && found !== undefined && COMPARE[sign](found, wanted);
  };
}

const FIELDS = {
  status: (wanted) => (row) => row.word.replaceAll(' ', '_').startsWith(wanted.replaceAll('-', '_')),
  model: (wanted) => (row) => (row.model ?? '').toLowerCase().includes(wanted),
  name: (wanted) => (row) => row.name.toLowerCase().includes(wanted),
  tool: (wanted) => (row) => row.activity?.kind === 'tool' && row.activity.label.toLowerCase().startsWith(wanted),
};

const anywhere = (wanted) => (row, state, now) =>
  `${row.name} ${row.word} ${row.model ?? ''} ${row.id} ${said(row, state, now)}`.toLowerCase().includes(wanted);

const said = (row, state, now) =>
  state.isWorking && row.queued ? `[${row.queued}q] ${doing(row, now)}` : doing(row, now);
