// The keys, the same as in the terminal. A key that is typed into a field is only typed.

export const KEYS = [
  ['↑ ↓ j k', 'move'],
  ['← →', 'fold and unfold, parent and child'],
  ['Enter', 'open'],
  ['Space', 'peek'],
  ['Esc', 'back'],
  ['m', 'message'],
  ['s', 'steer'],
  ['x', 'abort'],
  ['X', 'stop'],
  ['r', 'rename'],
  ['A', 'archive'],
  ['u', 'undo'],
  ['/', 'filter'],
  ['f', 'next chip'],
  ['n N', 'next and previous issue'],
  ['o', 'next order, or sort again'],
  ['0 – 9', 'fold to a depth, 0 opens all; in the events: types'],
  ['e', 'events'],
  ['p', 'pause the events'],
  ['w', 'events of the whole tree or of the selected agent'],
  ['c', 'the chain that decided the end'],
  ['g G', 'first and last'],
  ['y', 'copy the id'],
  ['?', 'these keys'],
];

/** Listen. `does`: key → function; `digit(number, isInFeed)`. */
export function listen(does, digit) {
  addEventListener('keydown', (event) => {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.defaultPrevented ||
      document.querySelector('dialog[open]')
    )
      return;
    const at = event.target;
    if (at.matches('input, textarea, select')) {
      if (event.key === 'Escape') does.Escape(event);
      return;
    }
    if ((event.key === 'Enter' || event.key === ' ') && at.closest('button, a, summary')) return;
    if (event.key.startsWith('Arrow') && at.closest('.panel, [role=tablist], .icicle')) return;
    if (/^\d$/.test(event.key)) {
      event.preventDefault();
      digit(Number(event.key), Boolean(at.closest('.feed')));
      return;
    }
    const act = does[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  });
}
