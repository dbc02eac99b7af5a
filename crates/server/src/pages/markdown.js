'use strict';
// Markdown as elements. Texts become text nodes, and addresses are those of http and https alone, so that a document can
// neither run a script nor load anything. Its size, its depth and the number of its elements have limits: what is beyond
// them is shown as plain text.

const MARKDOWN_LIMITS = { characters: 60_000, depth: 8, elements: 3_000, address: 2_000, label: 300, columns: 50 };

/** Endings of files whose text is Markdown or may have some; the text of other files is shown as it is. */
const MARKDOWN_FILES = /\.(md|markdown|mdown|mdx|qmd|jsonl|ndjson|json|csv|tsv|ipynb)(\.gz)?(#\d+)?$/i;

/** Whether the text of a document is shown as Markdown: the one of a file by its ending, another always. */
const isMarkdown = ({ id, metadata }) => {
  const path = typeof metadata?.path === 'string' ? metadata.path : id;
  return !/\.[a-z0-9]{1,8}(\.gz)?$/i.test(path) || MARKDOWN_FILES.test(path);
};

/** The address of a link, or null if it is none of http or https. Relative ones are those of this server. */
const safeAddress = (address) => {
  if (address.length > MARKDOWN_LIMITS.address) return null;
  try {
    const url = new URL(address, location.origin);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch {
    return null;
  }
};

/** A text without markup, with the ranges in `marks` marked. */
const plain = (text, marks, from = 0, to = text.length) => {
  const nodes = [];
  let at = from;
  for (const [start, end] of marks) {
    const [first, last] = [Math.max(start, at), Math.min(end, to)];
    if (first >= last) continue;
    if (first > at) nodes.push(text.slice(at, first));
    nodes.push(element('mark', {}, text.slice(first, last)));
    at = last;
  }
  if (at < to) nodes.push(text.slice(at, to));
  return nodes;
};

/** The lines of a text as ranges without their ends. */
const linesOf = (text) => {
  const lines = [];
  for (let from = 0; from <= text.length; ) {
    const next = text.indexOf('\n', from);
    const end = next === -1 ? text.length : next;
    lines.push([from, end > from && text[end - 1] === '\r' ? end - 1 : end]);
    from = end + 1;
  }
  return lines;
};

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3}(?:[-*+]|\d{1,9}[.)]))(?:[ \t]+|$)/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const ADDRESS = /^https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_]/i;
const TARGET = /^\([ \t]*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:[ \t]+(?:"[^"]*"|'[^']*'))?[ \t]*\)/;

/** Markdown as nodes; `marks` are ranges of the text, in order, to be marked. */
class Markdown {
  constructor(text, marks) {
    this.text = text;
    this.marks = marks;
    this.elements = 0;
  }

  render() {
    const { characters } = MARKDOWN_LIMITS;
    const lines = linesOf(this.text);
    const count = lines.findIndex(([, to]) => to > characters);
    if (count === -1) return this.blocks(lines, 0);
    return [...this.blocks(lines.slice(0, count), 0), ...this.rest(lines.slice(count))];
  }

  get isFull() {
    return this.elements >= MARKDOWN_LIMITS.elements;
  }

  make(tag, properties, ...children) {
    this.elements += 1;
    return element(tag, properties, ...children);
  }

  line([from, to]) {
    return this.text.slice(from, to);
  }

  /** What is beyond a limit. */
  rest(lines) {
    return lines.length ? [element('p', {}, ...this.joined(lines, plain))] : [];
  }

  /** The lines as one text with its marks, rendered by `render`. */
  joined(lines, render) {
    let text = '';
    const marks = [];
    const [first, last] = [lines[0]?.[0] ?? 0, lines.at(-1)?.[1] ?? 0];
    const near = this.marks.filter(([start, end]) => end > first && start < last);
    for (const [from, to] of lines) {
      if (text || from !== first) text += '\n';
      for (const [start, end] of near)
        if (start < to && end > from)
          marks.push([text.length + Math.max(start - from, 0), text.length + Math.min(end, to) - from]);
      text += this.text.slice(from, to);
    }
    return render(text, marks);
  }

  inline(lines) {
    return this.joined(lines, (text, marks) => new Inline(this, text, marks).render(0, text.length, 0));
  }

  /** Blocks of lines. Deeper than the limit, and where there are too many elements, lines are plain text. */
  blocks(lines, depth) {
    const nodes = [];
    let at = 0;
    while (at < lines.length) {
      if (this.isFull || depth > MARKDOWN_LIMITS.depth) return [...nodes, ...this.rest(lines.slice(at))];
      const line = this.line(lines[at]);
      if (!line.trim()) {
        at += 1;
        continue;
      }
      const [node, next] =
        this.fence(lines, at, line) ??
        this.heading(lines, at, line) ??
        this.quote(lines, at, line, depth) ??
        this.rule(at, line) ??
        this.list(lines, at, line, depth) ??
        this.table(lines, at, line) ??
        this.paragraph(lines, at);
      nodes.push(node);
      at = next;
    }
    return nodes;
  }

  fence(lines, at, line) {
    const opened = line.match(FENCE);
    if (!opened) return null;
    const [sign, length] = [opened[1][0], opened[1].length];
    const isEnd = (range) => {
      const text = this.line(range).trim();
      return text.length >= length && text === sign.repeat(text.length);
    };
    let end = at + 1;
    while (end < lines.length && !isEnd(lines[end])) end += 1;
    const code = this.joined(lines.slice(at + 1, end), plain);
    return [this.make('pre', { tabIndex: 0 }, this.make('code', {}, ...code)), end + 1];
  }

  /** Headings are below those of the page. */
  heading(lines, at, line) {
    const found = line.match(HEADING);
    if (!found) return null;
    const text = line.trimEnd().replace(/(^|[ \t])#+$/, '');
    const from = lines[at][0] + found[0].length;
    const range = [from, Math.max(from, lines[at][0] + text.trimEnd().length)];
    return [this.make(`h${Math.min(found[1].length + 3, 6)}`, {}, ...this.inline([range])), at + 1];
  }

  rule(at, line) {
    return RULE.test(line) ? [this.make('hr', {}), at + 1] : null;
  }

  quote(lines, at, line, depth) {
    if (!QUOTE.test(line)) return null;
    const inner = [];
    let end = at;
    for (; end < lines.length; end += 1) {
      const sign = this.line(lines[end]).match(QUOTE);
      if (!sign) break;
      inner.push([lines[end][0] + sign[0].length, lines[end][1]]);
    }
    return [this.make('blockquote', {}, ...this.blocks(inner, depth + 1)), end];
  }

  list(lines, at, line, depth) {
    const first = line.match(ITEM);
    if (!first) return null;
    const isOrdered = /\d/.test(first[1]);
    const items = [];
    let end = at;
    while (end < lines.length) {
      const found = this.line(lines[end]).match(ITEM);
      if (!found || /\d/.test(found[1]) !== isOrdered || RULE.test(this.line(lines[end]))) break;
      const inner = [[lines[end][0] + found[0].length, lines[end][1]]];
      end = this.item(lines, end + 1, found[1].length + 1, inner);
      if (this.isFull) {
        items.push(this.make('li', {}, ...this.rest(inner)));
        break;
      }
      items.push(this.make('li', {}, ...this.tight(this.blocks(inner, depth + 1))));
    }
    const start = isOrdered ? { start: Number.parseInt(first[1], 10) } : {};
    return [this.make(isOrdered ? 'ol' : 'ul', start, ...items), end];
  }

  /** The further lines of an item: those that are indented, and the first of its lines that are not. */
  item(lines, from, indent, inner) {
    let at = from;
    let isAfterBlank = false;
    for (; at < lines.length; at += 1) {
      const line = this.line(lines[at]);
      const spaces = line.match(/^ */)[0].length;
      if (!line.trim()) {
        isAfterBlank = true;
        inner.push(lines[at]);
      } else if (spaces >= indent || (spaces >= 2 && ITEM.test(line.slice(2)))) {
        inner.push([lines[at][0] + Math.min(spaces, indent), lines[at][1]]);
        isAfterBlank = false;
      } else if (isAfterBlank || this.begins(line)) break;
      else inner.push(lines[at]);
    }
    return at;
  }

  /** An item of one paragraph has no space around it. */
  tight(nodes) {
    return nodes[0]?.tagName === 'P' ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
  }

  cells([from, to]) {
    const cells = [];
    let [start, isInCode] = [from, false];
    for (let at = from; at <= to; at += 1) {
      if (this.text[at] === '`') isInCode = !isInCode;
      if (at < to && (this.text[at] !== '|' || this.text[at - 1] === '\\' || isInCode)) continue;
      const cell = this.text.slice(start, at);
      const left = start + cell.length - cell.trimStart().length;
      cells.push([Math.min(left, at), Math.max(Math.min(left, at), start + cell.trimEnd().length)]);
      start = at + 1;
    }
    const isEmpty = ([begin, end]) => begin >= end;
    if (cells.length > 1 && isEmpty(cells[0])) cells.shift();
    if (cells.length > 1 && isEmpty(cells.at(-1))) cells.pop();
    return cells;
  }

  table(lines, at, line) {
    if (!line.includes('|') || at + 1 >= lines.length || !this.line(lines[at + 1]).includes('-')) return null;
    const columns = this.cells(lines[at]);
    const delimiters = this.cells(lines[at + 1]);
    if (columns.length > MARKDOWN_LIMITS.columns) return null;
    if (delimiters.length !== columns.length || !delimiters.every((cell) => /^:?-+:?$/.test(this.line(cell))))
      return null;
    const row = (cells, tag) => this.make('tr', {}, ...cells.map((cell) => this.make(tag, {}, ...this.inline([cell]))));
    const rows = [row(columns, 'th')];
    let end = at + 2;
    for (; end < lines.length && this.line(lines[end]).includes('|') && !this.isFull; end += 1)
      rows.push(row(this.cells(lines[end]).slice(0, columns.length), 'td'));
    return [this.make('div', { className: 'table', tabIndex: 0 }, this.make('table', {}, ...rows)), end];
  }

  /** Whether a line ends the paragraph before it. */
  begins(line) {
    const item = line.match(ITEM);
    return (
      FENCE.test(line) ||
      HEADING.test(line) ||
      QUOTE.test(line) ||
      RULE.test(line) ||
      (item !== null && item[0].length < line.length)
    );
  }

  paragraph(lines, at) {
    let end = at + 1;
    for (; end < lines.length; end += 1) {
      const line = this.line(lines[end]);
      const underline = line.match(UNDERLINE);
      if (underline && (underline[1].length > 1 || underline[1] === '=')) {
        const level = underline[1][0] === '=' ? 'h4' : 'h5';
        return [this.make(level, {}, ...this.inline(lines.slice(at, end))), end + 1];
      }
      if (!line.trim() || this.begins(line)) break;
    }
    return [this.make('p', {}, ...this.inline(lines.slice(at, end))), end];
  }
}

/** The text of one block. */
class Inline {
  constructor(markdown, text, marks) {
    Object.assign(this, { markdown, text, marks, isInLink: false });
  }

  render(from, to, depth) {
    const nodes = [];
    // signs that are not closed in this range; looking for each of them again would take quadratic time
    const unclosed = new Set();
    let [start, at] = [from, from];
    while (at < to) {
      const found = this.markdown.isFull || depth > MARKDOWN_LIMITS.depth ? null : this.at(at, to, depth, unclosed);
      if (!found) {
        at += 1;
        continue;
      }
      nodes.push(...plain(this.text, this.marks, start, at), ...found.nodes);
      at = found.end;
      start = found.end;
    }
    return [...nodes, ...plain(this.text, this.marks, start, to)];
  }

  /** What begins at a place, with its end; null if a plain character does. */
  at(at, to, depth, unclosed) {
    const { text } = this;
    switch (text[at]) {
      case '\\':
        return at + 1 < to && PUNCTUATION.test(text[at + 1])
          ? { nodes: plain(text, this.marks, at + 1, at + 2), end: at + 2 }
          : null;
      case '`':
        return this.code(at, to, unclosed);
      case '!':
        return text[at + 1] === '[' ? this.link(at + 1, to, depth) : null;
      case '[':
        return this.link(at, to, depth);
      case '<':
        return this.address(at + 1, to, '>');
      case 'h':
      case 'H':
        return at > 0 && WORD.test(text[at - 1]) ? null : this.address(at, to, '');
      case '*':
      case '_':
      case '~':
        return this.emphasis(at, to, depth, unclosed);
      default:
        return null;
    }
  }

  code(at, to, unclosed) {
    const run = this.text.slice(at, at + MARKDOWN_LIMITS.label).match(/^`+/)[0];
    let end = unclosed.has(run) ? -1 : this.text.indexOf(run, at + run.length);
    while (end !== -1 && end < to && this.text[end + run.length] === '`') {
      while (this.text[end] === '`') end += 1;
      end = this.text.indexOf(run, end);
    }
    if (end === -1 || end + run.length > to) {
      unclosed.add(run);
      return { nodes: plain(this.text, this.marks, at, at + run.length), end: at + run.length };
    }
    const code = plain(this.text, this.marks, at + run.length, end);
    return { nodes: [this.markdown.make('code', {}, ...code)], end: end + run.length };
  }

  /** `[label](address)`; an image is a link to it. */
  link(at, to, depth) {
    const limit = Math.min(to, at + MARKDOWN_LIMITS.label);
    let [end, open] = [at + 1, 1];
    for (; end < limit; end += 1) {
      if (this.text[end] === '[' && ++open > MARKDOWN_LIMITS.depth) return null;
      if (this.text[end] === ']' && --open === 0) break;
    }
    if (this.isInLink || end >= limit || this.text[end + 1] !== '(') return null;
    const found = this.text.slice(end + 1, Math.min(to, end + 1 + 2 * MARKDOWN_LIMITS.address)).match(TARGET);
    if (!found) return null;
    this.isInLink = true;
    const label = this.render(at + 1, end, depth + 1);
    this.isInLink = false;
    const after = end + 1 + found[0].length;
    return { nodes: this.linked(found[1], label.length ? label : [found[1]]), end: after };
  }

  address(at, to, close) {
    const found = this.text.slice(at, Math.min(to, at + MARKDOWN_LIMITS.address)).match(ADDRESS);
    if (this.isInLink || !found || !this.text.startsWith(close, at + found[0].length)) return null;
    const end = at + found[0].length;
    return { nodes: this.linked(found[0], plain(this.text, this.marks, at, end)), end: end + close.length };
  }

  /** A link, or its label alone where the address is not safe. */
  linked(address, label) {
    const href = safeAddress(address);
    if (href === null) return label;
    return [this.markdown.make('a', { href, rel: 'noopener noreferrer nofollow', target: '_blank' }, ...label)];
  }

  emphasis(at, to, depth, unclosed) {
    const { text } = this;
    const sign = text[at];
    const isDouble = text[at + 1] === sign;
    if (sign === '~' && !isDouble) return null;
    const isTriple = isDouble && sign !== '~' && text[at + 2] === sign;
    const run = sign.repeat(1 + isDouble + isTriple);
    const inside = at + run.length;
    const isInWord = sign === '_' && at > 0 && WORD.test(text[at - 1]);
    if (isInWord || unclosed.has(run) || inside >= to || /\s/.test(text[inside])) return null;
    const end = this.closing(run, inside + 1, to);
    if (end === -1) {
      unclosed.add(run);
      return null;
    }
    const tags = sign === '~' ? ['del'] : [['em'], ['strong'], ['em', 'strong']][run.length - 1];
    const inner = this.render(inside, end, depth + 1);
    const nodes = tags.reduce((inside, tag) => [this.markdown.make(tag, {}, ...inside)], inner);
    return { nodes, end: end + run.length };
  }

  /** Where emphasis ends. */
  closing(run, from, to) {
    const { text } = this;
    for (let end = text.indexOf(run, from); end !== -1 && end + run.length <= to; end = text.indexOf(run, end)) {
      const after = text[end + run.length];
      const isLonger = run.length === 1 && after === run && text[end + 2] !== run;
      const isInWord = run[0] === '_' && after !== undefined && WORD.test(after);
      if (!isLonger && !isInWord && !/\s/.test(text[end - 1])) return end;
      end += isLonger ? 2 : 1;
    }
    return -1;
  }
}

/** A text as Markdown, with the ranges in `marks` marked. */
const markdown = (text, marks) => new Markdown(text, marks).render();
