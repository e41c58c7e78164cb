// One polite voice for people who listen: issues and confirmations only, at most one in two seconds.

const PAUSE_MS = 2_000;

export class Voice {
  #next = null;
  #timer = 0;

  constructor(region) {
    this.region = region;
  }

  /** The newest text wins where several come at once. */
  say(text) {
    this.#next = text;
    if (!this.#timer) this.#speak();
  }

  #speak() {
    this.#timer = 0;
    if (this.#next === null) return;
    this.region.textContent = this.#next;
    this.#next = null;
    this.#timer = setTimeout(() => this.#speak(), PAUSE_MS);
  }
}
