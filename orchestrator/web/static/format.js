// Figures as people read them: the same rules as orchestrator/views/money.py, and a test that compares the two.

const PICO = 1e12;

/** `$1.24`, `<$0.01`, `$124`; `≥ $1.24` with unknown parts, `?` where nothing is known, `–` without a figure. */
export function money(usd, isPart = false) {
  if (usd === null || usd === undefined) return '–';
  const pico = Math.round(usd * PICO);
  if (isPart && pico === 0) return '?';
  return (isPart ? '≥ ' : '') + dollars(pico);
}

/** As `money`, with a fixed number of decimals; what is too small for them gets all twelve. */
export function exactMoney(usd, isPart = false, digits = 4) {
  if (usd === null || usd === undefined) return '–';
  const pico = BigInt(Math.round(usd * PICO));
  if (isPart && pico === 0n) return '?';
  let unit = 10n ** BigInt(12 - digits);
  if (pico > 0n && pico < unit) [digits, unit] = [12, 1n];
  const units = (2n * pico + unit) / (2n * unit);
  const whole = 10n ** BigInt(digits);
  const rest = digits ? `.${String(units % whole).padStart(digits, '0')}` : '';
  return `${isPart ? '≥ ' : ''}$${units / whole}${rest}`;
}

function dollars(pico) {
  const cent = PICO / 100;
  if (pico > 0 && pico < cent) return '<$0.01';
  const cents = rounded(pico, cent);
  if (cents < 10000) return `$${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
  const whole = rounded(pico, PICO);
  return whole < 1e6 ? `$${whole}` : `$${scaled(whole, 1e6)}M`;
}

/** `940`, `1.2k`, `12k`, `1.93M`. */
export function tokens(count) {
  if (count === null || count === undefined) return '–';
  if (count < 1000) return String(count);
  const tenths = rounded(count, 100);
  if (tenths < 100) return `${Math.floor(tenths / 10)}.${tenths % 10}k`;
  if (rounded(count, 1000) < 1000) return `${rounded(count, 1000)}k`;
  if (rounded(count, 1e6) < 1000) return `${scaled(count, 1e6)}M`;
  return `${scaled(count, 1e9)}G`;
}

/** `7s`, `4m12s`, `1h03m`, `2d04h`. */
export function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  const s = Math.floor(Math.max(0, ms) / 1000);
  const two = (value) => String(value).padStart(2, '0');
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d${two(Math.floor(s / 3600) % 24)}h`;
}

/** The time of day of a moment, in the zone of the reader. */
export function timeOfDay(ms, withSeconds = true) {
  const moment = new Date(ms);
  const parts = [moment.getHours(), moment.getMinutes(), ...(withSeconds ? [moment.getSeconds()] : [])];
  return parts.map((part) => String(part).padStart(2, '0')).join(':');
}

/** `1 agent`, `3 agents`. */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

export function lastPart(model) {
  return model ? model.slice(model.lastIndexOf('/') + 1) : '–';
}

/** Milliseconds under a second, else as `duration`. */
export function took(ms) {
  if (ms === null || ms === undefined) return '–';
  return ms < 1000 ? `${ms} ms` : duration(ms);
}

function rounded(value, unit) {
  return Math.floor((2 * value + unit) / (2 * unit));
}

function scaled(value, unit) {
  const hundredths = rounded(value, unit / 100);
  if (hundredths < 1000) return `${Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, '0')}`;
  const tenths = rounded(value, unit / 10);
  if (tenths < 1000) return `${Math.floor(tenths / 10)}.${tenths % 10}`;
  return String(rounded(value, unit));
}
