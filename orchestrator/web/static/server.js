// Requests to the dashboard. Each answers with JSON or throws an Error whose text is for people.

export async function get(path, query = {}) {
  return answer(
    await fetch(`${path}?${new URLSearchParams(query)}`, { headers: { 'x-sapwood': '1' }, cache: 'no-store' }),
  );
}

export async function post(path, body) {
  const headers = { 'x-sapwood': '1', 'content-type': 'application/json' };
  return answer(await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }));
}

export const detail = (kind, session, query = {}) => get(`/api/detail/${kind}`, { session, ...query });

/** Bring the token of the printed address, once, and take it out of the address bar. */
export async function enter() {
  const token = location.hash.slice(1);
  if (!token) return;
  history.replaceState(null, '', location.pathname);
  await post('/api/enter', { token });
}

async function answer(response) {
  const text = await response.text();
  const data = text ? parsed(text) : {};
  if (!response.ok) throw new Error(data.error ?? `the answer was ${response.status}`);
  return data;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
