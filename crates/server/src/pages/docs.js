'use strict';
// The page at `/docs`: the description of the API, by group.

const METHODS = ['get', 'post', 'put', 'delete'];

const idOf = (method, path) => `${method}${path.replaceAll(/[^a-z0-9]+/gi, '-')}`.replace(/-$/, '');
const groupId = (name) => `group-${name.toLowerCase().replaceAll(/[^a-z]+/g, '-')}`;

/** The routes of a group, in the order of the description. */
const routesOf = (group) =>
  Object.entries(api.paths).flatMap(([path, operations]) =>
    METHODS.filter((method) => operations[method]?.tags.includes(group)).map((method) => ({
      path,
      method,
      operation: operations[method],
    })),
  );

const parameterList = (parameters) =>
  element(
    'dl',
    { className: 'fields' },
    parameters.map((parameter) =>
      element(
        'div',
        {},
        element(
          'dt',
          {},
          element('code', {}, parameter.name),
          ' ',
          parameter.required ? element('span', { className: 'required' }, 'required') : null,
          element('span', { className: 'kind' }, `in the ${parameter.in}`),
        ),
        element('dd', {}, ...prose(parameter.description)),
      ),
    ),
  );

const replyView = ([status, reply]) => {
  const [media, content] = Object.entries(reply.content ?? {})[0] ?? ['no body'];
  return [
    element('h3', {}, `Reply: ${status}`),
    ...(media === 'application/json' ? typeView(content.schema, false) : [element('p', { className: 'soft' }, media)]),
  ];
};

const errorView = (errors) => {
  if (!errors.length) return [];
  const rows = errors.map(([status, error]) =>
    element('div', {}, element('dt', {}, element('code', {}, status)), element('dd', {}, ...prose(error.description))),
  );
  const type = api.components.responses[nameOf(errors[0][1].$ref)];
  const schema = Object.values(type.content)[0].schema;
  return [
    element(
      'details',
      {},
      element('summary', {}, 'Errors'),
      element('p', {}, 'The body is a ', ...kind(schema), '.'),
      element('dl', { className: 'fields' }, rows),
    ),
  ];
};

const routeBody = ({ path, method, operation }) => {
  const responses = Object.entries(operation.responses);
  const content = operation.requestBody?.content['application/json'];
  return element(
    'div',
    { className: 'inside' },
    tryForm(path, method, operation),
    operation.parameters.length ? [element('h3', {}, 'Parameters'), parameterList(operation.parameters)] : null,
    content ? [element('h3', {}, 'Body'), ...typeView(content.schema, true)] : null,
    responses.filter(([, reply]) => !reply.$ref).flatMap(replyView),
    errorView(responses.filter(([, reply]) => reply.$ref)),
  );
};

/** An element that is opened, whose inside is made when it is opened first. */
const lazy = (className, id, summary, inside) => {
  const details = element('details', { className, id }, element('summary', {}, summary));
  details.fill = () => {
    if (details.children.length === 1) details.append(inside());
  };
  details.addEventListener('toggle', () => details.open && details.fill());
  return details;
};

const routeView = (route) =>
  lazy(
    'route',
    idOf(route.method, route.path),
    [
      element('span', { className: `method ${route.method}` }, route.method),
      element('code', {}, route.path),
      element('span', { className: 'about' }, ...prose(route.operation.summary)),
    ],
    () => routeBody(route),
  );

const typeEntry = ([name, schema]) =>
  lazy('type', `type-${name}`, element('code', {}, name), () =>
    element(
      'div',
      { className: 'inside' },
      element('p', {}, ...prose(schema.description)),
      schema.properties
        ? fieldList(schema, true, [name])
        : [valueList(schema) || element('p', {}, ...kind(schema)), ...innerFields(schema, true, [name])],
    ),
  );

const show = () => {
  byId('about').replaceChildren(...prose(`${api.info.description} Version ${api.info.version}.`));
  for (const { name, description } of api.tags) {
    const routes = routesOf(name);
    byId('groups').append(
      element(
        'section',
        {},
        element('h2', { id: groupId(name) }, name),
        element('p', {}, ...prose(description)),
        routes.map(routeView),
      ),
    );
    byId('contents').append(
      element('h2', {}, element('a', { href: `#${groupId(name)}` }, name)),
      ...routes.map(({ path, method }) =>
        element(
          'a',
          { href: `#${idOf(method, path)}`, className: 'to-route' },
          element('span', { className: `method ${method}` }, method),
          element('code', {}, path.replace('/v1/collections/{name}', '…/{name}')),
        ),
      ),
    );
  }
  byId('contents').append(element('h2', {}, element('a', { href: '#types' }, 'Types')));
  byId('types').append(...Object.entries(api.components.schemas).map(typeEntry));
  byId('types').hidden = false;
};

/** Opens what the address names. */
const openNamed = () => {
  const named = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  if (!named) return;
  if (named.tagName === 'DETAILS') {
    named.open = true;
    named.fill();
  }
  named.scrollIntoView();
};

const start = async () => {
  try {
    api = await call('GET', '/openapi.json');
  } catch (error) {
    byId('about').replaceChildren(error instanceof Problem ? error.render() : String(error));
    return;
  }
  show();
  openNamed();
};

addEventListener('hashchange', openNamed);
mountKey(() => {
  for (const path of Object.keys(listed)) delete listed[path];
});
start();
