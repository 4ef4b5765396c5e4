// A unified diff, read once and shown in one of two ways.
'use strict';

// readDiff gives rows {kind, old, now, text}. The hunk header says how many lines follow,
// so a removed line that looks like a file header stays a line.
function readDiff(text) {
  const rows = [];
  let oldAt = 0, newAt = 0, oldLeft = 0, newLeft = 0;
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  for (const line of lines) {
    const mark = line[0];
    if (oldLeft > 0 || newLeft > 0) {
      if (mark === '-' && oldLeft > 0) { rows.push({ kind: 'del', old: oldAt++, text: line.slice(1) }); oldLeft--; continue; }
      if (mark === '+' && newLeft > 0) { rows.push({ kind: 'ins', now: newAt++, text: line.slice(1) }); newLeft--; continue; }
      if (mark === ' ' || line === '') { rows.push({ kind: 'same', old: oldAt++, now: newAt++, text: line.slice(1) }); oldLeft--; newLeft--; continue; }
    }
    const hunk = line.match(/^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/);
    if (hunk) {
      oldAt = Number(hunk[1]); oldLeft = hunk[2] === undefined ? 1 : Number(hunk[2]);
      newAt = Number(hunk[3]); newLeft = hunk[4] === undefined ? 1 : Number(hunk[4]);
      rows.push({ kind: 'hunk', text: line });
    } else {
      rows.push({ kind: mark === '\\' ? 'tell' : 'file', text: line });
    }
  }
  return rows;
}

// paired puts removed lines beside the added ones that replace them.
function paired(rows) {
  const out = [];
  for (let i = 0; i < rows.length;) {
    if (rows[i].kind !== 'del' && rows[i].kind !== 'ins') { out.push({ one: rows[i] }); i++; continue; }
    const dels = [], inss = [];
    while (i < rows.length && (rows[i].kind === 'del' || rows[i].kind === 'ins' || rows[i].kind === 'tell')) {
      if (rows[i].kind === 'del') { if (inss.length) break; dels.push(rows[i]); }
      else if (rows[i].kind === 'ins') inss.push(rows[i]);
      else (inss.length ? inss : dels).push(rows[i]);
      i++;
    }
    for (let k = 0; k < Math.max(dels.length, inss.length); k++) out.push({ del: dels[k], ins: inss[k] });
  }
  return out;
}

const signs = { del: '-', ins: '+', same: ' ' };
const spoken = { del: 'removed', ins: 'added' };

function unifiedRow(row) {
  if (row === null) return el('tr', null, el('td', { colspan: 3 }));
  if (!signs[row.kind]) return el('tr', { class: row.kind }, el('td', { colspan: 3 }, marked(row.text)));
  return el('tr', { class: row.kind },
    el('td', { class: 'no' }, row.old ?? ''), el('td', { class: 'no' }, row.now ?? ''),
    el('td', { class: 'code' }, el('span', { class: 'sign', 'aria-label': spoken[row.kind] }, signs[row.kind]), marked(row.text, row.kind !== 'same')));
}

function half(row, side) {
  if (!row) return [el('td', { class: 'no void' }), el('td', { class: 'code void' })];
  return [el('td', { class: 'no ' + row.kind }, (side === 'old' ? row.old : row.now) ?? ''),
    el('td', { class: 'code ' + row.kind }, spoken[row.kind] ? el('span', { class: 'off' }, spoken[row.kind] + ' ') : null, marked(row.text, row.kind !== 'same'))];
}

function splitRow(pair) {
  if (pair === null) return el('tr', null, el('td', { colspan: 4 }));
  if (pair.one && !signs[pair.one.kind]) return el('tr', { class: pair.one.kind }, el('td', { colspan: 4 }, marked(pair.one.text)));
  return el('tr', null, half(pair.one || pair.del, 'old'), half(pair.one || pair.ins, 'now'));
}

// The choice holds for all cards of this page; a narrow window begins with the unified form.
let split = window.innerWidth >= 1100;

// showDiff gives the section of a change with its toggle, or null where there is no text.
function showDiff(text) {
  if (!text) return null;
  const rows = readDiff(text);
  const added = rows.filter((r) => r.kind === 'ins').length, removed = rows.filter((r) => r.kind === 'del').length;
  const body = el('tbody'), columns = el('colgroup');
  const table = el('table', { class: 'diff' }, el('caption', { class: 'off' }, 'The change, line by line'), columns, body);
  const toggle = el('button', { type: 'button', class: 'quiet', 'data-key': 'd' });
  const draw = () => {
    body.replaceChildren();
    columns.replaceChildren(...(split ? ['no', '', 'no', ''] : ['no', 'no', '']).map((c) => el('col', { class: c })));
    table.classList.toggle('split', split);
    toggle.textContent = split ? 'Unified' : 'Side by side';
    if (split) chunked(body, paired(rows), splitRow, 'row', 200, 100);
    else chunked(body, rows, unifiedRow, 'line', 300, 150);
  };
  toggle.addEventListener('click', () => { split = !split; draw(); });
  draw();
  return el('section', { class: 'change', 'aria-label': 'Change' },
    el('div', { class: 'head' }, el('h3', null, 'Change'),
      el('span', { class: 'meta' }, '+' + added.toLocaleString('en') + ' −' + removed.toLocaleString('en') + ', ' + plural(rows.length, 'line') + ' in all'), el('span', { class: 'grow' }), toggle),
    el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Lines of the change' }, table));
}
