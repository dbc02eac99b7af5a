'use strict';
// The page at `/`: a search box over the collections. The search stands in the address (`?q=`), so that it can be shared,
// reloaded and gone back to.

/** A result below it is probably not relevant: the threshold that the documentation recommends. */
const RELEVANT = 0.2;
/** How often an empty gateway is asked for documents, in milliseconds. */
const POLL_MS = 3000;
/** Pause in typing after which the page searches. */
const TYPING_MS = 120;
/** Nearly identical results that are named beside the one that is shown. */
const COPIES_NAMED = 5;
const DEFAULTS = { q: '', collection: 'default', mode: 'hybrid', top_k: '5', offset: '0', copies: 'merged' };

const form = byId('form');
let collections = [];
let running = null;

// --- the search in the address ---

/** The search of the address; addresses of before had it behind `#`. */
const readAddress = () => {
  const given = location.search || location.hash.replace('#', '?');
  const named = Object.entries(DEFAULTS).map(([name, value]) => [name, new URLSearchParams(given).get(name) ?? value]);
  return Object.fromEntries(named);
};

const hasAddress = () => location.search !== '' || location.hash !== '';

const addressOf = (search) => {
  const named = Object.entries(search).filter(([name, value]) => value && value !== DEFAULTS[name]);
  const query = String(new URLSearchParams(named));
  return query ? `/?${query}` : '/';
};

/** Searches, as a step in the browser's history unless the address stays. */
const writeAddress = (search) => {
  const address = addressOf(search);
  if (address !== location.pathname + location.search + location.hash) history.pushState(null, '', address);
  run();
};

const fillForm = (search) => {
  form.q.value = search.q;
  form.top_k.value = search.top_k;
  form.mode.value = search.mode;
  const select = form.collection;
  select.replaceChildren(
    ...collections.map((collection) => {
      const count = collection.document_count.toLocaleString('en');
      const state = collection.status === 'ready' ? '' : ', being rebuilt';
      return element('option', { value: collection.name }, `${collection.name} (${count}${state})`);
    }),
  );
  const isKnown = collections.some((collection) => collection.name === search.collection);
  if (!isKnown && hasAddress()) select.append(element('option', { value: search.collection }, search.collection));
  select.value = hasAddress() ? search.collection : fullest()?.name;
  allowModes();
};

const fullest = () =>
  collections.reduce((best, one) => (best && best.document_count >= one.document_count ? best : one), null);

/** A collection without a model has no embeddings to search by. */
const allowModes = () => {
  const chosen = collections.find((collection) => collection.name === form.collection.value);
  form.mode.querySelector('[value=dense]').disabled = chosen !== undefined && chosen.model === null;
};

// --- results ---

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Ranges of bytes as ranges of the text's own units, in order and without overlaps. */
const unitsOf = (text, ranges) => {
  const bytes = encoder.encode(text);
  let [at, units] = [0, 0];
  const unitsAt = (byte) => {
    units += decoder.decode(bytes.subarray(at, byte)).length;
    at = Math.max(at, byte);
    return units;
  };
  const fitting = ranges.filter(([from, to], index) => from < to && (index === 0 || from >= ranges[index - 1][1]));
  return fitting.map(([from, to]) => [unitsAt(from), unitsAt(to)]);
};

const BLOCK = /^ {0,3}(```|~~~|#{1,6} |[-*+] |\d{1,9}[.)] |>|\|)/m;
const FENCES = /^ {0,3}(?:```|~~~).*$/gm;

/** A range of Markdown, extended so that it begins and ends with whole blocks. Prose can be cut anywhere. */
const wholeBlocks = (text, from, to) => {
  if (!BLOCK.test(text)) return [from, to];
  const before = text.lastIndexOf('\n\n', from);
  const after = text.indexOf('\n\n', to);
  let [start, end] = [before === -1 ? 0 : before + 2, after === -1 ? text.length : after];
  // a fence that is open where the range begins or ends
  const fences = [...text.matchAll(FENCES)].map(({ index, 0: line }) => [index, index + line.length]);
  for (let index = 0; index < fences.length; index += 2) {
    const [open, close] = [fences[index][0], fences[index + 1]?.[1] ?? text.length];
    if (open < start && start < close) start = open;
    if (open < end && end < close) end = close;
  }
  return [start, end];
};

