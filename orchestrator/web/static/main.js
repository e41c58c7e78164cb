// Wires the parts of the page together: one forest, one selection, one frame at a time.

import { Actions } from './actions.js';
import { Banners } from './banners.js';
import { Clock } from './clock.js';
import { Detail } from './detail.js';
import { showKeys } from './dialogs.js';
import { h, say } from './dom.js';
import { Feed, TYPES } from './feed.js';
import { CHIPS, filter } from './filter.js';
import { Folds } from './folds.js';
import { counted } from './format.js';
import { Forest } from './forest.js';
import { Grid } from './grid.js';
import { KEYS, listen } from './keys.js';
import { isShown, lines } from './lines.js';
import { remember, remembered } from './memory.js';
import { Order } from './order.js';
import { enter, post } from './server.js';
import { Voice } from './speak.js';
import { Stream } from './stream.js';
import { Bar, TopBar } from './topbar.js';
import { Vitals } from './vitals.js';

const SELECT_PAUSE_MS = 120;
const LOADING_TOLD_MS = 2_000;

const $ = (id) => document.getElementById(id);
const clock = new Clock();
const forest = new Forest();
const folds = new Folds();
const order = new Order();
const voice = new Voice($('spoken'));
const now = () => clock.now();

let connection = { is: 'new' };
let reader = '';
let chip = '';
let showsEnded = false;
let isWide = remembered('columns', '') === 'wide';
let openSession = null;
let isLoaded = false;
let expected = 0;
let selectTimer = 0;
let issuesTold = new Set();
let isDirty = true;
let snapshot = null;

const isOff = () => connection.is !== 'live';
const actions = new Actions(forest, $('toasts'), voice, { changed: () => touch(), isOff });
const top = new TopBar($('top'), { filter: () => refilter(), keys: () => showKeys(KEYS) });
const vitals = new Vitals($('vitals'), (name) => pickChip(name));
const bar = new Bar($('bar'), { order: (by) => sortBy(by ?? order.by), fold: (depth) => foldTo(depth), columns: () => flipColumns() });
const grid = new Grid($('grid'), forest, clock, (id) => actions.pending(id), { pick: (key) => select(key, { focus: true }), toggle, order: (by) => sortBy(by) });
const feed = new Feed($('feed'), forest, { go, inScope });
const banners = new Banners($('banners'), forest, () => stream.connect());
const detail = new Detail($('detail'), { forest, clock, actions, isOff, on: { go, opened, close: () => closeSheet() } });
const stream = new Stream(told, connectionChanged);

// --- what the stream tells --------------------------------------------------------------------------------------------

function told(event, data) {
  ({ hello, rows: rowsCame, patch, feed: feedCame, gap, bye: () => {} })[event]?.(data);
  touch();
}

function hello(data) {
  reader = data.reader;
  clock.set(data.now);
  forest.setStates(data.states);
  forest.leftOut = data.leftOut;
  detail.isReadOnly = data.readOnly;
  document.body.classList.toggle('readonly', data.readOnly);
  expected = data.rows;
  snapshot = data.resumed ? null : new Set();
  if (!data.rows) settleSnapshot();
  look();
}

function rowsCame({ rows }) {
  forest.take(rows);
  if (!snapshot) return;
  for (const id of Object.keys(rows)) snapshot.add(id);
  if (snapshot.size >= expected) settleSnapshot();
}

function settleSnapshot() {
  if (snapshot) forest.keepOnly(snapshot);
  snapshot = null;
  isLoaded = true;
}

function patch({ rows = {}, gone = [], leftOut, written }) {
  forest.take(rows);
  for (const id of gone) forest.remove(id);
  if (leftOut !== undefined) forest.leftOut = leftOut;
  if (written) detail.conversation.written(written);
  for (const [id, members] of Object.entries(rows)) if (members.word) tellIssue(id, members.word);
}

function feedCame({ lines: came }) {
  feed.add(came);
  for (const line of came) if (line.ended) banners.hostEnded(line.ended);
}

