// Keeps the forest as the dashboard has it: a snapshot in chunks after a fresh start, then patches, last value wins.

export class Mirror {
  reader = '';
  isLoaded = false;
  expected = 0;
  #snapshot = null;

  constructor(forest) {
    this.forest = forest;
  }

  hello(data) {
    this.reader = data.reader;
    this.expected = data.rows;
    this.forest.setStates(data.states);
    this.forest.leftOut = data.leftOut;
    this.#snapshot = data.resumed ? null : new Set();
    this.#check();
  }

  rows({ rows }) {
    this.forest.take(rows);
    for (const id of Object.keys(rows)) this.#snapshot?.add(id);
    this.#check();
  }

  patch({ rows = {}, gone = [], leftOut }) {
    this.forest.take(rows);
    for (const id of gone) this.forest.remove(id);
    if (leftOut !== undefined) this.forest.leftOut = leftOut;
  }

  /** When a snapshot is whole, what it does not name is gone. */
  #check() {
    if (this.#snapshot && this.#snapshot.size < this.expected) return;
    if (this.#snapshot) this.forest.keepOnly(this.#snapshot);
    this.#snapshot = null;
    this.isLoaded = true;
  }
}
