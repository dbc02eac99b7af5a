'use strict';
// Types of the description as text and as lists of fields.

/** The description of the API; set before anything is rendered. */
let api = null;

const nameOf = (reference) => reference.split('/').pop();
const typeOf = (reference) => api.components.schemas[nameOf(reference)];
const isNull = (schema) => schema.type === 'null';
const alternatives = (schema) => schema.anyOf || schema.oneOf;
const typeLink = (name) => element('a', { href: `#type-${name}` }, name);

/** The values of an enumeration with what they mean, or null if the type is something else. */
const valuesOf = (schema) => {
  if (schema.$ref) return valuesOf(typeOf(schema.$ref));
  if (schema.enum) return schema.enum.filter((value) => value !== null).map((value) => ({ value }));
  if (schema.const !== undefined) return [{ value: schema.const, about: schema.description }];
  const inner = alternatives(schema)
    ?.filter((one) => !isNull(one))
    .map(valuesOf);
  return inner?.length && inner.every(Boolean) ? inner.flat() : null;
};

const withOr = (lists) => lists.flatMap((one, index) => [index ? ' or ' : '', ...one]);

/** The fields of a type that has no name: `{"field": string}`. */
const shape = (schema) => {
  const fields = Object.entries(schema.properties).map(([name, inner]) => `${JSON.stringify(name)}: ${inner.type}`);
  return [element('code', {}, `{${fields.join(', ')}}`)];
};

/** The type as text with links; `null` is left out where an absent field means the same. */
const kind = (schema, isOptional = false, isOneOfSeveral = false) => {
  if (schema === true || !schema) return ['any JSON'];
  if (schema.$ref && typeOf(schema.$ref).properties) return [typeLink(nameOf(schema.$ref))];
  if (schema.$ref) return kind(typeOf(schema.$ref), isOptional);
  // its values stand in a list below
  if (!isOneOfSeveral && valuesOf(schema)?.every(({ value }) => typeof value === 'string')) return ['string'];
  const many = alternatives(schema);
  if (many) return withOr(many.filter((one) => !(isOptional && isNull(one))).map((one) => kind(one, isOptional, true)));
  if (schema.const !== undefined) return [element('code', {}, JSON.stringify(schema.const))];
  if (schema.enum) return withOr(schema.enum.map((value) => [element('code', {}, JSON.stringify(value))]));
  if (schema.properties) return shape(schema);
  const names = [schema.type].flat().filter((name) => name && !(isOptional && name === 'null'));
  const one = (name) => {
    if (name === 'array' && schema.prefixItems) return [`[${schema.prefixItems.map(({ type }) => type).join(', ')}]`];
    if (name === 'array') return ['list of ', ...kind(schema.items)];
    if (name === 'object' && schema.additionalProperties?.type)
      return ['object of ', ...kind(schema.additionalProperties)];
    return [name];
  };
  return names.length ? withOr(names.map(one)) : ['any JSON'];
};

/** The types with fields that a value of this type can contain. */
const objectsIn = (schema) => {
  if (!schema || schema === true) return [];
  if (schema.$ref) {
    const target = typeOf(schema.$ref);
    return target.properties ? [nameOf(schema.$ref)] : objectsIn(target);
  }
  if (schema.type === 'array' || schema.items) return objectsIn(schema.items);
  if (schema.additionalProperties) return objectsIn(schema.additionalProperties);
  return (alternatives(schema) || []).flatMap(objectsIn);
};

const valueList = (schema) => {
  const values = valuesOf(schema);
  if (!values) return null;
  return element(
    'ul',
    { className: 'values' },
    values.map(({ value, about }) =>
      element('li', {}, element('code', {}, JSON.stringify(value)), about ? [' ', ...prose(about)] : null),
    ),
  );
};

/** Fields of an inner type, rendered when they are asked for; a type inside itself is only linked. */
const innerFields = (schema, isRequest, outer) =>
  objectsIn(schema)
    .filter((name) => !outer.includes(name))
    .map((name) => {
      const details = element('details', {}, element('summary', {}, `Fields of ${name}`));
      details.addEventListener('toggle', () => {
        if (details.open && details.children.length === 1)
          details.append(fieldList(api.components.schemas[name], isRequest, [...outer, name]));
      });
      return details;
    });

const field = (name, schema, isRequired, isRequest, outer) =>
  element(
    'div',
    {},
    element(
      'dt',
      {},
      element('code', {}, name),
      ' ',
      isRequired && isRequest ? element('span', { className: 'required' }, 'required') : null,
      element('span', { className: 'kind' }, ...kind(schema, isRequest && !isRequired)),
    ),
    element('dd', {}, ...prose(schema.description), valueList(schema)),
    ...innerFields(schema, isRequest, outer),
  );

/** The fields of a type, in the order of the description. `outer` names the types around it. */
const fieldList = (schema, isRequest, outer) => {
  const required = schema.required || [];
  const rows = Object.entries(schema.properties || {}).map(([name, inner]) =>
    field(name, inner, required.includes(name), isRequest, outer),
  );
  return element('dl', { className: 'fields' }, rows);
};

/** A body or a reply: its fields, those of each alternative, or its type. */
const typeView = (schema, isRequest) => {
  const names = objectsIn(schema);
  const target = schema.$ref ? typeOf(schema.$ref) : schema;
  if (target.properties)
    return [element('p', {}, ...prose(target.description)), fieldList(target, isRequest, [nameOf(schema.$ref)])];
  return [
    element('p', {}, ...kind(target), target.description ? ['. ', ...prose(target.description)] : null),
    ...names.map((name) =>
      element(
        'details',
        {},
        element('summary', {}, `Fields of ${name}`),
        fieldList(api.components.schemas[name], isRequest, [name]),
      ),
    ),
  ];
};
