// Passkeys: what the daemon asks of the browser, and what the browser answers, both as the
// JSON that WebAuthn names. Nothing is decided here.
'use strict';

const passkeys = (() => {
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
  const text = (buffer) => (buffer ? btoa(Array.from(new Uint8Array(buffer), (b) => String.fromCharCode(b)).join('')).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '') : undefined);
  const named = (list) => (list || []).map((c) => Object.assign({}, c, { id: bytes(c.id) }));

  // words says what went wrong in words that help; the browser's own are about its API.
  function words(e) {
    if (e.name === 'NotAllowedError') return new Error('No passkey was used: the request was dismissed, or took too long.');
    if (e.name === 'InvalidStateError') return new Error('This device has a passkey here already.');
    if (e.name === 'SecurityError') return new Error('Passkeys of this daemon do not work at this address.');
    return e;
  }

  // the parts that both kinds of answer have
  function answer(c, response) {
    return { id: c.id, rawId: text(c.rawId), type: c.type, authenticatorAttachment: c.authenticatorAttachment || undefined, clientExtensionResults: {}, response };
  }

  async function create(options) {
    const o = options.publicKey;
    try {
      const c = await navigator.credentials.create({ publicKey: Object.assign({}, o, { challenge: bytes(o.challenge), user: Object.assign({}, o.user, { id: bytes(o.user.id) }), excludeCredentials: named(o.excludeCredentials) }) });
      return answer(c, { clientDataJSON: text(c.response.clientDataJSON), attestationObject: text(c.response.attestationObject), transports: c.response.getTransports ? c.response.getTransports() : [] });
    } catch (e) { throw words(e); }
  }

  async function get(options) {
    const o = options.publicKey;
    try {
      const c = await navigator.credentials.get({ publicKey: Object.assign({}, o, { challenge: bytes(o.challenge), allowCredentials: named(o.allowCredentials) }) });
      return answer(c, { clientDataJSON: text(c.response.clientDataJSON), authenticatorData: text(c.response.authenticatorData), signature: text(c.response.signature), userHandle: text(c.response.userHandle) });
    } catch (e) { throw words(e); }
  }

  // ---- on the page of a hub, where no daemon asks: the passkey is this browser's own, and
  // each machine knows it by the text that make gives.

  async function make(name) {
    const random = () => crypto.getRandomValues(new Uint8Array(32));
    try {
      const c = await navigator.credentials.create({ publicKey: {
        rp: { id: location.hostname, name: 'Holdpoint' }, user: { id: random(), name, displayName: name }, challenge: random(), attestation: 'none',
        pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: 'public-key', alg })),
        authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' } } });
      return 'passkey:' + text(c.response.getAuthenticatorData()) + '@' + location.origin;
    } catch (e) { throw words(e); }
  }

  // over is what a touch signs: one answer, all of its words, to one card, as Statement.Digest
  // in review/proof.go has it.
  async function over(id, body) {
    const parts = ['holdpoint answer 1', id, body.shown_digest, body.answer, String(!!body.remember), body.note || '', ''].map((p) => new TextEncoder().encode(p));
    const all = new Uint8Array(parts.reduce((n, p) => n + 8 + p.length, 0));
    let at = 0;
    for (const p of parts) {
      new DataView(all.buffer).setBigUint64(at, BigInt(p.length));
      all.set(p, at + 8);
      at += 8 + p.length;
    }
    return text(await crypto.subtle.digest('SHA-256', all));
  }

  const touch = async (id, body) => get({ publicKey: { challenge: await over(id, body), rpId: location.hostname, userVerification: 'required', timeout: 120000 } });

  return { create, get, make, touch, there: () => !!(window.PublicKeyCredential && navigator.credentials) };
})();

// keyRow is one entry of a person's own, in the list of their keys.
function keyRow(key) {
  const kind = { passkey: 'Passkey', ed25519: 'Signing key', oidc: 'Account' }[key.kind] || visible(key.kind);
  return el('li', null, el('strong', null, kind), ' ', visible(key.device || key.account || ''), el('span', { class: 'fine' }, ' since ' + clock(key.created_at).slice(0, 10) +
    (key.used_at ? ', last used ' + clock(key.used_at) : '') + (key.expires_at ? ', until ' + clock(key.expires_at).slice(0, 10) : '')));
}

// device guesses a word for this device that its owner will know it by.
function device() {
  const agent = navigator.userAgent;
  for (const [sign, name] of [['iPhone', 'iPhone'], ['iPad', 'iPad'], ['Android', 'Android'], ['Mac OS', 'Mac'], ['Windows', 'Windows'], ['Linux', 'Linux']]) if (agent.includes(sign)) return name;
  return 'this device';
}
