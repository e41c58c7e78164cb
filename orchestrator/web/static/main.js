// Wires the parts of the page together: one forest, one selection, one frame at a time.

import { Actions } from './actions.js';
import { Banners } from './banners.js';
import { Clock } from './clock.js';
import { commands } from './commands.js';
import { Detail } from './detail.js';
import { showKeys } from './dialogs.js';
import { h, say } from './dom.js';
import { noHit, nothing } from './empty.js';
import { Feed, TYPES } from './feed.js';
import { CHIPS, filter } from './filter.js';
import { Folds } from './folds.js';
import { counted } from './format.js';
import { Forest } from './forest.js';
import { Grid } from './grid.js';
import { KEYS, listen } from './keys.js';
import { isShown, lines } from './lines.js';
import { remember, remembered } from './memory.js';
import { Mirror } from './mirror.js';
import { Order } from './order.js';
import { Selection } from './selection.js';
import { enter, post } from './server.js';
import { Voice } from './speak.js';
import { Stream } from './stream.js';
import { Bar, TopBar } from './topbar.js';
import { Vitals } from './vitals.js';

const LOADING_TOLD_MS = 2_000;

const $ = (id) => document.getElementById(id);
const clock = new Clock();
const forest = new Forest();
const mirror = new Mirror(forest);
const folds = new Folds();
const order = new Order();
const voice = new Voice($('spoken'));
const now = () => clock.now();

let connection = { is: 'new' };
let chip = '';
let showsEnded = false;
let isWide = remembered('columns', '') === 'wide';
let openSession = null;
let issuesTold = new Set();
let heard = 0;
let isDirty = true;

const isOff = () => connection.is !== 'live';
const actions = new Actions(forest, $('toasts'), voice, { changed: () => touch(), isOff });
const top = new TopBar($('top'), { filter: () => layout(), keys: () => showKeys(KEYS) });
const vitals = new Vitals($('vitals'), (name) => pickChip(name));
const bar = new Bar($('bar'), {
  order: (by) => sortBy(by ?? order.by),
  fold: (depth) => foldTo(depth),
  columns: () => flipColumns(),
  ended: () => flipEnded(),
});
const grid = new Grid($('grid'), forest, clock, (id) => actions.pending(id), {
  pick: (key) => selection.select(key, { focus: true }),
  toggle: (key) => selection.toggle(key),
  order: (by) => sortBy(by),
});
const selection = new Selection({ grid, forest, folds, order }, { layout: () => layout(), settled });
const feed = new Feed($('feed'), forest, { go, inScope });
const banners = new Banners($('banners'), forest, () => stream.connect());
const detail = new Detail($('detail'), {
  forest,
  clock,
  actions,
  isOff,
  on: { go, opened, close: () => closeSheet() },
});
const stream = new Stream(told, connectionChanged);

// --- what the stream tells --------------------------------------------------------------------------------------------

function told(event, data) {
  ({ hello, rows: (rows) => mirror.rows(rows), patch, feed: feedCame, gap, bye: () => {} })[event]?.(data);
  touch();
}

function hello(data) {
  mirror.hello(data);
  clock.set(data.now);
  detail.isReadOnly = data.readOnly;
  look();
}

function patch(data) {
  mirror.patch(data);
  if (data.written) detail.pane.conversation.written(data.written);
  for (const [id, members] of Object.entries(data.rows ?? {})) if (members.word) tellIssue(id, members.word);
}

function feedCame({ lines: came }) {
  feed.add(came);
  heard += came.length;
  for (const line of came) if (line.ended) banners.hostEnded(line.ended);
}

function gap({ missed, why }) {
  feed.gap(missed, why, connection.lostFor ?? 0);
}

function tellIssue(id, word) {
  const isIssue = forest.state({ word }).isIssue;
  if (isIssue && mirror.isLoaded && !issuesTold.has(id)) voice.say(`${forest.get(id).row.name}: ${word}`);
  if (isIssue) issuesTold.add(id);
  else issuesTold.delete(id);
}

function connectionChanged(state) {
  connection = state;
  if (state.is === 'lost') clock.freeze();
  if (state.is === 'lost' && !mirror.isLoaded) grid.instead(h('span', { class: 'text' }, state.why));
  document.body.classList.toggle('lost', state.is === 'lost');
  top.connection(state);
  banners.connection(state, Date.now());
  touch();
}

/** Tell the server what is looked at: deltas come for the open conversation only, and slowly to a hidden page. */
function look() {
  if (mirror.reader && !isOff())
    post('/api/look', { reader: mirror.reader, openSession, isHidden: document.hidden }).catch(() => {});
}

function opened(id) {
  if (id === openSession) return;
  openSession = id;
  look();
}

// --- what is seen -----------------------------------------------------------------------------------------------------

