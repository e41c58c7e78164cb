// What each key does. Where the keyboard is decides for up, down and Enter.

import { showKeys } from './dialogs.js';
import { KEYS } from './keys.js';

/** Key → function. `page` has the parts of the page, and what they do together: `back`, `nextChip`, `nextOrder`, `find`. */
export function commands(page) {
  const { selection, grid, feed, detail, actions, voice } = page;
  const isInFeed = () => feed.view === document.activeElement;
  const step = (by) => () => (isInFeed() ? feed.move(by) : selection.move(by));
  const onNode = (act) => () => selection.node && act(selection.node);
  const change = (act) => onNode((node) => !detail.isReadOnly && act(node));

  const peek = (isOpen) => {
    document.body.classList.toggle('sheet', isOpen);
    detail.show(selection.node);
  };
  const open = () => {
    if (isInFeed()) feed.enter();
    else if (grid.items[grid.index]?.group) selection.toggle(selection.key);
    else if (selection.node) {
      peek(true);
      detail.pane.focus();
    }
  };
  const write = (mode) =>
    change(() => {
      peek(true);
      detail.composer.focus(mode);
    });

  return {
    j: step(1),
    k: step(-1),
    ArrowDown: step(1),
    ArrowUp: step(-1),
    ArrowRight: () => selection.sideways(true),
    ArrowLeft: () => selection.sideways(false),
    Enter: open,
    ' ': () => peek(),
    Escape: page.back,
    m: write('message'),
    s: write('steer'),
    x: change((node) => actions.end('abort', node)),
    X: change((node) => actions.end('stop', node)),
    r: change((node) => actions.rename(node)),
    A: change((node) => actions.archive(node)),
    u: () => actions.undo(),
    '/': page.find,
    f: page.nextChip,
    n: () => selection.jump(1),
    N: () => selection.jump(-1),
    o: page.nextOrder,
    e: () => feed.view.focus(),
    p: () => feed.pause(),
    w: () => feed.switchScope(),
    c: () => detail.pane.timeline.showChain(),
    g: () => selection.move(-Infinity),
    G: () => selection.move(Infinity),
    y: onNode((node) => navigator.clipboard?.writeText(node.row.id).then(() => voice.say('Copied the id'))),
    '?': () => showKeys(KEYS),
  };
}
