'use strict';
// The answer of a language model from the documents of the collection, where the gateway has a route to one. It is asked
// for by a button, because it may cost money.

/** Passages that the model is given. */
const ANSWER_SOURCES = 5;

let asking = null;

/** Offers an answer if there is a model that the caller may use. */
const offerAnswers = async () => {
  const { data } = await call('GET', '/v1/models').catch(() => ({ data: [] }));
  const names = data.filter((one) => one.capabilities.includes('chat')).map((one) => one.id);
  byId('answering').hidden = names.length === 0;
  byId('model').replaceChildren(...names.map((name) => element('option', { value: name }, name)));
};

const forgetAnswer = () => {
  asking?.abort();
  byId('answer').replaceChildren();
};

const citationView = ({ n, document_id: id, start, end, quote, verified, reason, ...pages }) =>
  element(
    'li',
    {},
    `[${n}] `,
    id ? element('code', {}, id) : null,
    verified
      ? [`${pagesOf(pages)}, bytes ${start.toLocaleString('en')} to ${end.toLocaleString('en')}: “${quote}”`]
      : element('strong', {}, ` not verified: ${reason ?? 'the source does not contain it'}`),
  );

const answerView = (model, { choices, citations = [] }) => {
  const text = choices[0]?.message?.content;
  return [
    element('h2', {}, `Answer of ${model}`),
    element('div', { className: 'snippet' }, markdown(typeof text === 'string' ? text : '', [])),
    citations.length
      ? element('ul', { className: 'citations' }, citations.map(citationView))
      : element('p', { className: 'soft small' }, 'The answer cites no document.'),
  ];
};

/** Asks the chosen model; a later search or question cancels it. */
const ask = async ({ q, collection }) => {
  forgetAnswer();
  if (!q) return;
  asking = new AbortController();
  const { signal } = asking;
  const [model, place] = [byId('model').value, byId('answer')];
  place.replaceChildren(element('p', { className: 'soft' }, `Waiting for ${model} …`));
  try {
    const body = {
      model,
      messages: [{ role: 'user', content: q }],
      weir: { collection, top_k: ANSWER_SOURCES },
    };
    place.replaceChildren(...answerView(model, await call('POST', '/v1/chat/completions', body, signal)));
  } catch (error) {
    if (error.name !== 'AbortError') place.replaceChildren(...failure(error));
  }
};