function touch() {
  if (isDirty) return;
  isDirty = true;
  requestAnimationFrame(frame);
}

function frame() {
  isDirty = false;
  if (forest.isShapeNew) {
    forest.isShapeNew = false;
    layout();
    banners.show();
  } else grid.paint();
  feed.paint();
  detail.paint();
}

function layout() {
  const { test, problem } = filter(top.input.value, chip);
  top.problem(problem);
  const found = lines({ forest, order, folds, test, showsEnded, now: now() });
  grid.set(found.items);
  const node = selection.node;
  if (grid.selected && !grid.selected.includes('/') && !node) selection.select(null);
  instead(found, test);
}

function instead(found, test) {
  if (found.items.length) grid.instead(null);
  else if (mirror.isLoaded && test)
    grid.instead(noHit([top.input.value.trim(), chip].filter(Boolean).join(' '), forest.nodes.size));
  else if (mirror.isLoaded) grid.instead(...nothing(endedTrees(), flipEnded));
}

/** Once a second: what counts by itself. */
function tick() {
  banners.connection(connection, Date.now());
  top.connection(connection, heard);
  heard = 0;
  const node = selection.node;
  const roots = forest.roots.filter((root) => isShown(root, forest, showsEnded, now()));
  const root = node ? forest.root(node) : (roots[0] ?? null);
  vitals.show(forest, roots, root, now());
  top.where(roots.length, root);
  bar.order(order.by, order.isStale(forest, now()));
  bar.ended(endedTrees(), showsEnded);
  if (filter(top.input.value, chip).test) layout();
  grid.paint();
  detail.paint();
  detail.tick();
}

// --- what a person does -----------------------------------------------------------------------------------------------

function settled(node) {
  detail.show(node);
  if (feed.scope === 'selected') feed.refilter();
}

function go(id) {
  if (selection.go(id)) document.body.classList.add('sheet');
}

function sortBy(by) {
  order.apply(by, forest, now());
  grid.sorted(by);
  bar.order(by, false);
  layout();
}

function foldTo(depth) {
  folds.to(depth);
  layout();
}

function flipColumns() {
  isWide = !isWide;
  remember('columns', isWide ? 'wide' : '');
  showColumns();
}

function showColumns() {
  grid.columns(isWide);
  grid.sorted(order.by);
  bar.columns(isWide);
}

function pickChip(name) {
  chip = chip === name ? '' : name;
  vitals.pressed(chip);
  layout();
}

function nextChip() {
  const names = ['', ...Object.keys(CHIPS)];
  pickChip(names[(names.indexOf(chip) + 1) % names.length] || chip);
}

function nextOrder() {
  sortBy(order.isStale(forest, now()) ? order.by : order.next());
}

function inScope(id) {
  const node = selection.node;
  for (let each = forest.get(id); each; each = each.parent) if (each === node) return true;
  return false;
}

function endedTrees() {
  return forest.leftOut + forest.roots.filter((root) => !isShown(root, forest, showsEnded, now())).length;
}

function flipEnded() {
  showsEnded = !showsEnded;
  if (showsEnded && forest.leftOut) post('/api/ended', {}).catch((error) => actions.refused(error.message));
  layout();
  tick();
}

function closeSheet() {
  document.body.classList.remove('sheet');
  selection.focus();
}

/** One step back: out of a field, out of the sheet, out of the filter, to the tree. */
function back() {
  if (document.body.classList.contains('sheet') && matchMedia('(max-width: 1180px)').matches) return closeSheet();
  if (!document.activeElement.closest('.detail, .feed') && (top.input.value || chip)) {
    top.input.value = '';
    chip = '';
    vitals.pressed('');
    layout();
  }
  return selection.focus();
}

listen(
  commands({ selection, grid, feed, detail, actions, voice, back, nextChip, nextOrder, find: () => top.input.focus() }),
  (digit, isInFeed) => {
    if (isInFeed && digit >= 1 && digit <= TYPES.length) feed.toggle(TYPES[digit - 1]);
    else if (!isInFeed) foldTo(digit);
  },
);

document.addEventListener('visibilitychange', look);
showColumns();
sortBy('spawned');
grid.instead(Array.from({ length: 12 }, () => h('div', { class: 'skeleton' })));
const slow = setTimeout(() => {
  if (!mirror.isLoaded) say(grid.empty, `Reading ${mirror.expected ? counted(forest.roots.length, 'tree') : 'trees'}…`);
}, LOADING_TOLD_MS);
const loaded = setInterval(() => {
  if (!mirror.isLoaded) return;
  clearTimeout(slow);
  clearInterval(loaded);
  layout();
  tick();
  $('grid').removeAttribute('aria-busy');
}, 50);
isDirty = false;
top.connection(connection);
setInterval(tick, 1000);
enter()
  .catch((error) => actions.refused(error.message))
  .finally(() => stream.connect());