/** The part of a result's text that answers best, with the words of the query marked. */
const snippetOf = (result) => {
  const { text, snippet, highlights } = result;
  const [best = [0, text.length]] = snippet ? unitsOf(text, [[snippet.start, snippet.end]]) : [];
  const [from, to] = isMarkdown(result) ? wholeBlocks(text, ...best) : best;
  const marks = unitsOf(text, highlights || []).map(([start, end]) => [start - from, end - from]);
  const shown = text.slice(from, to);
  const className = ['snippet', from > 0 && 'begins-within', to < text.length && 'goes-on'].filter(Boolean).join(' ');
  const nodes = isMarkdown(result) ? markdown(shown, marks) : [element('p', {}, ...plain(shown, marks))];
  return element('div', { className }, nodes);
};

/** The title of a result with the words of the query marked; its id if it has none. */
const titleOf = ({ id, title, title_highlights: highlights }) =>
  title ? plain(title, unitsOf(title, highlights || [])) : [id];

const percent = (share) => {
  if (share > 0 && share < 0.01) return '< 1 %';
  return `${Math.round(share * 100)} %`;
};

const relevanceBar = (relevance) => {
  if (relevance === null || relevance === undefined) return null;
  const fill = element('span');
  fill.style.width = `${relevance * 100}%`;
  const bar = element(
    'div',
    {
      className: 'bar',
      role: 'meter',
      'aria-label': 'relevance',
      'aria-valuemin': 0,
      'aria-valuemax': 1,
      'aria-valuenow': relevance,
    },
    fill,
  );
  const title = 'The estimated probability that the document answers the query';
  return element('div', { className: 'relevance', title }, `${percent(relevance)} relevant`, bar);
};

const metadataOf = (metadata) =>
  Object.entries(metadata).map(([name, value]) => {
    const shown = typeof value === 'string' ? value : JSON.stringify(value);
    return element('span', {}, `${name}: `, element('code', {}, shown));
  });

const number = (value, digits) =>
  value === null || value === undefined
    ? '–'
    : Number(value.toFixed(digits)).toLocaleString('en', { maximumFractionDigits: digits });

/** Why the result stands where it stands: its ranks and scores by both retrievers, and the words that it has. */
const why = (result) => {
  const { ranks, scores, explanation } = result;
  const row = (...cells) =>
    element(
      'tr',
      {},
      cells.map((cell) => element('td', {}, cell)),
    );
  const head = element(
    'tr',
    {},
    ['', 'rank', 'score', 'adds to the score'].map((cell) => element('th', {}, cell)),
  );
  const rows = [
    row('by words (BM25)', number(ranks.lexical, 0), number(scores.lexical, 2), number(explanation?.lexical, 3)),
    row('by meaning (cosine)', number(ranks.dense, 0), number(scores.dense, 3), number(explanation?.dense, 3)),
  ];
  if (explanation?.neighbours) rows.push(row('similar results', '', '', number(explanation.neighbours, 3)));
  if (explanation?.name) rows.push(row('exact name', '', '', number(explanation.name, 3)));
  if (result.rerank_score !== undefined) rows.push(row('reranker', '', number(result.rerank_score, 3), ''));
  const terms = (explanation?.terms || []).map((term) =>
    element(
      'span',
      {},
      element('code', {}, term.term),
      ` ${number(term.score, 2)}, in ${term.chunks.toLocaleString('en')} ${term.chunks === 1 ? 'passage' : 'passages'}`,
    ),
  );
  return element(
    'details',
    {},
    element('summary', {}, 'Why this result'),
    element('table', {}, head, rows),
    terms.length
      ? element('div', { className: 'about' }, 'Words found: ', terms)
      : element('p', { className: 'soft' }, 'It has none of the query’s words.'),
  );
};

