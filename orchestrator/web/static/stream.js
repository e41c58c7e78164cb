// The event stream, with a reconnect of its own: a browser's EventSource gives up after an answer that is no 200.

const DELAYS_S = [1, 2, 4, 8, 15];
const DEAD_MS = 12_000;

/** Calls `told(event, data)` for each frame and `changed(state)` with `{is: 'live' | 'lost', since, tryAt, tries, why, isRefused}`. */
export class Stream {
  #last = '';
  #tries = 0;
  #timer = 0;
  #watchdog = 0;
  #abort = null;
  #lostAt = null;

  constructor(told, changed) {
    this.told = told;
    this.changed = changed;
  }

  /** Connect now, whatever is going on. */
  connect() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    const abort = (this.#abort = new AbortController());
    this.#heard(abort);
    this.#read(abort).then(
      () => this.#lost(abort, 'the stream ended'),
      (error) => this.#lost(abort, error.message, error.isRefused),
    );
  }

  async #read(abort) {
    const url = `/api/stream?since=${encodeURIComponent(this.#last)}`;
    const response = await fetch(url, { headers: { 'x-sapwood': '1' }, signal: abort.signal, cache: 'no-store' });
    if (!response.ok) throw Object.assign(new Error(await reason(response)), { isRefused: response.status === 403 });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.#heard(abort);
      text += value;
      for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) this.#frame(text.slice(0, end));
    }
  }

  #frame(block) {
    const frame = { event: '', id: '', data: '' };
    for (const line of block.split('\n')) {
      const colon = line.indexOf(': ');
      if (colon > 0) frame[line.slice(0, colon)] = line.slice(colon + 2);
    }
    if (!frame.event) return;
    const data = JSON.parse(frame.data);
    if (frame.event === 'hello') this.#live();
    this.told(frame.event, data);
    if (frame.id) this.#last = frame.id;
  }

  #live() {
    this.#tries = 0;
    const lostFor = this.#lostAt === null ? 0 : Date.now() - this.#lostAt;
    this.#lostAt = null;
    this.changed({ is: 'live', lostFor });
  }

  /** Something came: it lives for another twelve seconds. */
  #heard(abort) {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => {
      abort.abort();
      this.#lost(abort, 'nothing was heard for 12s');
    }, DEAD_MS);
  }

  #lost(abort, why, isRefused = false) {
    if (abort !== this.#abort) return;
    this.#abort = null;
    clearTimeout(this.#watchdog);
    this.#lostAt ??= Date.now();
    const delay = DELAYS_S[Math.min(this.#tries, DELAYS_S.length - 1)] * 1000 * (0.8 + 0.4 * Math.random());
    this.#tries += 1;
    this.changed({ is: 'lost', since: this.#lostAt, tryAt: Date.now() + delay, tries: this.#tries, why, isRefused });
    this.#timer = setTimeout(() => this.connect(), delay);
  }
}

async function reason(response) {
  try {
    return (await response.json()).error ?? `the answer was ${response.status}`;
  } catch {
    return `the answer was ${response.status}`;
  }
}
