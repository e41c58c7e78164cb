// All rows, as a tree. A node is {row, kids, parent, place}; `place` is the order in which it came.

export class Forest {
  nodes = new Map();
  roots = [];
  states = new Map();
  leftOut = 0;
  #places = 0;

  /** Whether rows came or went, or stand otherwise than before: then what is seen has to be laid out anew. */
  isShapeNew = false;

  setStates(states) {
    this.states = new Map(states.map((state) => [state.word, state]));
  }

  clear() {
    this.nodes.clear();
    this.roots = [];
    this.isShapeNew = true;
  }

  /** Whole rows and changed members alike: last value wins. Parents come before their children. */
  take(rows) {
    for (const [id, members] of Object.entries(rows)) {
      const node = this.nodes.get(id);
      if (node) {
        if ('word' in members && members.word !== node.row.word) this.isShapeNew = true;
        Object.assign(node.row, members);
      } else if ('word' in members) this.#add(id, members);
    }
  }

  #add(id, row) {
    const parent = this.nodes.get(row.parent) ?? null;
    const node = { row, kids: [], parent, place: this.#places++ };
    this.nodes.set(id, node);
    if (parent) parent.kids.push(node);
    else insertByName(this.roots, node);
    this.isShapeNew = true;
  }

  /** Keep only these: a snapshot says all there is. */
  keepOnly(ids) {
    for (const id of [...this.nodes.keys()]) if (!ids.has(id)) this.remove(id);
  }

  remove(id) {
    const node = this.nodes.get(id);
    if (!node) return;
    this.nodes.delete(id);
    const siblings = node.parent ? node.parent.kids : this.roots;
    const at = siblings.indexOf(node);
    if (at >= 0) siblings.splice(at, 1);
    this.isShapeNew = true;
  }

  get(id) {
    return this.nodes.get(id) ?? null;
  }

  state(row) {
    return (
      this.states.get(row.word) ?? { word: row.word, glyph: '?', token: '--idle', isIssue: false, isWorking: false }
    );
  }

  root(node) {
    let top = node;
    while (top.parent) top = top.parent;
    return top;
  }

  /** A node and all below it, parents first. */
  *below(node) {
    const stack = [node];
    while (stack.length) {
      const next = stack.pop();
      yield next;
      for (let at = next.kids.length - 1; at >= 0; at--) stack.push(next.kids[at]);
    }
  }

  /** The time that a row shows, in milliseconds. */
  elapsed(row, now) {
    return row.openMs === null || row.openMs === undefined ? row.elapsedMs : Math.max(0, now - row.openMs);
  }
}

/** Roots stand by their ids, which grow with time: a tree that was asked for later still stands where it began. */
function insertByName(roots, node) {
  let at = roots.length;
  while (at > 0 && roots[at - 1].row.id > node.row.id) at--;
  roots.splice(at, 0, node);
}
