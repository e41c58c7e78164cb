// The time of the host. It stands still while nothing is heard: a page that cannot know does not count on.

export class Clock {
  #ahead = 0;
  #frozen = null;

  /** The server says that it is `now`, in Unix milliseconds. */
  set(now) {
    this.#ahead = now - Date.now();
    this.#frozen = null;
  }

  freeze() {
    this.#frozen ??= Date.now() + this.#ahead;
  }

  get isFrozen() {
    return this.#frozen !== null;
  }

  now() {
    return this.#frozen ?? Date.now() + this.#ahead;
  }
}
