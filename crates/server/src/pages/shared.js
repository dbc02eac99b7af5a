'use strict';
// For every page: elements, calls of the API, its errors, the API key.

/** An element with these properties and children. A child is a node or a text; a text never becomes markup. */
const element = (tag, properties = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
};

const byId = (id) => document.getElementById(id);

/** The parts of a text, with `code` between backticks as elements. */
const prose = (text) =>
  (text || '').split(/`([^`]+)`/).map((part, index) => (index % 2 ? element('code', {}, part) : part));

/** The pages of a citation, behind its document: `, page 137`. */
const pagesOf = ({ page, page_end: end, page_label: label, pages_approximate: approximate }) => {
  if (page === undefined || page === null) return '';
  const last = end && end !== page ? ` to ${end}` : '';
  return `, ${approximate ? 'about ' : ''}${last && !label ? 'pages' : 'page'} ${label ?? page}${last}`;
};

/** A command with a button that copies it. */
const command = (text) => {
  const button = element('button', { type: 'button', textContent: 'Copy' });
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not allowed';
    }
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  });
  return element('div', { className: 'copied' }, element('pre', {}, text), button);
};

/** What the API says went wrong: title, detail with its remedy, code and request id. */
class Problem extends Error {
  constructor({ title, detail, code, id, status }) {
    super(detail);
    Object.assign(this, { title, detail, code, id, status });
  }

  /** From a refusal in any of the dialects. */
  static async of(reply) {
    const id = reply.headers.get('x-request-id');
    const body = await reply.json().catch(() => null);
    const message = body?.error?.message ?? (typeof body?.error === 'string' ? body.error : null);
    return new Problem({
      title: body?.title ?? `The gateway answered ${reply.status}`,
      detail: body?.detail ?? message ?? 'The reply says no more; see the log of the gateway for the request.',
      code: body?.code ?? body?.error?.code ?? String(reply.status),
      id,
      status: reply.status,
    });
  }

  static unreachable() {
    return new Problem({
      title: 'The gateway cannot be reached',
      detail: 'Check that it is still running, and try again.',
    });
  }

  render() {
    const about = [this.code && `code \`${this.code}\``, this.id && `request \`${this.id}\``].filter(Boolean);
    return element(
      'div',
      { className: 'notice error', role: 'alert' },
      element('h3', {}, this.title),
      element('p', {}, prose(this.detail)),
      about.length ? element('p', { className: 'soft small' }, prose(about.join(', '))) : null,
    );
  }
}

const KEY = 'weir-api-key';

/** Shows the form for a key; `problem` says what is wrong with the one that was sent. `mountKey` sets it. */
let askForKey = () => {};

const WRONG_KEY =
  'The gateway does not accept this key: it is mistyped, revoked or expired. Check the whole text, or ask for another.';
const NARROW_KEY = 'This key is not allowed to do that. Enter another one, or ask for more rights.';

/** Sends a request with the API key of this tab, if there is one. A 401 or 403 shows the form for a key. */
const send = async (method, path, { headers, body, signal } = {}) => {
  const sent = new Headers(headers);
  const key = sessionStorage.getItem(KEY);
  if (key && !sent.has('authorization')) sent.set('authorization', `Bearer ${key}`);
  let reply;
  try {
    reply = await fetch(path, { method, headers: sent, body, signal, cache: 'no-store' });
  } catch (error) {
    throw error.name === 'AbortError' ? error : Problem.unreachable();
  }
  if (reply.status === 401) askForKey(key ? WRONG_KEY : null);
  if (reply.status === 403 && key) askForKey(NARROW_KEY);
  return reply;
};

/** Sends JSON and reads JSON; throws a `Problem`. */
const call = async (method, path, json, signal) => {
  const body = json === undefined ? undefined : JSON.stringify(json);
  const headers = json === undefined ? {} : { 'content-type': 'application/json' };
  const reply = await send(method, path, { headers, body, signal });
  if (!reply.ok) throw await Problem.of(reply);
  return reply.json();
};

/** The form for the API key, hidden until a request was refused for want of one. The key stays in the storage of this tab. */
const mountKey = (changed) => {
  const problem = element('p', { className: 'problem', id: 'key-problem', role: 'alert' });
  const field = element('input', {
    type: 'password',
    autocomplete: 'off',
    required: true,
    spellcheck: false,
    id: 'key-field',
    'aria-describedby': 'key-about key-problem',
  });
  const form = element(
    'form',
    { className: 'key-form' },
    element('div', {}, element('label', { htmlFor: 'key-field' }, 'API key'), field),
    element('button', { className: 'main', textContent: 'Use this key' }),
  );
  const forget = element('button', { type: 'button', className: 'link', textContent: 'Forget it' });
  const kept = element('p', { className: 'soft small', id: 'key-kept' }, 'An API key is in use in this tab. ', forget);
  const about =
    'A key says who asks and what may be searched; its text begins with `weir_`. You get one from whoever runs this gateway, who makes it by:';
  const keep = (key) => {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
    field.value = '';
    problem.textContent = '';
    byId('key').hidden = true;
    kept.hidden = !key;
    changed();
  };
  askForKey = (text) => {
    const isNew = byId('key').hidden;
    if (text) problem.textContent = text;
    if (text === WRONG_KEY) sessionStorage.removeItem(KEY);
    kept.hidden = !sessionStorage.getItem(KEY);
    byId('key').hidden = false;
    if (isNew) field.focus();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    keep(field.value.trim());
  });
  forget.addEventListener('click', () => keep(null));
  byId('key').append(
    element('h2', {}, 'This gateway asks for an API key'),
    element('p', { id: 'key-about' }, prose(about)),
    command('weir keys create "search page" --scopes search'),
    form,
    problem,
    element('p', { className: 'soft small' }, 'It is kept until this tab is closed, and is never in an address.'),
  );
  kept.hidden = !sessionStorage.getItem(KEY);
  byId('key').after(kept);
};
