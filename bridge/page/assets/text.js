// Text from callers and files becomes text nodes and nothing else: no string is ever
// parsed as markup, and what does not show is spelled out.
'use strict';

// invisible finds what does not show or changes how its neighbours show. The daemon has
// made card text visible already; names in the history have not been through that.
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\ufe00-\ufe0f\u180b-\u180f\u{e0100}-\u{e01ef}]/gu;

function spelled(c) { return '\\u{' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0') + '}'; }

// visible makes text safe to show; line breaks and tabs stay when lines is set.
function visible(text, lines) {
  return String(text ?? '').replace(invisible, (c) => (lines && (c === '\n' || c === '\t') ? c : spelled(c)));
}

// el makes an element. A string child becomes text; null and false become nothing.
function el(name, props, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'class') node.className = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, '');
    else node.setAttribute(key, value);
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

// marked gives text with each spelled-out character in a box of its own, and white space
// at the end of a line where ends is set.
function marked(text, ends) {
  const safe = visible(text, true);
  const out = [];
  let tail = '';
  let body = safe;
  if (ends) {
    const end = safe.match(/[ \t]+$/);
    if (end) { tail = end[0]; body = safe.slice(0, end.index); }
  }
  let from = 0;
  for (const found of body.matchAll(/\\u\{[0-9A-F]{4,6}\}|\\x[0-9A-F]{2}|\t/g)) {
    if (found.index > from) out.push(body.slice(from, found.index));
    if (found[0] === '\t') out.push(el('span', { class: 'tab' }, '\t'));
    else out.push(el('span', { class: 'inv', title: 'a character that does not show' }, found[0]));
    from = found.index + found[0].length;
  }
  if (from < body.length) out.push(body.slice(from));
  if (tail) out.push(el('span', { class: 'end', title: 'white space at the end of the line' }, tail));
  return out;
}

function plural(n, word) { return n.toLocaleString('en') + ' ' + word + (n === 1 ? '' : 's'); }

// left words the time until a moment; brief leaves out what a glance does not need.
function left(until, now, brief) {
  let s = Math.floor((Date.parse(until) - now) / 1000);
  if (Number.isNaN(s)) return '';
  if (s <= 0) return 'time is over';
  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  s %= 60;
  if (brief) {
    if (d > 0) return d + ' d';
    if (h > 0) return h + ' h ' + m + ' min';
    return m > 0 ? m + ' min' : s + ' s';
  }
  if (d > 0) return d + ' d ' + h + ' h left';
  if (h > 0) return h + ' h ' + m + ' min left';
  if (m > 0) return m + ' min ' + String(s).padStart(2, '0') + ' s left';
  return s + ' s left';
}

// clock words a moment in the reader's own time, the same in every locale.
function clock(at) {
  const t = new Date(at);
  if (Number.isNaN(t.getTime())) return '';
  const two = (n) => String(n).padStart(2, '0');
  return t.getFullYear() + '-' + two(t.getMonth() + 1) + '-' + two(t.getDate()) + ' ' + two(t.getHours()) + ':' + two(t.getMinutes()) + ':' + two(t.getSeconds());
}

// ago words how long since a moment.
function ago(at, now) {
  const s = Math.max(0, Math.floor((now - Date.parse(at)) / 1000));
  if (s < 60) return 'just now';
  if (s < 3600) return Math.floor(s / 60) + ' min ago';
  if (s < 86400) return Math.floor(s / 3600) + ' h ago';
  return Math.floor(s / 86400) + ' d ago';
}

// chunked fills a parent with many rows: the head and the tail at once, what lies between
// on demand, and always says how many are not shown.
function chunked(parent, rows, make, what, head, tail) {
  if (rows.length <= head + tail + 20) {
    for (const row of rows) parent.append(make(row));
    return;
  }
  for (const row of rows.slice(0, head)) parent.append(make(row));
  let from = head;
  const to = rows.length - tail;
  const gap = make(null);
  const label = el('span');
  const show = (n) => {
    for (const row of rows.slice(from, Math.min(from + n, to))) gap.before(make(row));
    from = Math.min(from + n, to);
    if (from >= to) gap.remove();
    else label.textContent = plural(to - from, what) + ' not shown here. ';
  };
  const place = gap.querySelector('td') || gap;
  add(place, [label, el('button', { type: 'button', class: 'link', onclick: () => show(500) }, 'Show 500'), ' ',
    el('button', { type: 'button', class: 'link', onclick: () => show(rows.length) }, 'Show all')]);
  gap.classList.add('gap');
  parent.append(gap);
  show(0);
  for (const row of rows.slice(to)) parent.append(make(row));
}
