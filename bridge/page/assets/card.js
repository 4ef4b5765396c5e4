// The card: what a person reads before they answer. Everything of it was frozen when the
// call was held; only the state, the drift and the time left move.
'use strict';

// destroys says whether approving takes a second step. What is not known destroys.
function destroys(card) { return card.effect !== 'write' && card.effect !== 'read'; }

const stateWords = {
  pending: 'waiting', approved: 'approved', executing: 'running', executed: 'done', failed: 'approved, but not done', rejected: 'rejected',
  expired: 'expired', cancelled: 'withdrawn', unknown: 'outcome unknown',
};

function badge(text, kind, title) { return el('span', { class: 'badge ' + kind, title }, text); }

// badges mark what sets a card apart; brief leaves out what most cards of a list have.
function badges(card, brief) {
  return [
    badge(visible(card.tier || '?') + (destroys(card) ? ' destructive' : ''), destroys(card) ? 'bad' : 'calm', 'the rank of this call, T0 to T4'),
    card.mandatory && !brief ? badge('always asked', 'calm', 'no switch of the author lifts this') : null,
    card.drifted ? badge('changed since', 'warn') : null,
    card.needs > 1 ? badge(((card.approved_by || []).length) + ' of ' + card.needs + ' approvals', 'warn') : null,
    card.state && card.state !== 'pending' ? badge(stateWords[card.state] || visible(card.state), 'calm') : null,
  ];
}

// timer counts down to the end of a card's time; brief is for the list.
function timer(card, brief) {
  if (card.state && card.state !== 'pending') return null;
  if (!card.expires_at) return brief ? null : el('span', { class: 'left' }, 'waits without limit');
  return el('span', { class: 'left', 'data-until': card.expires_at, 'data-brief': brief }, left(card.expires_at, Date.now(), brief));
}

// listRow is a card in the list.
function listRow(card, chosen, onSelect) {
  const title = visible(card.title);
  return el('li', { id: 'row-' + card.id },
    el('input', { type: 'checkbox', 'aria-label': 'Select: ' + title, checked: chosen, onchange: (e) => onSelect(card.id, e.target.checked) }),
    el('a', { href: '#/approvals/' + encodeURIComponent(card.id), class: 'row' },
      el('span', { class: 'top' }, el('span', { class: 'title' }, marked(card.title)), timer(card, true)),
      el('span', { class: 'line' }, marked((card.lines || [])[0] || '')),
      el('span', { class: 'meta' }, badges(card, true), el('span', null, visible([card.agent, card.root_name].filter(Boolean).join(' in '))))));
}

function linesOf(card) {
  const list = el('ul', { class: 'items' });
  chunked(list, card.lines || [], (line) => (line === null ? el('li') : el('li', null, marked(line))), 'line', 20, 5);
  return el('section', { 'aria-label': 'What it does' }, el('h3', null, 'What it does'), list);
}

function why(card) {
  return el('section', { 'aria-label': 'Why it waits' }, el('h3', null, 'Why it waits'),
    el('ul', { class: 'why' }, (card.reasons || []).map((r) => el('li', null, visible(r.sentence || r.code), ' ', el('code', null, visible(r.code))))));
}

function asked(card) {
  if (!card.intent) return el('p', { class: 'asked none' }, visible(card.agent) + ' gave no reason.');
  return el('figure', { class: 'asked' }, el('figcaption', null, 'They asked, in the words of ' + visible(card.agent) + ' and not checked:'),
    el('blockquote', null, marked(card.intent)));
}

function facts(card) {
  const rows = [
    ['Runs on', [card.host, card.dir].filter(Boolean).join(':') + (card.root_name ? ' (' + card.root_name + ')' : '')],
    ['Operation', card.op], ['Asked by', [card.agent, card.workflow && 'workflow ' + card.workflow, card.session && 'session ' + card.session].filter(Boolean).join(', ')],
    ['Asked at', clock(card.created_at)], ['Undo', card.undo], ['Identity', card.identity], ['Card', card.id], ['Note', card.reviewer_note],
  ];
  return el('dl', { class: 'facts' }, rows.filter((r) => r[1]).map((r) => el('div', null, el('dt', null, r[0]), el('dd', null, marked(r[1])))));
}

function exact(card) {
  let text = '';
  try { text = JSON.stringify(card.call, null, 2); } catch (e) { text = String(card.call); }
  return el('details', { class: 'exact', 'data-key': 'e' }, el('summary', null, 'Exact call'),
    el('p', { class: 'fine' }, 'This is what runs: the stored call and nothing else.'), el('pre', { tabindex: '0' }, marked(text)));
}

function warnings(list) {
  return (list || []).map((w) => el('p', { class: 'note warn' }, el('strong', null, visible(w.code)), ' ', marked(w.message)));
}

