// The page: who is signed in, what is listed, what is open. The token lives in this
// closure and nowhere else.
'use strict';

(() => {
  const $ = (id) => document.getElementById(id);
  const pageSize = 100;
  const S = { token: '', cards: new Map(), next: 0, total: 0, selected: new Set(), gone: new Set(), seen: 0, stream: null, open: '', view: null, fresh: [], ops: [] };

  // ---- the API

  class Refused extends Error {
    constructor(status, body) {
      const e = (body && body.error) || {};
      super(e.message || 'the daemon answered ' + status);
      this.code = e.code || ''; this.hint = e.hint || ''; this.status = status; this.body = body || {};
    }
  }

  async function api(path, body, method, credentials) {
    const r = await fetch(path, {
      method: method || (body ? 'POST' : 'GET'), credentials: credentials || 'omit', cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer',
      headers: Object.assign({ Accept: 'application/json' }, S.token ? { Authorization: 'Bearer ' + S.token } : {}, body ? { 'Content-Type': 'application/json' } : {}),
      body: body ? JSON.stringify(body) : undefined,
    });
    let out = null;
    try { out = await r.json(); } catch (e) { /* no body is told by the status */ }
    if (r.status === 401 && S.token) signOut('Your session is over. Sign in again.');
    if (!r.ok && !(out && out.status)) throw new Refused(r.status, out);
    return out;
  }

  const words = (e) => visible(e.code ? e.code + ': ' + e.message + (e.hint ? '. ' + e.hint : '') : e.message);
  function say(text) { $('say').textContent = ''; setTimeout(() => { $('say').textContent = text; }, 20); }

  // ---- signing in

  $('login-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    const box = $('passphrase'), button = e.target.querySelector('button');
    $('login-error').textContent = '';
    button.disabled = true;
    try {
      const got = pairing ? await api('/v1/pair/claim', { code: pairing }) : await api('/v1/login', { passphrase: box.value });
      S.token = got.token;
      box.value = '';
      await begin();
    } catch (err) {
      $('login-error').textContent = words(err);
      box.select();
    } finally { button.disabled = false; pair(''); }
  });

  // A link of holdpoint pair holds a code that is good once. It leaves the address at once,
  // and is used only when a person asks for it.
  let pairing = '';
  function pair(code) {
    pairing = code;
    const form = $('login-form');
    for (const e of form.querySelectorAll('label, input')) e.hidden = !!code;
    $('passphrase').required = !code;
    $('login-text').hidden = !!code;
    form.querySelector('button').textContent = code ? 'Pair this device' : 'Sign in';
  }

  // An identity provider signs people in on its own page, and sends this browser back with
  // a code that is good once and for this browser. Which card was asked for is kept until then.
  async function provider() {
    const how = await api('/v1/login').catch(() => ({}));
    if (how.hub) {
      $('login-title').textContent = 'Sign in to see the cards';
      $('login-text').textContent = 'The passphrase of this hub was set, or printed once, when the hub first started. It shows cards and answers nothing: each answer takes your passkey.';
      $('login-form').querySelector('label').textContent = 'Passphrase of the hub';
    }
    if (!how.provider) return;
    const link = $('provider');
    link.hidden = false;
    link.textContent = 'Sign in with ' + visible(how.provider);
    link.addEventListener('click', () => { try { localStorage.setItem('asked', location.hash); } catch (e) { /* the list will do */ } });
  }

  async function signedIn(code) {
    try {
      const asked = localStorage.getItem('asked');
      localStorage.removeItem('asked');
      if (asked && asked.startsWith('#/')) window.history.replaceState(null, '', location.pathname + asked);
    } catch (e) { /* the list will do */ }
    try {
      if (code === 'refused') throw new Error('The sign-in was refused. Ask the operator whether your account is enrolled.');
      S.token = (await api('/v1/login/provider/claim', { code }, 'POST', 'same-origin')).token;
      await begin();
    } catch (e) { $('login-error').textContent = words(e); }
  }

  async function begin() {
    S.me = await api('/v1/me');
    $('login').hidden = true;
    for (const id of ['desk', 'tabs', 'live', 'keys', 'who', 'leave']) $(id).hidden = false;
    drawMe();
    $('tab-history').hidden = !!S.me.hub; // what was done is told by each machine
    // The list is read when the stream stands, so that nothing falls between the two.
    const listed = new Promise((done) => { S.listed = done; });
    listen();
    await listed;
    route();
  }

  function signOut(text) {
    S.token = '';
    if (S.stream) S.stream.abort();
    S.cards.clear(); S.selected.clear(); S.view = null;
    $('list').replaceChildren(); $('detail').replaceChildren();
    for (const id of ['desk', 'tabs', 'live', 'keys', 'who', 'leave']) $(id).hidden = true;
    $('login').hidden = false;
    $('login-error').textContent = text || '';
    $('passphrase').focus();
  }
  $('leave').addEventListener('click', () => signOut('Signed out.'));

  // ---- the person's own passkeys

  function drawMe() {
    if (S.me.hub) return drawMine();
    const m = S.me, signing = m.keys.filter((k) => k.kind === 'passkey');
    $('who').hidden = !m.site && !signing.length;
    $('who').replaceChildren(signing.length ? '\u26B7 \u2713' : '\u26B7', el('span', { class: 'wide-only' }, ' ' + visible(m.name)));
    $('who').setAttribute('aria-label', visible(m.name) + (signing.length ? ', answers with a passkey' : ', has no passkey'));
    $('mine-text').textContent = signing.length ? 'Each answer of ' + visible(m.name) + ' takes a touch of one of these. A token or a stolen session cannot answer.'
      : 'Once you register one, each of your answers takes a touch of it, so that no other program can answer for you, whatever secret it has found.' + (m.needs_passkey ? ' Answers need one here.' : '');
    $('mine-keys').replaceChildren(...m.keys.map(keyRow));
    const able = m.register && passkeys.there();
    for (const e of $('mine-form').querySelectorAll('label, input, #register')) e.hidden = !able;
    $('mine-error').textContent = able ? '' : visible(m.why || 'This browser has no passkeys.');
    $('mine-device').value = device();
  }

  // drawMine is for the page of a hub: it knows nobody, and the machines know the passkey.
  function drawMine() {
    $('who').hidden = false;
    $('who').replaceChildren('\u26B7', el('span', { class: 'wide-only' }, ' Passkey'));
    $('who').setAttribute('aria-label', 'Your passkey for the machines');
    $('mine-text').textContent = 'An answer here takes a touch of a passkey that was registered on this page, and the machine with the files checks it. ' +
      'Register one, and have the operator of each machine enroll it there: holdpoint reviewer add --name NAME --passkey TEXT.';
    const able = passkeys.there();
    for (const e of $('mine-form').querySelectorAll('label, input, #register')) e.hidden = !able;
    $('mine-error').textContent = able ? '' : 'This browser has no passkeys.';
    $('mine-device').value = device();
  }

  async function makeMine() {
    const made = $('made');
    made.value = await passkeys.make($('mine-device').value || device());
    made.hidden = false;
    made.focus(); made.select();
    say('The passkey is made. Its text is for the operators of the machines.');
  }

  async function prove(ask) { return { assertion: await passkeys.get(ask) }; }

  $('who').addEventListener('click', () => { drawMe(); $('mine').showModal(); });
  $('mine-close').addEventListener('click', () => $('mine').close());
  $('mine-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    $('mine-error').textContent = '';
    $('register').disabled = true;
    try {
      if (S.me.hub) return await makeMine();
      let next = await api('/v1/passkeys/begin', {});
      if (next.prove) next = await api('/v1/passkeys/begin', { proof: await prove(next.prove) });
      await api('/v1/passkeys', { device: $('mine-device').value, credential: await passkeys.create(next.create) });
      S.me = await api('/v1/me');
      drawMe();
      say('The passkey is registered.');
    } catch (err) { $('mine-error').textContent = words(err); } finally { $('register').disabled = false; }
  });

  // ---- the list

  async function reload() {
    const got = await api('/v1/approvals?state=pending&limit=' + pageSize);
    S.cards = new Map(got.approvals.map((c) => [c.id, c]));
    S.next = got.next || 0;
    S.total = got.total ?? got.approvals.length;
    S.gone.clear();
    for (const id of S.selected) if (!S.cards.has(id)) S.selected.delete(id);
    if (!onHistory()) drawList();
  }

  async function more() {
    $('more').disabled = true;
    try {
      const got = await api('/v1/approvals?state=pending&limit=' + pageSize + '&next=' + S.next);
      S.next = got.next || 0;
      S.total = got.total ?? S.total;
      for (const c of got.approvals) { S.cards.set(c.id, c); $('list').append(listRow(c, false, select)); }
      tally();
    } catch (e) { say(words(e)); } finally { $('more').disabled = false; }
  }
  $('more').addEventListener('click', () => (onHistory() ? moreHistory() : more()));

  function drawList() {
    const list = $('list');
    redrawn(() => {
      list.replaceChildren();
      for (const c of S.cards.values()) list.append(listRow(c, S.selected.has(c.id), select));
    });
    $('list-title').textContent = 'Waiting for a person';
    tally();
    current();
  }

  function tally() {
    S.total = Math.max(S.total, S.cards.size);
    $('count').textContent = S.total.toLocaleString('en');
    document.title = (S.total ? '(' + S.total + ') ' : '') + 'Holdpoint review';
    if (onHistory()) return;
    $('empty').hidden = S.total > 0;
    $('empty').textContent = 'Nothing waits. New requests appear here by themselves.';
    const rest = S.total - S.cards.size;
    $('more').hidden = !(S.next && rest > 0);
    $('more').textContent = 'Show ' + Math.min(pageSize, rest) + ' more (' + rest.toLocaleString('en') + ' not shown)';
    $('together').hidden = S.selected.size < 2;
    $('together').textContent = 'Review ' + S.selected.size + ' together';
  }

  function select(id, on) { if (on) S.selected.add(id); else S.selected.delete(id); tally(); }
  $('together').addEventListener('click', () => { location.hash = '#/together/' + [...S.selected].map(encodeURIComponent).join(','); });

  function current() {
    for (const a of document.querySelectorAll('#list a[aria-current]')) a.removeAttribute('aria-current');
    const row = S.open && $('row-' + S.open);
    if (row) row.querySelector('a').setAttribute('aria-current', 'true');
  }

  function drop(id) {
    if (S.gone.has(id)) return; // its answer and its event both come here
    S.gone.add(id);
    S.cards.delete(id);
    if (S.total > 0) S.total--;
    S.selected.delete(id);
    const row = !onHistory() && $('row-' + id);
    if (row) {
      const next = row.contains(document.activeElement) && (row.nextElementSibling || row.previousElementSibling);
      row.remove();
      if (next) next.querySelector('a').focus();
    }
    tally();
  }

  function put(card) {
    const known = S.cards.has(card.id);
    S.cards.set(card.id, card);
    if (onHistory()) return;
    const row = listRow(card, S.selected.has(card.id), select);
    const old = known && $('row-' + card.id);
    redrawn(() => { if (old) old.replaceWith(row); else $('list').append(row); });
    current();
  }

  // A row that is drawn anew keeps the focus that it had, so that the next key goes on from it.
  function redrawn(draw) {
    const on = document.activeElement, row = on && on.closest && on.closest('#list li');
    draw();
    const now = row && !row.isConnected && row.id && $(row.id);
    if (now) now.querySelector(on.matches('input') ? 'input' : 'a').focus();
  }

  // ---- what happens while the page is open

  async function listen() {
    if (S.stream) S.stream.abort();
    const stop = S.stream = new AbortController();
    let wait = 500;
    while (!stop.signal.aborted && S.token) {
      try {
        const headers = { Authorization: 'Bearer ' + S.token, Accept: 'text/event-stream' };
        if (S.seen) headers['Last-Event-ID'] = String(S.seen);
        const r = await fetch('/v1/events' + (S.seen ? '' : '?from=now'), { headers, credentials: 'omit', cache: 'no-store', signal: stop.signal, referrerPolicy: 'no-referrer' });
        if (r.status === 401) return signOut('Your session is over. Sign in again.');
        if (!r.ok) throw new Error('no stream');
        $('live').textContent = 'live'; $('live').className = 'live on';
        wait = 500;
        if (S.listed) { await reload(); S.listed(); S.listed = null; }
        await follow(r.body.getReader());
      } catch (e) { if (stop.signal.aborted) return; }
      $('live').textContent = 'reconnecting'; $('live').className = 'live';
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 10000);
      if (S.listed) { S.listed(); S.listed = null; }
      if (!stop.signal.aborted && S.token) try { await reload(); if (S.open) await refresh(); } catch (e) { /* the next turn tries again */ }
    }
  }

  async function follow(reader) {
    const decode = new TextDecoder();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decode.decode(value, { stream: true });
      let end;
      while ((end = rest.indexOf('\n\n')) >= 0) {
        const block = rest.slice(0, end);
        rest = rest.slice(end + 2);
        const ev = { event: '', data: '' };
        for (const line of block.split('\n')) {
          const m = line.match(/^(id|event|data): ?(.*)$/);
          if (m) ev[m[1]] = m[2];
        }
        if (ev.id) S.seen = Number(ev.id);
        if (ev.data) try { happened(ev.event, JSON.parse(ev.data).data || {}); } catch (e) { /* not ours to read */ }
      }
    }
  }

  let flushing = 0;
  function happened(kind, data) {
    const id = data.approval_id;
    if (kind === 'approval.requested') {
      S.fresh.push(id);
      if (!flushing) flushing = setTimeout(arrive, 150);
    } else if (kind === 'approval.answered' || kind === 'approval.expired') {
      if (data.state !== 'pending') drop(id);
      shown(id);
    } else if (kind === 'pins.drifted') {
      const card = S.cards.get(id);
      if (card) put(Object.assign({}, card, { drifted: data.drifted ? 'changed since this was asked' : '' }));
      shown(id);
    } else if (kind === 'operation.done' || kind === 'operation.undone') {
      if (onHistory()) { clearTimeout(happened.later); happened.later = setTimeout(history, 300); }
    }
  }

  // shown reads an open card anew, unless this page is just answering it.
  function shown(id) {
    const one = S.view && S.view.ids && S.view.ids.includes(id);
    if (one && !S.view.busy) { clearTimeout(shown.later); shown.later = setTimeout(refresh, 60); }
  }

  // arrive takes in what was requested: a few one by one, a flood by the list itself.
  async function arrive() {
    const ids = S.fresh.splice(0).filter((id) => !S.cards.has(id));
    flushing = 0;
    if (!ids.length) return;
    if (S.next || ids.length > 8) {
      if (S.next) { S.total += ids.length; tally(); } else await reload().catch(() => {});
    } else {
      for (const id of ids) {
        try {
          const v = await api('/v1/approvals/' + encodeURIComponent(id));
          if (v.state === 'pending' && v.card) { S.total++; put(v.card); }
        } catch (e) { /* gone again */ }
      }
      tally();
    }
    say(ids.length === 1 ? 'A new card waits.' : ids.length + ' new cards wait.');
  }

  // ---- one card, or several

  async function openCards(ids) {
    S.open = ids.length === 1 ? ids[0] : '';
    current();
    const view = S.view = { ids, busy: false };
    const detail = $('detail');
    document.body.classList.add('reading');
    try {
      const views = await Promise.all(ids.map((id) => api('/v1/approvals/' + encodeURIComponent(id))));
      if (S.view !== view) return;
      view.views = views;
      drawCards(view);
      const h = detail.querySelector('h2');
      if (h) h.focus();
    } catch (e) {
      if (S.view === view) detail.replaceChildren(back(), el('p', { class: 'note bad', role: 'alert' }, words(e)));
    }
  }

  function back() { return el('p', { class: 'back' }, el('a', { href: onHistory() ? '#/history' : '#/' }, '← Back to the list')); }

  function drawCards(view) {
    const open = view.views.filter((v) => v.state === 'pending' && v.card);
    const parts = [back()];
    if (view.views.length > 1) parts.push(el('h2', { class: 'many', tabindex: '-1' }, plural(view.views.length, 'card') + ' to answer together'));
    for (const v of view.views) {
      if (v.card) parts.push(showCard(v.card));
      if (v.state !== 'pending' || (v.card && (v.card.approved_by || []).length)) parts.push(answered(v));
    }
    if (open.length) {
      const form = answerForm(open.map((v) => v.card), (word, note, remember) => answer(view, open, word, note, remember));
      if (open.length === 1) {
        form.reach = async () => {
          try {
            const r = await api('/v1/approvals/' + encodeURIComponent(open[0].id) + '/reach');
            return 'Of the requests so far it would have let ' + r.covered + ' through' + (r.rejected ? ', ' + r.rejected + ' of them rejected by a person.' : '.');
          } catch (e) { return words(e); }
        };
      }
      parts.push(form);
    }
    $('detail').replaceChildren(...parts);
  }

  // refresh reads what is open anew and keeps the words that were typed.
  async function refresh() {
    const view = S.view;
    if (!view || !view.ids || view.busy) return;
    try {
      const views = await Promise.all(view.ids.map((id) => api('/v1/approvals/' + encodeURIComponent(id))));
      if (S.view !== view || view.busy) return;
      const typed = $('words') ? $('words').value : '';
      const was = view.views ? view.views.map((v) => v.state).join() : '';
      view.views = views;
      drawCards(view);
      if ($('words')) $('words').value = typed;
      if (was && was !== views.map((v) => v.state).join()) say('The open card is ' + (stateWords[views[0].state] || views[0].state) + '.');
      else if (views.some((v) => v.card && v.card.drifted)) say('The open card has changed since it was asked.');
    } catch (e) { /* the next event tries again */ }
  }

  // sendAnswer has the person touch their passkey where they have one. What is signed is
  // this answer, with its words, to this card.
  async function sendAnswer(id, body) {
    const at = '/v1/approvals/' + encodeURIComponent(id);
    if (S.me.hub) body = Object.assign({ proof: { assertion: await passkeys.touch(id, body) } }, body);
    else if (S.me.needs_passkey) body = Object.assign({ proof: await prove(await api(at + '/challenge', body)) }, body);
    return api(at + '/answer', body);
  }

  async function answer(view, open, word, note, remember) {
    view.busy = true;
    let wrong = '';
    for (const v of open) {
      try {
        const got = await sendAnswer(v.id, { answer: word, note, remember, shown_digest: v.card.shown_digest });
        Object.assign(v, got);
      } catch (e) {
        if (e.body && e.body.approval) { Object.assign(v, e.body.approval); say('Somebody answered first.'); } else { wrong = wrong || words(e); }
      }
      if (v.state !== 'pending') drop(v.id);
    }
    view.busy = false;
    if (wrong && open.every((v) => v.state === 'pending')) return wrong;
    if (S.view === view) {
      drawCards(view);
      const told = $('detail').querySelector('[role=status]');
      if (told) { told.tabIndex = -1; told.focus(); }
    }
    return wrong;
  }

  // ---- history and undo

  function onHistory() { return /^#\/(history|operations\/)/.test(location.hash); }

  async function history() {
    const got = await api('/v1/operations?limit=' + pageSize);
    S.ops = got.operations || [];
    S.opsNext = got.next || 0;
    if (!onHistory()) return;
    $('list-title').textContent = 'What was done, newest first';
    $('list').replaceChildren(...S.ops.map(operationRow));
    $('empty').hidden = S.ops.length > 0;
    $('empty').textContent = 'Nothing was changed yet.';
    $('together').hidden = true;
    $('more').hidden = !S.opsNext;
    $('more').textContent = 'Show more';
    current();
  }

  async function moreHistory() {
    const got = await api('/v1/operations?limit=' + pageSize + '&next=' + S.opsNext);
    S.opsNext = got.next || 0;
    $('list').append(...(got.operations || []).map(operationRow));
    $('more').hidden = !S.opsNext;
  }

  const acts = {
    write_file: 'Write', edit_file: 'Edit', patch_file: 'Patch', copy_file: 'Copy', create_directory: 'Make directory', backup_file: 'Back up', delete_file: 'Delete',
    move_file: 'Move', rollback_file: 'Roll back', batch_file_ops: 'Batch', workspace_shell: 'Run', workspace_tests: 'Run tests',
  };
  // what names an operation as a person would: the act, and one path or how many.
  function what(o, paths) {
    if (o.op === 'undo') return 'Undo' + (o.undoes ? ' of ' + visible(o.undoes) : '');
    const act = acts[o.op] || visible(o.op);
    if (!paths.length) return act;
    return act + ' ' + (paths.length === 1 ? visible(paths[0].slice(paths[0].lastIndexOf('/') + 1)) : plural(paths.length, 'path'));
  }

  const undoWords = { available: 'can be undone', consumed: 'undone', expired: 'undo expired', none: '' };

  function operationRow(o) {
    const paths = o.paths || [];
    return el('li', { id: 'row-' + o.id }, el('a', { href: '#/operations/' + encodeURIComponent(o.id), class: 'row' },
      el('span', { class: 'top' }, el('span', { class: 'title' }, what(o, paths)), el('span', { class: 'left' }, ago(o.time, Date.now()))),
      el('span', { class: 'line' }, marked(paths[0] || ''), paths.length > 1 ? ' and ' + (paths.length - 1) + ' more' : ''),
      el('span', { class: 'meta' }, undoWords[o.undo] ? badge(undoWords[o.undo], o.undo === 'available' ? 'good' : 'calm') : null, o.tree === 'drifted' ? badge('changed since', 'calm') : null,
        el('span', null, visible(o.agent + (o.answered_by ? ', approved by ' + o.answered_by : ''))), el('code', null, visible(o.op)))));
  }

  async function openOperation(id) {
    S.open = id; S.view = { op: id };
    const view = S.view;
    document.body.classList.add('reading');
    current();
    try {
      const d = await api('/v1/operations/' + encodeURIComponent(id));
      if (S.view === view) drawOperation(d);
    } catch (e) { $('detail').replaceChildren(back(), el('p', { class: 'note bad', role: 'alert' }, words(e))); }
  }

  function drawOperation(d) {
    const o = d.operation, view = S.view;
    const list = el('ul', { class: 'items' });
    chunked(list, d.effects || [], (f) => (f === null ? el('li') : el('li', null, el('strong', null, visible(f.change)), ' ', marked(f.path), f.to ? [' → ', marked(f.to)] : null)), 'effect', 20, 5);
    const error = el('div');
    const buttons = el('div', { class: 'buttons' });
    const undo = async (force) => {
      for (const b of buttons.children) b.disabled = true;
      let r;
      try { r = await api('/v1/undo', { operation_id: o.id, force }); } catch (e) { r = { status: 'failed', error: e }; }
      if (r.status === 'done') say('Undone.');
      if (S.view !== view) return; // whoever went elsewhere stays there
      if (r.status === 'done') { await openOperation(o.id); await history(); return; }
      const e = r.error || { code: r.status, message: 'it was not undone' };
      error.replaceChildren(el('p', { class: 'note bad', role: 'alert' }, words(e), e.path ? [' ', el('code', null, marked(e.path))] : null));
      for (const b of buttons.children) b.disabled = false;
      if (e.code === 'undo_conflict' && !force && !$('force')) {
        buttons.append(el('button', { type: 'button', class: 'danger', id: 'force', onclick: () => undo(true) }, 'Undo anyway; the later version is kept and can be brought back'));
      }
    };
    if (o.undo === 'available') {
      const ask = el('button', { type: 'button', class: 'primary', id: 'undo' }, 'Undo: ' + what(o, o.paths || []));
      ask.addEventListener('click', () => {
        const yes = el('button', { type: 'button', class: 'primary danger', id: 'undo-yes', onclick: () => undo(false) }, 'Yes, put it back as it was');
        const no = el('button', { type: 'button', onclick: () => { buttons.replaceChildren(ask); ask.focus(); } }, 'Not yet');
        buttons.replaceChildren(yes, no);
        no.focus();
      });
      buttons.append(ask);
    }
    const rows = [['Operation', visible(o.op) + ', ' + o.id], ['When', clock(o.time)], ['Asked by', [o.agent, o.session && 'session ' + o.session].filter(Boolean).join(', ')],
      ['Decided', o.reason], ['Approved by', o.answered_by], ['Approved as', o.approval_id], ['Undoes', o.undoes], ['Undone by', o.undone_by], ['Undo', (undoWords[o.undo] || 'none') + (o.undo === 'available' ? ' until ' + clock(o.expires_at).slice(0, 10) : '')]];
    const title = el('h2', { tabindex: '-1' }, what(o, o.paths || []));
    $('detail').replaceChildren(back(), el('article', { class: 'card' }, el('header', null, title),
      el('section', { 'aria-label': 'Effects' }, el('h3', null, 'What changed, ' + plural((d.effects || []).length, 'effect')), list), showDiff(visible(d.diff, true)) || '',
      el('dl', { class: 'facts' }, rows.filter((r) => r[1]).map((r) => el('div', null, el('dt', null, r[0]), el('dd', null, marked(r[1])))))), error, buttons);
    title.focus();
  }

  // ---- where the address points

  async function route() {
    if (!S.token) return;
    const at = location.hash;
    for (const [id, on] of [['tab-waiting', !onHistory()], ['tab-history', onHistory()]]) {
      if (on) $(id).setAttribute('aria-current', 'page'); else $(id).removeAttribute('aria-current');
    }
    const m = at.match(/^#\/(approvals|together|operations)\/(.+)$/);
    const mode = onHistory() ? 'history' : 'waiting';
    if (mode !== S.mode) { S.mode = mode; if (mode === 'history') await history().catch((e) => say(words(e))); else drawList(); }
    if (m && m[1] === 'operations') return openOperation(decodeURIComponent(m[2]));
    if (m) return openCards(m[2].split(',').map(decodeURIComponent));
    S.open = ''; S.view = null;
    document.body.classList.remove('reading');
    const key = (k) => el('kbd', null, k);
    $('detail').replaceChildren(el('div', { class: 'none' }, el('p', null, onHistory() ? 'Choose an operation to see what it changed.' : 'Choose a card to read it.'),
      el('p', { class: 'fine' }, key('j'), ' ', key('k'), ' to move, ', key('Enter'), ' to open, ', key('?'), ' for all keys')));
    current();
  }
  window.addEventListener('hashchange', route);

  setInterval(() => {
    const now = Date.now();
    for (const t of document.querySelectorAll('[data-until]')) {
      const ms = Date.parse(t.dataset.until) - now;
      t.textContent = left(t.dataset.until, now, 'brief' in t.dataset);
      t.classList.toggle('soon', ms < 300000);
    }
  }, 1000);

  // ---- keys

  function step(by) {
    const rows = [...document.querySelectorAll('#list a.row')];
    if (!rows.length) return;
    let at = rows.indexOf(document.activeElement);
    if (at < 0) at = rows.findIndex((a) => a.hasAttribute('aria-current'));
    const to = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    to.focus();
    to.scrollIntoView({ block: 'nearest' });
  }

  const press = {
    j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1),
    x: () => {
      const li = document.activeElement.closest && document.activeElement.closest('#list li');
      const box = (li || (S.open && $('row-' + S.open)) || document.createElement('i')).querySelector('input');
      if (box) { box.checked = !box.checked; select(box.closest('li').id.slice(4), box.checked); }
    },
    t: () => { if (S.selected.size > 1) $('together').click(); },
    a: () => { const b = $('confirm') && !$('confirm').closest('[hidden]') ? $('not-yet') : $('approve'); if (b) b.focus(); },
    r: () => { if ($('words')) $('words').focus(); },
    u: () => { if ($('undo')) $('undo').focus(); },
    d: () => { const b = document.querySelector('[data-key=d]'); if (b) b.click(); },
    e: () => { const d = document.querySelector('details[data-key=e]'); if (d) d.open = !d.open; },
    h: () => { if (!S.me.hub) location.hash = '#/history'; }, w: () => { location.hash = '#/'; },
    Escape: () => { location.hash = onHistory() ? '#/history' : '#/'; },
    '?': () => $('help').showModal(),
  };
  document.addEventListener('keydown', (e) => {
    if (!S.token || e.ctrlKey || e.metaKey || e.altKey || $('help').open) return;
    const typing = /^(TEXTAREA|SELECT)$/.test(e.target.tagName) || (e.target.tagName === 'INPUT' && e.target.type !== 'checkbox');
    if (typing) {
      if (e.key === 'Escape') e.target.blur();
      return;
    }
    if (e.key.startsWith('Arrow') && e.target.closest('.scroll, pre')) return; // scrolls there
    const act = press[e.key];
    if (act) { e.preventDefault(); act(); }
  });
  $('keys').addEventListener('click', () => $('help').showModal());

  // ---- light and dark

  const themes = ['auto', 'light', 'dark'];
  function theme(t) {
    if (t === 'auto') document.documentElement.removeAttribute('data-theme'); else document.documentElement.dataset.theme = t;
    $('theme').replaceChildren({ auto: '◐', light: '☀', dark: '☾' }[t], el('span', { class: 'wide-only' }, ' ' + t));
    $('theme').setAttribute('aria-label', 'Theme: ' + t);
    try { localStorage.setItem('theme', t); } catch (e) { /* kept for this page only */ }
    S.theme = t;
  }
  $('theme').addEventListener('click', () => theme(themes[(themes.indexOf(S.theme) + 1) % 3]));
  let kept = 'auto';
  try { kept = localStorage.getItem('theme'); } catch (e) { /* none is kept */ }
  theme(themes.includes(kept) ? kept : 'auto');

  $('login').hidden = false;
  provider();
  const returned = /^#\/signin\/(refused|[0-9A-Z]{24})$/.exec(location.hash);
  const code = /^#\/pair\/([0-9A-Z]{8})$/.exec(location.hash);
  if (returned) {
    window.history.replaceState(null, '', location.pathname);
    signedIn(returned[1]);
  } else if (code) {
    window.history.replaceState(null, '', location.pathname);
    pair(code[1]);
    $('login-form').querySelector('button').focus();
  } else $('passphrase').focus();
})();
