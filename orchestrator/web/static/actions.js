// What a person does to an agent. Nothing is shown as done before the host has said so.

import { askForText, askToEnd } from './dialogs.js';
import { h } from './dom.js';
import { post } from './server.js';

const UNDO_MS = 10_000;
const UNDER_WAY = { abort: 'aborting…', stop: 'stopping…', archive: 'archiving…', rename: 'renaming…' };

export class Actions {
  #pending = new Map();
  #undo = null;

  /** `changed()`: what is under way with some session has changed. `isOff()`: nothing can be done now. */
  constructor(forest, toasts, voice, { changed, isOff }) {
    Object.assign(this, { forest, toasts, voice, changed, isOff });
  }

  /** `aborting…` while it is under way with this session, else null. */
  pending(id) {
    return this.#pending.get(id) ?? null;
  }

  async end(verb, node) {
    if (this.isOff()) return;
    if (verb === 'abort' && !this.forest.state(node.row).isWorking && !node.row.working) {
      this.refused(`${node.row.name} does not run.`);
      return;
    }
    if (await askToEnd(verb, node, this.forest)) await this.#do(verb, node);
  }

  async say(verb, node, text) {
    if (this.isOff() || !text.trim()) return false;
    return this.#do(verb, node, text, { message: 'Queued for', answer: 'Answered', steer: 'Steered' }[verb]);
  }

  async rename(node) {
    if (this.isOff()) return;
    const name = await askForText(`Rename ${node.row.name}`, 'Name: ', node.row.name);
    if (name) await this.#do('rename', node, name);
  }

  async archive(node) {
    if (this.isOff() || !(await this.#do('archive', node))) return;
    this.#undo = node;
    const toast = this.toast(
      'Archived.',
      h('button', { class: 'plain', on: { click: () => this.undo() } }, 'Undo (u)'),
    );
    setTimeout(() => {
      if (this.#undo === node) this.#undo = null;
      toast.remove();
    }, UNDO_MS);
  }

  async undo() {
    const node = this.#undo;
    this.#undo = null;
    if (node) await this.#do('unarchive', node, '', 'Not archived:');
  }

  async #do(verb, node, text = '', confirmation = '') {
    const { id, name } = node.row;
    if (UNDER_WAY[verb]) this.#pending.set(id, UNDER_WAY[verb]);
    this.changed();
    try {
      await post('/api/do', { verb, sessionId: id, text });
      if (confirmation) this.voice.say(`${confirmation} ${name}`);
      return true;
    } catch (error) {
      this.refused(`${name}: ${error.message}`);
      return false;
    } finally {
      this.#pending.delete(id);
      this.changed();
    }
  }

  refused(text) {
    const toast = this.toast(
      text,
      h('button', { class: 'plain', 'aria-label': 'Dismiss', on: { click: () => toast.remove() } }, '✕'),
    );
    toast.classList.add('bad');
    this.voice.say(text);
  }

  toast(text, ...more) {
    const element = h('div', { class: 'toast' }, h('span', { class: 'text' }, text), more);
    this.toasts.append(element);
    return element;
  }
}