// showCard gives the whole card without its form.
function showCard(card) {
  return el('article', { class: 'card', 'data-id': card.id, 'aria-labelledby': 'title-' + card.id },
    el('header', null, el('h2', { id: 'title-' + card.id, tabindex: '-1' }, marked(card.title)), el('p', { class: 'meta' }, badges(card), el('span', null, visible([card.agent, card.root_name].filter(Boolean).join(' in '))), timer(card))),
    card.drifted ? el('p', { class: 'note warn', role: 'alert' }, el('strong', null, 'Changed since this was asked. '), marked(card.drifted), ' Approving would change nothing: the agent has to ask again.') : null,
    asked(card), linesOf(card), why(card), warnings(card.warnings), showDiff(card.diff), facts(card), exact(card));
}

// answered tells how a card ended.
function answered(view) {
  const card = view.card || {}, reply = view.reply || {}, state = view.state;
  const kind = state === 'executed' ? 'good' : state === 'pending' || state === 'executing' || state === 'approved' ? 'warn' : 'bad';
  const by = card.answered_by || (card.approved_by || []).join(', ');
  const out = el('section', { class: 'note ' + kind, role: 'status', 'aria-label': 'Answer' },
    el('strong', { class: 'state' }, state === 'pending' ? 'One approval is recorded; it takes another person.' : 'This card is ' + (stateWords[state] || visible(state)) + '.'),
    by ? el('p', null, 'Answered by ' + visible(by) + (card.answered_with === 'passkey' ? ' with a passkey.' : card.answered_with ? ' with a signing key.' : '.')) : null,
    view.note ? el('figure', { class: 'asked' }, el('figcaption', null, 'Words sent back:'), el('blockquote', null, marked(view.note))) : null,
    reply.error && state !== 'rejected' ? el('p', null, el('code', null, visible(reply.error.code)), ' ', marked(reply.error.message), reply.error.hint ? [' ', marked(reply.error.hint)] : null) : null);
  if (reply.operation_id) out.append(el('p', null, el('a', { href: '#/operations/' + encodeURIComponent(reply.operation_id) }, 'See the operation and its undo')));
  return out;
}

// answerForm asks for one word on one or several shown cards. send(word, note, remember)
// answers; approving what destroys takes a second press on another button.
function answerForm(cards, send) {
  const one = cards.length === 1 ? cards[0] : null;
  const act = one ? visible(one.title) : 'all ' + cards.length + ' cards';
  const drifted = cards.some((c) => c.drifted);
  const words = el('textarea', { id: 'words', rows: '1', maxlength: '4000' });
  words.addEventListener('input', () => { words.rows = Math.min(8, words.value.split('\n').length); });
  const remember = el('input', { type: 'checkbox', id: 'remember' });
  const reach = el('p', { class: 'fine', id: 'reach' });
  const second = el('div', { class: 'second', hidden: true });
  const error = el('p', { class: 'error', role: 'alert' });
  const approve = el('button', { type: 'button', class: 'primary approve', id: 'approve', disabled: drifted }, 'Approve: ' + act);
  const reject = el('button', { type: 'button', class: 'reject', id: 'reject' }, one ? 'Reject' : 'Reject all ' + cards.length);
  const form = el('form', { class: 'answer', 'aria-label': 'Answer' });
  const go = async (word) => {
    for (const b of form.querySelectorAll('button')) b.disabled = true;
    error.textContent = '';
    const wrong = await send(word, words.value, remember.checked && word === 'approve');
    if (wrong) {
      error.textContent = wrong;
      for (const b of form.querySelectorAll('button')) b.disabled = false;
      approve.disabled = drifted;
    }
  };
  const ask = () => {
    const yes = el('button', { type: 'button', class: 'primary danger', id: 'confirm', onclick: () => go('approve') }, 'Yes: ' + act);
    const no = el('button', { type: 'button', id: 'not-yet', onclick: () => { second.hidden = true; approve.hidden = false; approve.focus(); } }, 'Not yet');
    second.replaceChildren(el('p', { id: 'second-text' }, one ? 'This destroys or replaces something. ' + visible(one.undo ? 'It is ' + one.undo + '.' : '') : 'These are:'),
      one ? '' : el('ul', null, cards.map((c) => el('li', null, marked(c.title), destroys(c) ? ' (destructive)' : ''))), el('div', { class: 'buttons' }, yes, no));
    second.hidden = false;
    approve.hidden = true;
    no.focus(); // a second Enter by mistake must not be the yes
  };
  approve.addEventListener('click', () => (cards.some(destroys) || !one ? ask() : go('approve')));
  reject.addEventListener('click', () => go('reject'));
  form.addEventListener('submit', (e) => e.preventDefault());
  remember.addEventListener('change', async () => { reach.textContent = remember.checked && form.reach ? await form.reach() : ''; });
  add(form, [el('label', { for: 'words' }, 'Words for the agent (optional)'), words,
    el('div', { class: 'buttons' }, approve, reject, el('span', { class: 'grow' }),
      one && !one.one_shot && !(one.needs > 1) ? el('label', { class: 'check' }, remember, ' From now on let exactly this call run without asking') : null), reach, second, error]);
  return form;
}