function gap({ missed, why }) {
  feed.gap(missed, why, connection.lostFor ?? 0);
}

function tellIssue(id, word) {
  const isIssue = forest.state({ word }).isIssue;
  if (isIssue && isLoaded && !issuesTold.has(id)) voice.say(`${forest.get(id).row.name}: ${word}`);
  if (isIssue) issuesTold.add(id);
  else issuesTold.delete(id);
}

function connectionChanged(state) {
  connection = state;
  if (state.is === 'lost') clock.freeze();
  document.body.classList.toggle('lost', state.is === 'lost');
  top.connection(state);
  banners.connection(state, Date.now());
  touch();
}

/** Tell the server what is looked at: deltas come for the open conversation only, and slowly to a hidden page. */
function look() {
  if (reader && !isOff()) post('/api/look', { reader, openSession, isHidden: document.hidden }).catch(() => {});
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
  const node = selectedNode();
  if (grid.selected && !grid.selected.includes('/') && !node) select(null);
  instead(found, test);
}

function instead(found, test) {
  if (found.items.length) return grid.instead(null);
  if (!isLoaded) return undefined;
  if (test) {
    const asked = [top.input.value.trim(), chip].filter(Boolean).join(' ');
    return grid.instead(h('span', {}, `No agent matches "${asked}". ${forest.nodes.size} are hidden. Esc clears the filter.`));
  }
  const ended = forest.leftOut + forest.roots.filter((root) => !isShown(root, forest, showsEnded, now())).length;
  return grid.instead(
    h('h2', {}, 'No agents are running.'),
    h('span', {}, 'Start one here or in a terminal; it appears by itself.'),
    h('code', { class: 'mono' }, 'sapwood run "…"    or    sapwood demo'),
    ended ? h('button', { class: 'link', on: { click: showEnded } }, `Ended trees: ${ended} · Show ended`) : null,
  );
}

/** Once a second: what counts by itself. */
function tick() {
  banners.connection(connection, Date.now());
  const node = selectedNode();
  const roots = forest.roots.filter((root) => isShown(root, forest, showsEnded, now()));
  const root = node ? forest.root(node) : (roots[0] ?? null);
  vitals.show(forest, roots, root, now());
  top.where(roots.length, root);
  bar.order(order.by, order.isStale(forest, now()));
  if (filter(top.input.value, chip).test) layout();
  grid.paint();
  detail.paint();
  detail.tick();
}

// --- what a person does -----------------------------------------------------------------------------------------------

function selectedNode() {
  return grid.selected ? forest.get(grid.selected) : null;
}

function select(key, { focus = false } = {}) {
  grid.pick(key, { focus });
  clearTimeout(selectTimer);
  selectTimer = setTimeout(() => {
    detail.show(selectedNode());
    if (feed.scope === 'selected') feed.refilter();
  }, SELECT_PAUSE_MS);
}

/** To an agent, wherever it is folded away. */
function go(id) {
  const node = forest.get(id);
  if (!node) return;
  folds.reveal(node);
  layout();
  select(id, { focus: true });
  document.body.classList.add('sheet');
}

function move(step) {
  const { items } = grid;
  if (!items.length) return;
  const at = grid.index < 0 ? (step > 0 ? 0 : items.length - 1) : Math.max(0, Math.min(items.length - 1, grid.index + step));
  select(items[at].key, { focus: true });
}

function toggle(key, isOpen) {
  const item = grid.items.find((each) => each.key === key);
  if (!item || (item.node && !item.node.kids.length)) return;
  folds.set(key, isOpen ?? !item.isOpen);
  layout();
}

function sideways(isRight) {
  const item = grid.items[grid.index];
  if (!item) return move(1);
  const hasKids = item.group || item.node.kids.length > 0;
  if (isRight) {
    if (hasKids && !item.isOpen) return toggle(item.key, true);
    if (hasKids) return move(1);
  } else {
    if (hasKids && item.isOpen) return toggle(item.key, false);
    const parent = item.group ? item.parent : item.node.parent;
    if (parent) return select(parent.row.id, { focus: true });
  }
  return undefined;
}

