// The column Doing: the same rules as orchestrator/views/doing_text.py and context.py, and a test that compares them.

import { duration, tokens } from './format.js';

const AGED_FROM_S = 5;
const QUIET_FROM_S = 60;
const AGED = new Set(['tool', 'thinking']);
const OPEN_CALL = new Set(['tool', 'thinking', 'writing']);

/** What an agent does now, in one line; ages count in the view. `now` in Unix milliseconds. */
export function doing(row, now) {
  const { activity, retry } = row;
  if (!activity) return '';
  if (retry && activity.kind === 'retry') return retrying(retry, now);
  const parts = [activity.label];
  const age = secondsSince(activity.since, now);
  if (AGED.has(activity.kind) && age !== null && age >= AGED_FROM_S) parts.push(duration(age * 1000));
  if (activity.kind === 'silent' && age !== null) parts.push(`last event ${duration(age * 1000)} ago`);
  const quiet = secondsSince(row.lastEventAt, now);
  if (row.word === 'running' && OPEN_CALL.has(activity.kind) && quiet >= QUIET_FROM_S)
    parts.push(`quiet ${duration(quiet * 1000)}`);
  return parts.filter(Boolean).join(' · ');
}

/** How many messages wait for a session that works. */
export function queued(row, isWorking) {
  return isWorking ? row.queued : 0;
}

function retrying(retry, now) {
  const left = Math.max(0, -(secondsSince(retry.until, now) ?? 0)) * 1000;
  if (retry.kind === 'rate limited') return `${retry.kind} · ${duration(left)} left`;
  return `${retry.kind} · try ${retry.attempt} of ${retry.of} in ${duration(left)}`;
}

/** Whole seconds since an ISO time, below zero before it; null where there is none. */
export function secondsSince(at, now) {
  const then = at ? Date.parse(at) : NaN;
  return Number.isNaN(then) ? null : Math.trunc((now - then) / 1000);
}

/** `61%`, `93%!` where the next call would be summarised first; tokens where the window is not known. */
export function context(row) {
  const { contextTokens: held, contextWindow: window } = row;
  if (held === null) return { text: '–', share: null, isHigh: false };
  if (!window) return { text: tokens(held), share: null, isHigh: false };
  const isHigh = held > window - reserve(window);
  return {
    text: `${Math.floor((held * 100) / window)}%${isHigh ? '!' : ''}`,
    share: Math.min(1, held / window),
    isHigh,
  };
}

/** The share of a window at which it is summarised, unless configured otherwise. */
export const threshold = (window) => 1 - reserve(window) / window;

const reserve = (window) => Math.min(16_384, Math.floor(window / 4));
