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
  constructor({ title, detail, code, id }) {
    super(detail);
    Object.assign(this, { title, detail, code, id });
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

/** Sends a request with the API key of this tab, if there is one. A 401 shows the field for a key. */
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
  if (reply.status === 401) byId('key').hidden = false;
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

/** The form for the API key, hidden until a request was refused for want of one. */
const mountKey = (changed) => {
  const field = element('input', { type: 'password', autocomplete: 'off', required: true, name: 'key' });
  const forget = element('button', { type: 'button', textContent: 'Forget', hidden: !sessionStorage.getItem(KEY) });
  const form = element(
    'form',
    { className: 'key-form' },
    element('label', {}, 'API key, kept in this tab only', field),
    element('button', { className: 'main', textContent: 'Use' }),
    forget,
  );
  const keep = (key) => {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
    field.value = '';
    forget.hidden = !key;
    byId('key').hidden = Boolean(key);
    changed();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    keep(field.value.trim());
  });
  forget.addEventListener('click', () => keep(null));
  byId('key').append(element('h3', {}, 'The gateway asks for an API key'), form);
};
