// What is folded: by depth until somebody says otherwise. A crowd of children folds its ended ones into one row each outcome.

const CROWD = 12;

export class Folds {
  depth = 1;
  #said = new Map();

  isOpen(node) {
    return this.#said.get(node.row.id) ?? node.row.depth < this.depth;
  }

  isGroupOpen(key) {
    return this.#said.get(key) ?? false;
  }

  set(key, isOpen) {
    this.#said.set(key, isOpen);
  }

  /** Fold all to this depth; 0 opens all. */
  to(depth) {
    this.depth = depth === 0 ? Infinity : depth;
    this.#said.clear();
  }

  /** Open all that hides a node. */
  reveal(node) {
    for (let above = node.parent; above; above = above.parent) this.set(above.row.id, true);
    for (let each = node; each; each = each.parent)
      if (each.parent) this.set(groupKey(each.parent, each.row.word), true);
  }
}

export const groupKey = (parent, word) => `${parent.row.id}/${word}`;

/**
 * Children as they are shown: [{node}] or, of a crowd, issues, then who works, then one {word, members} per outcome; as
 * orchestrator/views/outline.py has it.
 */
export function crowd(kids, forest) {
  if (kids.length <= CROWD) return kids.map((node) => ({ node }));
  const issues = kids.filter(({ row }) => row.issues > 0);
  const working = kids.filter(({ row }) => !row.issues && (forest.state(row).isWorking || row.working > 0));
  const rest = new Map([...forest.states.keys()].map((word) => [word, []]));
  for (const kid of kids) {
    if (!kid.row.issues && !forest.state(kid.row).isWorking && !kid.row.working) rest.get(kid.row.word)?.push(kid);
  }
  const ended = [...rest].filter(([, members]) => members.length > 0);
  return [
    ...[...issues, ...working].map((node) => ({ node })),
    ...ended.map(([word, members]) => (members.length === 1 ? { node: members[0] } : { word, members })),
  ];
}