function jump(step) {
  const issues = [];
  const stack = order.arranged(forest.roots).slice().reverse();
  while (stack.length) {
    const node = stack.pop();
    if (forest.state(node.row).isIssue || node.row.id === grid.selected) issues.push(node.row.id);
    stack.push(...order.arranged(node.kids).slice().reverse());
  }
  const others = issues.filter((id) => forest.state(forest.get(id).row).isIssue);
  if (!others.length) return;
  const at = issues.indexOf(grid.selected);
  const next = at < 0 ? (step > 0 ? 0 : issues.length - 1) : (at + step + issues.length) % issues.length;
  go(issues[next]);
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

function refilter() {
  layout();
}

function inScope(id) {
  const node = selectedNode();
  for (let each = forest.get(id); each; each = each.parent) if (each === node) return true;
  return false;
}

function showEnded() {
  showsEnded = true;
  post('/api/ended', {}).catch((error) => actions.refused(error.message));
  layout();
}

function closeSheet() {
  document.body.classList.remove('sheet');
  focusGrid();
}

function focusGrid() {
  const key = grid.selected ?? grid.items[0]?.key;
  grid.rows.element(key)?.focus({ preventScroll: true });
}

/** One step back: out of a field, out of the sheet, out of the filter, to the tree. */
function back() {
  if (document.body.classList.contains('sheet') && matchMedia('(max-width: 1180px)').matches) return closeSheet();
  const isInTree = $('grid').contains(document.activeElement);
  if ((isInTree || document.activeElement === top.input || document.activeElement === document.body) && (top.input.value || chip)) {
    top.input.value = '';
    chip = '';
    vitals.pressed('');
    layout();
  }
  return focusGrid();
}

const onNode = (act) => () => {
  const node = selectedNode();
  if (node && !detail.isReadOnly) act(node);
};

listen(
  {
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    ArrowRight: () => sideways(true),
    ArrowLeft: () => sideways(false),
    Enter: () => {
      if (grid.items[grid.index]?.group) return toggle(grid.selected);
      document.body.classList.add('sheet');
      detail.show(selectedNode());
      return detail.tabs.find((tab) => tab.tabIndex === 0)?.focus();
    },
    ' ': () => {
      document.body.classList.toggle('sheet');
      detail.show(selectedNode());
    },
    Escape: () => back(),
    m: onNode(() => {
      document.body.classList.add('sheet');
      detail.show(selectedNode());
      detail.write('message');
    }),
    s: onNode(() => {
      document.body.classList.add('sheet');
      detail.show(selectedNode());
      detail.write('steer');
    }),
    x: onNode((node) => actions.end('abort', node)),
    X: onNode((node) => actions.end('stop', node)),
    r: onNode((node) => actions.rename(node)),
    A: onNode((node) => actions.archive(node)),
    u: () => actions.undo(),
    '/': () => top.input.focus(),
    f: () => {
      const names = ['', ...Object.keys(CHIPS)];
      const next = names[(names.indexOf(chip) + 1) % names.length];
      pickChip(next || chip);
    },
    n: () => jump(1),
    N: () => jump(-1),
    o: () => sortBy(order.isStale(forest, now()) ? order.by : order.next()),
    e: () => feed.view.focus(),
    p: () => feed.pause(),
    w: () => feed.switchScope(),
    c: () => detail.timeline.showChain(),
    g: () => move(-Infinity),
    G: () => move(Infinity),
    y: onNode((node) => navigator.clipboard?.writeText(node.row.id).then(() => voice.say('Copied the id'))),
    '?': () => showKeys(KEYS),
  },
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
  if (!isLoaded) say(grid.empty, `Reading ${expected ? counted(forest.roots.length, 'tree') : 'trees'}…`);
}, LOADING_TOLD_MS);
const loaded = setInterval(() => {
  if (!isLoaded) return;
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
