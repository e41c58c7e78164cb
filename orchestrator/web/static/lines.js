// The rows that can be seen, flat: what folds, filter and order leave of the forest, in O(n) and without recursion.

import { crowd, groupKey } from './folds.js';

const ENDED_SHOWN_MS = 600_000;

/**
 * Items: {key, node, level, pos, size, isDim, isOpen} for an agent, and {key, group, level, pos, size, isOpen, members,
 * word, parent} for ended ones folded together. `test`: the filter, or null.
 */
export function lines({ forest, order, folds, test, showsEnded, now }) {
  const hits = test ? matched(forest, test, showsEnded, now) : null;
  const items = [];
  const roots = order.arranged(forest.roots.filter((root) => isShown(root, forest, showsEnded, now)));
  const isKept = ({ row }) => showsEnded || row.word !== 'archived';
  const stack = [];
  push(stack, rowsOf(roots, 1));
  while (stack.length) {
    const item = stack.pop();
    if (hits && item.node && !hits.shown.has(item.node)) continue;
    items.push(item);
    if (item.group) {
      item.isOpen = folds.isGroupOpen(item.key);
      if (item.isOpen) push(stack, rowsOf(item.members, item.level + 1));
      continue;
    }
    const { node } = item;
    item.isDim = hits !== null && !hits.found.has(node);
    item.isOpen = node.kids.length > 0 && (hits ? true : folds.isOpen(node));
    if (item.isOpen) push(stack, children(order.arranged(node.kids.filter(isKept)), item, forest, hits !== null));
  }
  return { items, found: hits ? hits.found.size : null };
}

function children(kids, above, forest, isFiltered) {
  if (isFiltered) return rowsOf(kids, above.level + 1);
  const entries = crowd(kids, forest);
  return entries.map(({ node, word, members }, at) => ({
    key: node ? node.row.id : groupKey(above.node, word),
    ...(node ? { node } : { group: true, parent: above.node, word, members }),
    level: above.level + 1,
    pos: at + 1,
    size: entries.length,
  }));
}

function rowsOf(nodes, level) {
  return nodes.map((node, at) => ({ key: node.row.id, node, level, pos: at + 1, size: nodes.length }));
}

function push(stack, items) {
  for (let at = items.length - 1; at >= 0; at--) stack.push(items[at]);
}

/** Trees that ended more than ten minutes ago leave the view, and archived ones at once. */
export function isShown(root, forest, showsEnded, now) {
  if (!showsEnded && root.row.word === 'archived') return false;
  if (showsEnded || root.row.hostPid !== null || root.row.working > 0 || forest.state(root.row).isWorking) return true;
  if (root.row.word === 'unknown') return true;
  const last = root.row.lastEventAt ? Date.parse(root.row.lastEventAt) : 0;
  return now - last < ENDED_SHOWN_MS;
}

/** Hits, and their ancestors, which stay to show where the hits are. */
function matched(forest, test, showsEnded, now) {
  const found = new Set();
  const shown = new Set();
  for (const root of forest.roots) {
    if (!isShown(root, forest, showsEnded, now)) continue;
    const treeUsd = root.row.totalUsd ?? 0;
    for (const node of forest.below(root)) {
      if (!test(node.row, forest.state(node.row), now, treeUsd)) continue;
      found.add(node);
      for (let each = node; each && !shown.has(each); each = each.parent) shown.add(each);
    }
  }
  return { found, shown };
}
