// The selection, and how one moves it: up and down the lines that are seen, into folds and out of them, to the next issue.

const PAUSE_MS = 120;

export class Selection {
  #timer = 0;

  /** `view`: {grid, forest, folds, order}. `layout()`: fold anew; `settled(node)`: the selection rests on a node, or on none. */
  constructor(view, { layout, settled }) {
    Object.assign(this, view, { layout, settled });
  }

  get key() {
    return this.grid.selected;
  }

  get node() {
    return this.key ? this.forest.get(this.key) : null;
  }

  select(key, { focus = false } = {}) {
    this.grid.pick(key, { focus });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.settled(this.node), PAUSE_MS);
  }

  /** To an agent, wherever it is folded away. Whether it is there. */
  go(id) {
    const node = this.forest.get(id);
    if (!node) return false;
    this.folds.reveal(node);
    this.layout();
    this.select(id, { focus: true });
    return true;
  }

  move(step) {
    const { items, index } = this.grid;
    if (!items.length) return;
    const from = index < 0 ? (step > 0 ? -1 : items.length) : index;
    this.select(items[Math.max(0, Math.min(items.length - 1, from + step))].key, { focus: true });
  }

  toggle(key, isOpen) {
    const item = this.grid.items.find((each) => each.key === key);
    if (!item || (item.node && !item.node.kids.length)) return;
    this.folds.set(key, isOpen ?? !item.isOpen);
    this.layout();
  }

  /** Right: unfold, then to the first child. Left: fold, then to the parent. */
  sideways(isRight) {
    const item = this.grid.items[this.grid.index];
    if (!item) {
      this.move(1);
      return;
    }
    const hasKids = item.group || item.node.kids.length > 0;
    if (isRight) {
      if (hasKids && !item.isOpen) this.toggle(item.key, true);
      else if (hasKids) this.move(1);
      return;
    }
    const parent = item.group ? item.parent : item.node.parent;
    if (hasKids && item.isOpen) this.toggle(item.key, false);
    else if (parent) this.select(parent.row.id, { focus: true });
  }

  /** To the next session that needs somebody, or the one before, in the order of the lines and round about. */
  jump(step) {
    const places = [];
    const stack = this.order.arranged(this.forest.roots).slice().reverse();
    while (stack.length) {
      const node = stack.pop();
      if (this.#needs(node) || node.row.id === this.key) places.push(node);
      stack.push(...this.order.arranged(node.kids).slice().reverse());
    }
    const here = places.findIndex((node) => node.row.id === this.key);
    const needy = places.filter((node) => this.#needs(node));
    if (!needy.length) return;
    const after = places.slice(here + 1).filter((node) => this.#needs(node));
    const before = places.slice(0, Math.max(0, here)).filter((node) => this.#needs(node));
    this.go((step > 0 ? (after[0] ?? needy[0]) : (before.at(-1) ?? needy.at(-1))).row.id);
  }

  #needs(node) {
    return this.forest.state(node.row).isIssue;
  }

  /** The keyboard goes to the selected row, or to the first. */
  focus() {
    const key = this.key ?? this.grid.items[0]?.key;
    this.grid.rows.element(key)?.focus({ preventScroll: true });
  }
}
