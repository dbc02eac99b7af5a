'use strict';
// Files that are dropped on the page at `/`, or chosen: each is sent by itself, with its progress, and fails by itself with its reason.

/** Files that are sent at one time. */
const UPLOADS_AT_ONCE = 2;
/** Files of one drop; for more there is the command line. */
const UPLOADS_MAX = 1000;
/** How often the job of a file is asked for, in milliseconds. */
const JOB_POLL_MS = 500;

const uploads = { waiting: [], running: 0, changed: () => {} };

/** Sends a form, and calls `progress` with the share that is sent. `fetch` does not tell how much is sent. */
const sendForm = (path, form, progress) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', path);
    const key = sessionStorage.getItem(KEY);
    if (key) request.setRequestHeader('authorization', `Bearer ${key}`);
    request.upload.onprogress = (event) => progress(event.loaded / event.total);
    request.onerror = () => reject(Problem.unreachable());
    request.onload = () => {
      const headers = new Headers({ 'x-request-id': request.getResponseHeader('x-request-id') ?? '' });
      resolve(new Response(request.responseText, { status: request.status, headers }));
    };
    request.send(form);
  });

/** Why documents of a job failed: one sentence for each. */
const reasonsOf = (job) => {
  const reasons = job.errors.map((error) => `${error.document_id}: ${error.message} (${error.code})`);
  return job.error ? [job.error, ...reasons] : reasons;
};

/** The job when it has ended. */
const ended = async (job, show) => {
  while (!job.finished_at) {
    show(`${Math.floor(job.progress * 100)} % searchable`);
    await new Promise((resolve) => setTimeout(resolve, JOB_POLL_MS));
    job = await call('GET', `/v1/jobs/${encodeURIComponent(job.job_id)}`);
  }
  return job;
};

/** A row of the list: name, bar and state of a file. */
const uploadRow = (name) => {
  const bar = element('progress', { max: 1, value: 0, ariaLabel: `Sent of ${name}` });
  const state = element('span', { className: 'soft' }, 'waiting');
  const row = element('li', {}, element('span', { className: 'name' }, name), bar, state);
  const show = (text, share) => {
    state.textContent = text;
    if (share !== undefined) bar.value = share;
  };
  const end = (kind, texts) => {
    bar.remove();
    row.className = kind;
    state.replaceChildren(...texts.map((text) => element('span', { className: 'reason' }, prose(text))));
  };
  return { row, show, end };
};

const upload = async ({ file, id, collection, shown }) => {
  const body = new FormData();
  body.append('collection', collection);
  body.append('file', file, file.name);
  body.append('options', JSON.stringify({ id }));
  try {
    const reply = await sendForm('/v1/ingest', body, (share) =>
      shown.show(share < 1 ? `${Math.floor(share * 100)} % sent` : 'the text is extracted', share),
    );
    if (reply.status === 401) askForKey(sessionStorage.getItem(KEY) ? WRONG_KEY : null);
    if (!reply.ok) throw await Problem.of(reply);
    const job = await ended(await reply.json(), (text) => shown.show(text, 1));
    const reasons = reasonsOf(job);
    const stored = job.total_documents - job.failed_documents;
    const summary = job.unchanged_documents === stored ? 'unchanged' : 'searchable';
    shown.end(reasons.length ? 'failed' : 'done', [...(stored ? [summary] : []), ...reasons]);
  } catch (error) {
    shown.end('failed', [error instanceof Problem ? `${error.detail}${error.code ? ` (${error.code})` : ''}` : String(error)]);
  }
};

/** Starts waiting uploads, as many at one time as are allowed. */
const nextUploads = () => {
  while (uploads.running < UPLOADS_AT_ONCE && uploads.waiting.length) {
    uploads.running += 1;
    upload(uploads.waiting.shift()).finally(() => {
      uploads.running -= 1;
      if (!uploads.running && !uploads.waiting.length) uploads.changed();
      nextUploads();
    });
  }
};

/** Adds files with their paths below what was dropped: the ids of their documents. */
const addUploads = (found) => {
  const collection = byId('into').value.trim() || 'default';
  const list = byId('uploads');
  for (const { file, path } of found.slice(0, UPLOADS_MAX)) {
    const shown = uploadRow(path);
    list.append(shown.row);
    uploads.waiting.push({ file, id: path, collection, shown });
  }
  if (found.length > UPLOADS_MAX) {
    const { row, end } = uploadRow(`${found.length - UPLOADS_MAX} more files`);
    list.append(row);
    end('failed', [`at most ${UPLOADS_MAX} files are sent at one time: use \`weir ingest FOLDER\``]);
  }
  nextUploads();
};

/** The files of a dropped entry, those of folders at any depth; hidden ones are left out. */
const filesOf = async (entry, folder = '') => {
  if (entry.name.startsWith('.')) return [];
  const path = `${folder}${entry.name}`;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ file, path }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length || found.length > UPLOADS_MAX) return found;
    for (const inner of entries) found.push(...(await filesOf(inner, `${path}/`)));
  }
};

/** Shows the place for files; `changed` is called when all are sent. */
const mountUploads = (changed) => {
  uploads.changed = changed;
  const zone = byId('drop');
  const input = byId('files');
  byId('choose').addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    addUploads([...input.files].map((file) => ({ file, path: file.name })));
    input.value = '';
  });
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    zone.classList.add('is-over');
  });
  addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) zone.classList.remove('is-over');
  });
  addEventListener('drop', async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    zone.classList.remove('is-over');
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [...event.dataTransfer.files].map((file) => ({ file, path: file.name }));
    const nested = await Promise.all(entries.map((entry) => filesOf(entry)));
    addUploads(entries.length ? nested.flat() : files);
  });
};
