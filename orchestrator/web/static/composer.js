// Where one talks to an agent: a follow-up, a steer, or the answer that it waits for.

import { attr, h, say } from './dom.js';

const HINTS = {
  answer: 'It waits for this answer.',
  other: 'Follow-up waits for the end of the turn; steer goes in before the next model call.',
};

export class Composer {
  #mode = 'message';
  #node = null;

  /** `send(verb, node, text)` resolves to whether it was taken. */
  constructor(send) {
    this.send = send;
    const mode = (name, label) =>
      h('button', { type: 'button', 'data-mode': name, on: { click: () => this.mode(name) } }, label);
    this.modes = [mode('message', 'Follow-up'), mode('steer', 'Steer')];
    this.choice = h('div', { class: 'choice', role: 'group', 'aria-label': 'How it is delivered' }, this.modes);
    this.input = h('input', { autocomplete: 'off' });
    this.input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.#say();
    });
    this.button = h('button', { class: 'button primary', on: { click: () => this.#say() } }, 'Send');
    this.hint = h('span', {});
    this.element = h(
      'div',
      { class: 'composer' },
      h('div', { class: 'line' }, this.choice, this.input, this.button),
      h('div', { class: 'hint soft' }, this.hint, h('kbd', {}, 'm')),
    );
  }

  get #isAsked() {
    return this.#node?.row.word === 'needs input';
  }

  /** To another agent: what was begun is not for it. */
  clear() {
    this.input.value = '';
    this.mode('message');
  }

  mode(name) {
    this.#mode = name;
    for (const button of this.modes) attr(button, 'aria-pressed', button.dataset.mode === name);
  }

  /** The keyboard goes here. */
  focus(mode) {
    if (this.element.hidden) return;
    this.mode(mode);
    this.input.focus();
  }

  paint(node, { isOff, isHidden }) {
    this.#node = node;
    this.element.hidden = isHidden;
    this.input.disabled = this.button.disabled = isOff;
    this.choice.hidden = this.#isAsked;
    const verb = this.#isAsked ? 'Answer' : this.#mode === 'steer' ? 'Steer' : 'Message';
    attr(this.input, 'placeholder', `${verb} ${node.row.name}…`);
    attr(this.input, 'aria-label', `${verb} ${node.row.name}`);
    say(this.hint, this.#isAsked ? HINTS.answer : HINTS.other);
  }

  async #say() {
    const verb = this.#isAsked ? 'answer' : this.#mode;
    if (await this.send(verb, this.#node, this.input.value)) this.input.value = '';
  }
}
