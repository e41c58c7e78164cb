// What this browser remembers: taste, never data. A browser that keeps nothing forgets, and that is all.

export function remembered(name, otherwise) {
  try {
    return localStorage.getItem(`sapwood.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`sapwood.${name}`, value);
  } catch {
    // private windows
  }
}
