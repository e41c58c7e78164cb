// Questions before something ends, with the default on keeping; and a place for one line of text.

import { h, put } from './dom.js';
import { counted, money } from './format.js';
import { queued } from './doing.js';

const TYPED_ABOVE = 10;
const SHOWN = 4;

const WORDS = {
  abort: {
    verb: 'Abort',
    text: 'Their current turns end now, including running tools.',
    end: 'Each can be continued later.',
  },
  stop: {
    verb: 'Stop',
    text: 'Their sessions end now, including running tools.',
    end: 'Each can be continued later from its journal.',
  },
};

/** Ask before `verb` (abort, stop) is done to a node and what works below it. Resolves to whether it is wanted. */
export function askToEnd(verb, node, forest) {
  const words = WORDS[verb];
  const all = [...forest.below(node)];
  const working = all.filter((each) => forest.state(each.row).isWorking);
  const below = working.filter((each) => each !== node).length;
  const count = below + 1;
  const title = `${words.verb} ${node.row.name}${below ? ` and ${counted(below, 'agent')} below it` : ''}?`;
  const spent = money(node.row.totalUsd, node.row.totalIsPart);
  const typed = count > TYPED_ABOVE ? h('input', { inputmode: 'numeric', autocomplete: 'off', id: 'typed' }) : null;
  const confirm = h('button', { class: 'button kill', value: 'yes' }, `${words.verb} ${counted(count, 'agent')}`);
  if (typed) {
    confirm.disabled = true;
    typed.addEventListener('input', () => (confirm.disabled = typed.value.trim() !== String(count)));
  }
  const keep = h('button', { class: 'button', value: 'no', autofocus: true }, 'Keep running');
  return shown(
    title,
    [
      h('p', {}, `${words.text} What they wrote and spent (${spent}) is kept. ${words.end}`),
      h('ul', {}, consequences(all, forest)),
      typed ? h('label', { for: 'typed' }, `Type ${count} to go on: `, typed) : null,
    ],
    [keep, confirm],
  ).then((answer) => answer === 'yes' && (!typed || typed.value.trim() === String(count)));
}

function consequences(all, forest) {
  const found = [];
  for (const { row } of all) {
    const state = forest.state(row);
    if (row.word === 'running' && row.activity?.kind === 'tool')
      found.push(`${row.name} is in a tool: ${row.activity.label}`);
    if (queued(row, state.isWorking)) found.push(`${row.queued} queued for ${row.name} stay queued`);
    if (row.word === 'needs input') found.push(`${row.name} is waiting for your answer`);
  }
  const more = found.length - SHOWN;
  return [...found.slice(0, SHOWN), ...(more > 0 ? [`and ${more} more`] : [])].map((text) =>
    h('li', { class: 'text' }, text),
  );
}

/** One line of text; resolves to it, or to null. */
export function askForText(title, label, value = '') {
  const input = h('input', { id: 'asked', autocomplete: 'off', autofocus: true, maxlength: 200 });
  input.value = value;
  const save = h('button', { class: 'button primary', value: 'yes' }, 'Save');
  const cancel = h('button', { class: 'button', value: 'no' }, 'Cancel');
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') save.click();
  });
  return shown(title, [h('label', { for: 'asked' }, label, input)], [cancel, save]).then((answer) =>
    answer === 'yes' && input.value.trim() ? input.value.trim() : null,
  );
}

/** Keys and what they do. */
export function showKeys(keys) {
  const rows = keys.map(([key, text]) => h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)));
  return shown(
    'Keys',
    [h('dl', { class: 'keys' }, rows)],
    [h('button', { class: 'button', value: 'no', autofocus: true }, 'Close')],
  );
}

function shown(title, body, buttons) {
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' });
  put(dialog, h('h2', { id: 'dialog-title', class: 'text' }, title), body, h('div', { class: 'buttons' }, buttons));
  for (const button of buttons) button.addEventListener('click', () => dialog.close(button.value));
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    dialog.showModal();
  });
}
