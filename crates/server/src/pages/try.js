'use strict';
// A form for each route that sends a request and shows the reply, and the same request as a command.

/** Longer replies are cut off on the page, in characters. */
const SHOWN_MAX = 200_000;

/** Values to choose from, for parameters that name things of this gateway: read once, when they are first needed. */
const listed = {};
const list = (path, read) => {
  listed[path] ??= call('GET', path).then(read, () => []);
  return listed[path];
};
/** The names of models with a capability. */
const models = (capability) =>
  list('/v1/models', ({ data }) => data).then((all) =>
    all.filter((one) => one.capabilities.includes(capability)).flatMap((one) => [one.id, ...one.alias]),
  );

/** What the model of an example must be able to do. */
const capabilityOf = (group) => ({ 'Language models': 'chat', Rerank: 'rerank' })[group] ?? 'embeddings';

/** The collections, that with the most documents first. */
const collections = () =>
  list('/v1/collections', ({ data }) => data.toSorted((a, b) => b.document_count - a.document_count));

/** The collection that examples read: that of the sample if it has documents, or the largest. */
const ownCollection = async () => {
  const all = await collections();
  const sample = all.find((one) => one.name === 'default' && one.document_count > 0);
  return (sample ?? all[0])?.name;
};

/** Some documents of it. */
const documents = async () => {
  const name = await ownCollection();
  if (name === undefined) return [];
  return list(`/v1/collections/${encodeURIComponent(name)}/documents?limit=20`, ({ data }) => data);
};

/** Whether documents of this gateway have the fields of a filter; one that no document has is an error. */
const hasFields = async (filter) => {
  const fields = new Set((await documents()).flatMap((one) => Object.keys(one.metadata)));
  return Object.keys(filter).every((field) => fields.has(field));
};

/** Names of this gateway for a parameter. What the example of a `PUT` or `DELETE` names is left to it. */
const choicesOf = (path, method, name) => {
  if (name === 'collection' || name === 'name')
    return Promise.all([ownCollection(), collections()]).then(([own, all]) => [
      ...new Set([own, ...all.map((one) => one.name)].filter((one) => one !== undefined)),
    ]);
  if (path.startsWith('/v1/jobs/{id}')) return list('/v1/jobs', ({ data }) => data.map((one) => one.job_id));
  if (path.startsWith('/v1/keys/{id}')) return list('/v1/keys', ({ data }) => data.map((one) => String(one.id)));
  if (path.endsWith('models/{id}')) return models('embeddings');
  if (path.endsWith('/documents/{id}') && method === 'get')
    return documents().then((all) => all.map((one) => one.id));
  return null;
};

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a command line; curl encodes the query where it has to be encoded. */
const curlOf = ({ method, path, query, headers, body }) => {
  const isPlain = method === 'GET' || (method === 'POST' && body);
  const isInAddress = method !== 'GET' || !/[^\w=&.-]/.test(decodeURIComponent(query));
  const address = location.origin + path + (isInAddress && query ? `?${query}` : '');
  const parts = [`curl -s${isInAddress ? '' : 'G'}${isPlain ? '' : ` -X ${method}`} ${quoted(address)}`];
  for (const [name, value] of headers) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (sessionStorage.getItem(KEY)) parts.push('-H "authorization: Bearer $WEIR_API_KEY"');
  if (!isInAddress)
    for (const [name, value] of new URLSearchParams(query))
      parts.push(`--data-urlencode ${quoted(`${name}=${value}`)}`);
  if (body) parts.push(`-d ${quoted(body)}`);
  return parts.join(' \\\n  ');
};

/** The headers in lines of `name: value`. */
const headersIn = (text) =>
  text
    .split('\n')
    .map((line) => line.split(/:(.*)/s))
    .filter(([name, value]) => name.trim() && value)
    .map(([name, value]) => [name.trim(), value.trim()]);

/** Values that fit are written in one line, in characters. */
const LINE_MAX = 88;

