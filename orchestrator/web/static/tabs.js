// The small tabs: tools, issues, info, and the overview that has a bit of each.

import { h, put } from './dom.js';
import { timeOfDay, tokens, took } from './format.js';
import { entry } from './conversation.js';
import { drawIcicle } from './icicle.js';
import { detail } from './server.js';

const LATEST = 4;
const LANES = 10;

export async function tools(box, id) {
  const calls = await detail('tools', id);
  let isByDuration = false;
  const draw = () => {
    const shown = isByDuration
      ? calls.toSorted((a, b) => (b.durationMs ?? Infinity) - (a.durationMs ?? Infinity))
      : calls;
    const flip = () => {
      isByDuration = !isByDuration;
      draw();
    };
    const sort = h('button', { class: 'link', on: { click: flip } }, 'Took');
    const heads = ['Tool', 'First argument', 'State', sort, 'Output', 'Spill file', 'At'];
    const cells = (call) => [
      h('b', { class: 'mono text' }, call.name),
      h('span', { class: 'mono text' }, call.argument),
      { ok: '✓ ok', failed: '✗ failed', open: '● running' }[call.state],
      took(call.durationMs),
      call.state === 'open' ? '–' : `${tokens(call.outputChars)} chars`,
      h('span', { class: 'text' }, call.spill ?? ''),
      timeOfDay(call.startMs),
    ];
    put(
      box,
      calls.length
        ? h(
            'table',
            {},
            h(
              'thead',
              {},
              h(
                'tr',
                {},
                heads.map((head, at) =>
                  h('th', { scope: 'col', 'aria-sort': at === 3 && isByDuration ? 'descending' : null }, head),
                ),
              ),
            ),
            h(
              'tbody',
              {},
              shown.map((call) =>
                h(
                  'tr',
                  { class: `t-${call.state}` },
                  cells(call).map((cell) => h('td', {}, cell)),
                ),
              ),
            ),
          )
        : h('p', { class: 'soft' }, 'No tool has been called.'),
    );
  };
  draw();
}

export async function issues(box, id, { forest, go }) {
  const found = await detail('issues', id);
  const item = (issue) => {
    const state = forest.state({ word: issue.word });
    return h(
      'article',
      { class: 'issue' },
      h(
        'div',
        { class: 'sectionhead' },
        h(
          'span',
          { class: 'state', css: { color: `var(${state.token})` } },
          h('span', { class: 'glyph', 'aria-hidden': 'true' }, state.glyph),
          h('b', {}, issue.word),
        ),
        h('button', { class: 'link text', on: { click: () => go(issue.sessionId) } }, issue.name),
        h(
          'span',
          { class: 'soft' },
          [issue.stopReason ? `stop reason ${issue.stopReason}` : '', issue.tries ? `${issue.tries} tries` : '']
            .filter(Boolean)
            .join(' · '),
        ),
      ),
      h('pre', { class: 'text' }, issue.text),
    );
  };
  put(box, found.length ? found.map(item) : h('p', { class: 'soft' }, 'No issues here or below.'));
}

export async function info(box, id) {
  const found = await detail('info', id);
  put(
    box,
    h(
      'dl',
      { class: 'info' },
      found.facts.map(([label, text]) => h('div', {}, h('dt', {}, label), h('dd', { class: 'text' }, text))),
    ),
    h('h2', {}, 'Prompt'),
    h('pre', { class: 'text' }, found.prompt || 'none'),
  );
}

/** Cost, timeline and the last words on one screen. */
export async function overview(box, id, { go, show, timeline }) {
  const [costs, page] = await Promise.all([detail('cost', id), detail('conversation', id)]);
  const chart = h('div', { class: 'icicle', role: 'tree', 'aria-label': 'Cost by subtree' });
  const lanes = h('div', {});
  const head = (text, tab) =>
    h(
      'div',
      { class: 'sectionhead' },
      h('h2', {}, h('button', { class: 'link', on: { click: () => show(tab) } }, text)),
    );
  put(
    box,
    head('Where the money went', 'Cost'),
    chart,
    head('Timeline', 'Timeline'),
    lanes,
    head('Latest', 'Conversation'),
    page.entries.slice(-LATEST).map(entry),
  );
  drawIcicle(chart, costs.nodes, { enter: (node) => go(node.sessionId), levels: 3 });
  await timeline.load(lanes, id, LANES);
}