/** A button that saves the file from which a document was made. It is never opened here: it is of whoever sent it. */
const originalOf = (stored, path) => {
  const name = String(stored.metadata.file.name ?? stored.id);
  const button = element('button', { type: 'button' }, `Save ${name}`);
  button.addEventListener('click', async () => {
    try {
      const reply = await send('GET', `${path}/original`);
      if (!reply.ok) throw await Problem.of(reply);
      const link = element('a', { href: URL.createObjectURL(await reply.blob()), download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (error) {
      button.replaceWith(error.render());
    }
  });
  return element('p', {}, button);
};

/** The whole document with the cited bytes marked, read when it is opened. */
const inDocument = (result, collection) => {
  const { document_id: id, start, end } = result.citation;
  const place = element('div', {}, 'Reading …');
  const details = element('details', {}, element('summary', {}, 'In the document'), place);
  details.addEventListener('toggle', async () => {
    if (!details.open) return;
    try {
      const path = `/v1/collections/${encodeURIComponent(collection)}/documents/${encodeURIComponent(id)}`;
      const stored = await call('GET', path);
      const marks = unitsOf(stored.text, [[start, end]]);
      const text = element('pre', { className: 'document', tabIndex: 0 }, plain(stored.text, marks));
      place.replaceChildren(...(stored.metadata.file?.original === true ? [originalOf(stored, path)] : []), text);
      const cited = text.querySelector('mark');
      if (cited) text.scrollTop = cited.offsetTop - text.offsetTop - 40;
    } catch (error) {
      place.replaceChildren(error.render());
    }
  });
  return details;
};

/** The results that are nearly identical to the shown one, with a link to the search that shows them. */
const copiesOf = (result, search) => {
  const { collapsed, collapsed_count: count } = result;
  if (!count) return null;
  const names = collapsed.slice(0, COPIES_NAMED).flatMap((id, index) => [index ? ', ' : '', element('code', {}, id)]);
  const rest = count > COPIES_NAMED ? ` and ${(count - COPIES_NAMED).toLocaleString('en')} more` : '';
  return element(
    'p',
    { className: 'copies' },
    `${count.toLocaleString('en')} nearly identical ${count === 1 ? 'result' : 'results'}: `,
    names,
    `${rest}. `,
    element('a', { href: addressOf({ ...search, copies: 'shown', offset: '0' }) }, 'Show all'),
  );
};

const render = (result, search) => {
  const { collection } = search;
  const { citation } = result;
  const bytes = `bytes ${citation.start.toLocaleString('en')} to ${citation.end.toLocaleString('en')}`;
  const place = citation.part === 'title' ? 'by its title' : bytes;
  const isUnlikely = result.relevance !== null && result.relevance < RELEVANT;
  return element(
    'li',
    { className: isUnlikely ? 'is-unlikely' : '' },
    element('div', { className: 'head' }, element('h3', {}, ...titleOf(result)), relevanceBar(result.relevance)),
    snippetOf(result),
    element(
      'p',
      { className: 'about citation' },
      element('span', {}, 'cited from ', element('code', {}, citation.document_id), `${pagesOf(citation)}, ${place}`),
      metadataOf(result.metadata),
    ),
    copiesOf(result, search),
    element('div', { className: 'more' }, why(result), inDocument(result, collection)),
  );
};

// --- what stands above the results ---

/** The query with each misspelt word replaced; null if a word cannot be found in it. */
const corrected = (query, corrections) => {
  let text = query;
  for (const { word, instead } of corrections) {
    const typed = text.split(/[^\p{L}\p{M}\p{N}]+/u).find((candidate) => candidate.toLowerCase() === word);
    if (!typed) return null;
    text = text.replace(typed, instead[0]);
  }
  return text;
};

const correctionNotice = (search, corrections) => {
  if (!corrections?.length) return null;
  const sentences = corrections.map(({ word, instead }) => [
    'No document has ',
    element('code', {}, word),
    '; searched for ',
    instead.flatMap((other, index) => [index ? ', ' : '', element('code', {}, other)]),
    ' instead. ',
  ]);
  const query = corrected(search.q, corrections);
  const link = element('a', { href: addressOf({ ...search, q: query, offset: '0' }) }, query || '');
  return element(
    'p',
    { className: 'notice', id: 'corrections' },
    sentences.flat(2),
    query ? ['Did you mean ', link, '?'] : null,
  );
};

/** How the query was read, where it has characters of the query language. */
const readingNotice = ({ excluded = [], as_text: asText = [] } = {}) => {
  const listed = (parts) => parts.flatMap((part, index) => [index ? ', ' : '', element('code', {}, part)]);
  if (!excluded.length && !asText.length) return null;
  return element(
    'p',
    { className: 'notice', id: 'reading' },
    excluded.length ? ['Excluded: ', ...listed(excluded), '. '] : null,
    asText.length ? ['Searched as words, not as operators: ', ...listed(asText), '.'] : null,
  );
};

const DEGRADED = {
  embedding_overloaded: 'Searched by words only: the embedding model is overloaded.',
  embedding_deadline: 'Searched by words only: the embedding model was too slow.',
  embedding_failed: 'Searched by words only: the query could not be embedded; the log of the gateway says why.',
};

const notices = (search, reply) => {
  const all = [correctionNotice(search, reply.corrections), readingNotice(reply.query)];
  for (const reason of reply.degraded_reasons || []) {
    const text = DEGRADED[reason] || `A stage of the search was skipped: ${reason.replaceAll('_', ' ')}.`;
    all.push(element('p', { className: 'notice warn' }, text));
  }
  const { results } = reply;
  if (!results.length) {
    const isFirst = search.offset === '0';
    all.push(
      element(
        'div',
        { className: 'notice warn', id: 'nothing' },
        element('h3', {}, isFirst ? 'No document matches' : 'There are no further results'),
        element(
          'p',
          {},
          search.mode === 'lexical'
            ? 'No document has these words; a search by meaning may find others.'
            : 'Try other words, or another collection.',
        ),
      ),
    );
  } else if (
    search.offset === '0' &&
    results.every((result) => result.relevance !== null && result.relevance < RELEVANT)
  ) {
    all.push(
      element(
        'div',
        { className: 'notice warn', id: 'nothing' },
        element('h3', {}, 'Nothing relevant'),
        element('p', {}, `No document of ${search.collection} seems to answer this query. The nearest ones follow.`),
      ),
    );
  }
  return all.filter(Boolean);
};

const countOf = ({ total, took_ms: took }) => {
  const value = total.value.toLocaleString('en');
  const results = total.exact
    ? `${value} ${total.value === 1 ? 'result' : 'results'}`
    : `The best of ${value} candidates`;
  return `${results}, in ${number(took, 1)} ms`;
};

const pager = (search, reply) => {
  const [size, offset] = [Number(search.top_k), Number(search.offset)];
  const button = (text, to, isUsable) => {
    const node = element('button', { type: 'button', textContent: text, disabled: !isUsable });
    node.addEventListener('click', () => {
      writeAddress({ ...search, offset: String(Math.max(0, to)) });
      scrollTo({ top: 0 });
    });
    return node;
  };
  if (!reply.next_cursor && offset === 0) return null;
  return element(
    'nav',
    { className: 'pages', ariaLabel: 'Pages of results' },
    button('Previous page', offset - size, offset > 0),
    element(
      'span',
      { className: 'soft small' },
      reply.results.length ? `${offset + 1} to ${offset + reply.results.length}` : '',
    ),
    button('Next page', offset + size, Boolean(reply.next_cursor)),
  );
};

const show = (search, reply) => {
  const list = element(
    'ol',
    { className: 'results' },
    reply.results.map((result) => render(result, search)),
  );
  byId('reply').replaceChildren(
    element('p', { className: 'found soft small', id: 'found' }, countOf(reply)),
    ...notices(search, reply),
    list,
    ...[pager(search, reply)].filter(Boolean),
  );
};

// --- what happens ---

let typing;

/** Runs the search of the address; a newer one cancels it. While somebody types, the last word may be unfinished. */
const run = async ({ isTyping = false } = {}) => {
  const search = readAddress();
  if (!isTyping) fillForm(search);
  document.title = search.q ? `${search.q} – Weir` : 'Weir';
  running?.abort();
  forgetAnswer();
  const place = byId('reply');
  if (!search.q.trim()) {
    place.replaceChildren();
    return;
  }
  running = new AbortController();
  const { signal } = running;
  place.setAttribute('aria-busy', 'true');
  try {
    const body = {
      query: search.q,
      collection: search.collection,
      mode: search.mode,
      top_k: Number(search.top_k),
      offset: Number(search.offset),
      highlight: true,
      explain: true,
      collapse: search.copies !== 'shown',
      ...(isTyping && { prefix: 'last' }),
    };
    show(search, await call('POST', '/v1/search', body, signal));
  } catch (error) {
    if (error.name === 'AbortError') return;
    place.replaceChildren(...failure(error));
  }
  place.removeAttribute('aria-busy');
};

const showEmpty = () => {
  const isDefault = ['http://127.0.0.1:8000', 'http://localhost:8000'].includes(location.origin);
  const curl = `curl -s '${location.origin}/v1/ingest?wait=true' -H 'content-type: application/json' \\
  -d '{"documents": [{"id": "a/1", "title": "Weirs", "text": "A weir is a low dam across a river."}]}'`;
  byId('empty').replaceChildren(
    element('h2', {}, 'No documents yet'),
    element('p', {}, 'Ingest the files of a folder; a later run sends changed files only:'),
    command(`weir ingest FOLDER${isDefault ? '' : ` --url ${location.origin}`}`),
    element('p', {}, 'or send documents to the API:'),
    command(curl),
    element('p', { className: 'soft small' }, 'This page shows the search box as soon as there is a document.'),
  );
};

/** What is shown instead of a result. Where a key is missing, the form that asks for it says enough. */
const failure = (error) => {
  if (!(error instanceof Problem)) return [String(error)];
  return error.status === 401 ? [] : [error.render()];
};

/** Shows whether there are documents, and the search box if there are; looks again while there are none. */
const look = async () => {
  const state = byId('state');
  try {
    const { document_count: total } = await call('GET', '/healthz');
    const isEmpty = total === 0;
    if (isEmpty) showEmpty();
    byId('empty').hidden = !isEmpty;
    form.hidden = isEmpty;
    if (isEmpty) {
      state.textContent = '';
      byId('reply').replaceChildren();
      setTimeout(look, POLL_MS);
      return;
    }
    collections = (await call('GET', '/v1/collections')).data;
    const known = collections.reduce((sum, one) => sum + one.document_count, 0);
    const plural = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
    state.textContent = collections.length
      ? `${plural(known, 'document')} in ${plural(collections.length, 'collection')}.`
      : 'This API key sees no collection. Ask whoever made it for one that does.';
    form.hidden = collections.length === 0;
    // the list of models may wait for an upstream
    offerAnswers();
    if (!form.hidden) await run();
  } catch (error) {
    form.hidden = true;
    state.replaceChildren(...failure(error));
  }
};

form.addEventListener('submit', (event) => {
  event.preventDefault();
  clearTimeout(typing);
  const values = Object.fromEntries(new FormData(form));
  writeAddress({ ...values, q: values.q.trim(), offset: '0' });
});
form.q.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const values = Object.fromEntries(new FormData(form));
    history.replaceState(null, '', addressOf({ ...values, offset: '0' }));
    run({ isTyping: true });
  }, TYPING_MS);
});
byId('ask').addEventListener('click', () => {
  clearTimeout(typing);
  const values = Object.fromEntries(new FormData(form));
  const search = { ...readAddress(), ...values, q: values.q.trim() };
  if (addressOf(search) !== addressOf(readAddress())) writeAddress({ ...search, offset: '0' });
  ask(search);
});
form.collection.addEventListener('change', () => {
  allowModes();
  byId('into').value = form.collection.value;
});
addEventListener('popstate', () => run());
addEventListener('hashchange', () => run());
mountKey(look);
mountUploads(look);
look();
