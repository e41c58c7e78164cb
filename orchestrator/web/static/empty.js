// What is said where no row is.

import { h } from './dom.js';

/** Nothing runs. `ended`: trees that are not shown; `show()` shows them. */
export function nothing(ended, show) {
  return [
    h('h2', {}, 'No agents are running.'),
    h('span', {}, 'Start one here or in a terminal; it appears by itself.'),
    h('code', { class: 'mono' }, 'sapwood run "…"    or    sapwood demo'),
    ended ? h('button', { class: 'link', on: { click: show } }, `Ended trees: ${ended} · Show ended`) : null,
  ];
}

/** Nothing meets what was asked for. */
export function noHit(asked, hidden) {
  return h('span', { class: 'text' }, `No agent matches "${asked}". ${hidden} are hidden. Esc clears the filter.`);
}