/** JSON for people: small values in a line, the items of others in lines of their own. */
const pretty = (value, indent = '') => {
  const separated = (items, open, close) => {
    const line = `${open}${items.join(', ')}${close}`;
    if (line.length + indent.length <= LINE_MAX && !line.includes('\n')) return line;
    return `${open}\n${items.map((item) => `${indent}  ${item}`).join(',\n')}\n${indent}${close}`;
  };
  // an embedding: the page breaks its line
  if (Array.isArray(value) && value.every((item) => typeof item === 'number')) return `[${value.join(', ')}]`;
  if (Array.isArray(value))
    return separated(
      value.map((item) => pretty(item, `${indent}  `)),
      '[',
      ']',
    );
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return separated(
    Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${pretty(inner, `${indent}  `)}`),
    '{',
    '}',
  );
};

const bodyOf = async (reply) => {
  const type = reply.headers.get('content-type') || '';
  if (type.startsWith('application/octet-stream')) return `${(await reply.arrayBuffer()).byteLength} bytes`;
  const text = await reply.text();
  let shown = text;
  if (type.includes('json')) {
    try {
      shown = pretty(JSON.parse(text));
    } catch {
      /* shown as it came */
    }
  }
  return shown.length > SHOWN_MAX
    ? `${shown.slice(0, SHOWN_MAX)}\n… ${shown.length - SHOWN_MAX} more characters`
    : shown;
};

/** Sends the request and shows status, headers and body of its reply. */
const attempt = async (request, output, button) => {
  button.disabled = true;
  output.replaceChildren(element('p', { className: 'soft' }, 'Waiting for the reply …'));
  const started = performance.now();
  try {
    const reply = await send(request.method, request.path + (request.query && `?${request.query}`), {
      headers: request.headers,
      body: request.body || undefined,
    });
    const body = await bodyOf(reply);
    const took = Math.round(performance.now() - started);
    const headers = [...reply.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
    output.replaceChildren(
      element(
        'p',
        {},
        element('span', { className: `status ${reply.ok ? 'good' : 'bad'}` }, `${reply.status} ${reply.statusText}`),
        ` in ${took} ms`,
      ),
      element('pre', { tabIndex: 0 }, body || '(no body)'),
      element(
        'details',
        {},
        element('summary', { className: 'small' }, 'Headers of the reply'),
        element('pre', {}, headers),
      ),
    );
  } catch (error) {
    output.replaceChildren(error instanceof Problem ? error.render() : String(error));
  }
  button.disabled = false;
};

let inputs = 0;

/** One parameter: its label and its input, with what there is to choose from. */
const parameterInput = (path, method, parameter) => {
  const id = `parameter-${++inputs}`;
  const input = element('input', {
    id,
    name: parameter.name,
    value: parameter.example ?? '',
    required: parameter.in === 'path',
    spellcheck: false,
  });
  const choices = choicesOf(path, method, parameter.name);
  const options = element('datalist', { id: `${id}-choices` });
  let filled = null;
  if (choices) {
    input.setAttribute('list', options.id);
    filled = choices.then((values) => {
      options.replaceChildren(...values.map((value) => element('option', { value })));
      // an example cannot know the names of this gateway
      const isReplaced = parameter.in === 'path' && !['put', 'delete'].includes(method);
      const isOwn = parameter.name === 'name' ? input.value === values[0] : values.includes(input.value);
      if (isReplaced && values.length && !isOwn) {
        input.value = values[0];
        input.dispatchEvent(new Event('input', { bubbles: true }));
      }
    });
  }
  if (parameter.name === 'filter' && parameter.example) {
    filled = hasFields(JSON.parse(parameter.example)).then((isKnown) => {
      if (isKnown) return;
      input.value = '';
      input.dispatchEvent(new Event('input', { bubbles: true }));
    });
  }
  const label = element(
    'label',
    { htmlFor: id },
    element('code', {}, parameter.name),
    parameter.in === 'path' ? ' in the path' : ' in the query',
  );
  return { parameter, input, filled, node: element('div', {}, label, input, options) };
};

/** A text area as high as its text. */
const area = (label, text, name) => {
  const id = `area-${++inputs}`;
  const input = element('textarea', {
    id,
    name,
    value: text,
    rows: Math.min(24, text.split('\n').length),
    spellcheck: false,
  });
  return { input, node: element('div', {}, element('label', { htmlFor: id }, label), input) };
};

/** Puts a model and a collection of this gateway into an example that names others. */
const useOwnNames = async (example, input, group) => {
  const names = example.model ? await models(capabilityOf(group)) : [];
  const collection = await ownCollection();
  const own = { ...example };
  if (names.length && !names.includes(example.model)) own.model = names[0];
  if (group !== 'Ingest' && collection !== undefined) {
    if (example.collection) own.collection = collection;
    if (example.weir) own.weir = { ...example.weir, collection };
    if (example.filter && !(await hasFields(example.filter))) delete own.filter;
  }
  if (JSON.stringify(own) === JSON.stringify(example)) return;
  input.value = pretty(own);
  input.dispatchEvent(new Event('input', { bubbles: true }));
};

/** The form of a route. */
const tryForm = (path, method, operation) => {
  const parameters = operation.parameters.map((parameter) => parameterInput(path, method, parameter));
  const content = operation.requestBody?.content['application/json'];
  const body = content && area('Body', pretty(content.example ?? {}), 'body');
  const headers = area('Headers, one in a line', body ? 'content-type: application/json' : '', 'headers');
  const read = () => {
    const filled = parameters.filter(({ input }) => input.value !== '');
    const inPath = (text, { parameter, input }) => text.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    const query = new URLSearchParams(
      filled
        .filter(({ parameter }) => parameter.in === 'query')
        .map(({ parameter, input }) => [parameter.name, input.value]),
    );
    const full = parameters.filter(({ parameter }) => parameter.in === 'path').reduce(inPath, path);
    return {
      method: method.toUpperCase(),
      path: full,
      query: query.toString(),
      headers: headersIn(headers.input.value),
      body: body?.input.value,
    };
  };
  const button = element('button', { className: 'main', textContent: 'Send' });
  const output = element('output', { ariaLive: 'polite' });
  const curl = element('div');
  const form = element(
    'form',
    { className: 'try', ariaLabel: `Try ${method.toUpperCase()} ${path}` },
    element('h3', {}, 'Try it'),
    parameters.length
      ? element(
          'div',
          { className: 'parameters' },
          parameters.map(({ node }) => node),
        )
      : null,
    body?.node,
    element('details', {}, element('summary', { className: 'small' }, 'Headers'), headers.node),
    curl,
    element(
      'div',
      { className: 'send' },
      button,
      method === 'delete' ? element('span', { className: 'soft small' }, 'This deletes for good.') : null,
    ),
    output,
  );
  // what is sent has the names of this gateway
  const named = content?.example && useOwnNames(content.example, body.input, operation.tags[0]);
  button.disabled = true;
  Promise.allSettled([named, ...parameters.map(({ filled }) => filled)]).then(() => {
    button.disabled = false;
  });
  const refresh = () => curl.replaceChildren(command(curlOf(read())));
  form.addEventListener('input', refresh);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    attempt(read(), output, button);
  });
  refresh();
  return form;
};
