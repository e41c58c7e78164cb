// The order of siblings. A sort is made once, when it is asked for; what changes later does not move anything.

export const ORDERS = ['spawned', 'total', 'own', 'time', 'context', 'name'];

const KEYS = {
  total: (row) => -(row.totalUsd ?? -1),
  own: (row) => -(row.ownUsd ?? -1),
  time: (row, forest, now) => -(forest.elapsed(row, now) ?? -1),
  context: (row) => -(row.contextTokens ?? -1),
  name: (row) => row.name.toLowerCase(),
};

export class Order {
  by = 'spawned';
  #ranks = new Map();

  /** Sort by this, as things are now. */
  apply(by, forest, now) {
    this.by = by;
    this.#ranks = new Map();
    if (by === 'spawned') return;
    for (const siblings of families(forest))
      sorted(siblings, by, forest, now).forEach((node, at) => this.#ranks.set(node.row.id, at));
  }

  /** Siblings as they are shown. Those that came after the sort stand behind, in the order of spawning. */
  arranged(siblings) {
    if (this.by === 'spawned') return siblings;
    const rank = (node) => this.#ranks.get(node.row.id) ?? Infinity;
    return siblings.slice().sort((a, b) => (rank(a) === rank(b) ? a.place - b.place : rank(a) - rank(b)));
  }

  /** Whether a sort made now would look otherwise. */
  isStale(forest, now) {
    if (this.by === 'spawned') return false;
    for (const siblings of families(forest)) {
      const shown = this.arranged(siblings);
      if (sorted(siblings, this.by, forest, now).some((node, at) => node !== shown[at])) return true;
    }
    return false;
  }

  next() {
    return ORDERS[(ORDERS.indexOf(this.by) + 1) % ORDERS.length];
  }
}

function* families(forest) {
  yield forest.roots;
  for (const node of forest.nodes.values()) if (node.kids.length > 1) yield node.kids;
}

function sorted(siblings, by, forest, now) {
  const key = (node) => KEYS[by](node.row, forest, now);
  const keyed = siblings.map((node) => [key(node), node]);
  keyed.sort(([a, first], [b, second]) => (a < b ? -1 : a > b ? 1 : first.place - second.place));
  return keyed.map(([, node]) => node);
}
