// What all of the page is made with: elements, blocks that are unpacked, links, text with colours,
// and lists of which only what is seen is built.
// Everything from the recording is put in as text, never as markup.

const $ = (id) => document.getElementById(id);
const index = JSON.parse($('index').textContent);
const STAGES = ['source', 'output_code', 'ttir', 'ttgir', 'llir', 'ptx', 'sass'];
const ROW = 20, ITEM = 46, SPARE = 30, DASH = '\u2013';
const MARKS = { warn: '\u26a0', hint: '\u25c6', info: '\u00b7' };
const PLAIN = 600;         // rows up to which a list is built whole, so that the browser finds text
const PRINTED = 6000;      // rows of a pane that are printed
const FARTHEST = 1500;     // edits after which two texts are said to have little in common

// -- elements and values -------------------------------------------------------------------------
function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith('aria-')) { element.setAttribute(name, String(value)); continue; }
    if (value === false) continue;
    if (name === 'on') for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
    else if (name === 'style') for (const [key, to] of Object.entries(value)) element.style.setProperty(key, to);
    else element.setAttribute(name === 'cls' ? 'class' : name, value === true ? '' : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}
const known = (value) => (value === null || value === undefined ? DASH : value.toLocaleString('en'));
const plural = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;
const store = {
  get(key) { try { return localStorage.getItem(`ptxview-${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`ptxview-${key}`, value); } catch { /* a frame may have none */ } },
};
const ready = new Promise((done) => {
  if (document.readyState !== 'loading') done();
  else document.addEventListener('DOMContentLoaded', () => done(), { once: true });
});
const unpacked = new Map();
/** The value of a block of the page, by its number: deflated JSON in base64. */
function block(number) {
  if (!unpacked.has(number)) unpacked.set(number, unpack(number));
  return unpacked.get(number);
}
async function unpack(number) {
  if (!$(`b${number}`)) await ready;
  const packed = atob($(`b${number}`).textContent);
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text());
}
/** A text as its lines. */
async function textOf(number) {
  const held = await block(number);
  if (!held.lines) held.lines = held.text.split('\n');
  return held;
}
/** 3-5,9 as numbers. */
function* numbers(ranges) {
  for (const part of ranges.split(',')) {
    const [first, last] = part.split('-').map(Number);
    for (let n = first; n <= (last ?? first); n++) yield n;
  }
}
/** Links of two stages, both ways: a map from each line to the lines of the other. */
function bothWays(text) {
  const down = new Map(), up = new Map();
  for (const group of text ? text.split(';') : []) {
    const [uppers, lowers] = group.split('>').map((side) => [...numbers(side)]);
    for (const n of uppers) down.set(n, lowers);
    for (const n of lowers) up.set(n, up.has(n) ? up.get(n).concat(uppers) : uppers);
  }
  return { down, up };
}
/** The lines of stage b that belong to line n of stage a of a variant. */
function linked(variant, a, b, n) {
  if (a === b) return [];
  const [upper, lower] = STAGES.indexOf(a) < STAGES.indexOf(b) ? [a, b] : [b, a];
  variant.ways ??= new Map();
  const key = `${upper}|${lower}`;
  if (!variant.ways.has(key)) variant.ways.set(key, bothWays(variant.links[key]));
  const ways = variant.ways.get(key);
  return [...new Set((upper === a ? ways.down : ways.up).get(n) ?? [])].sort((x, y) => x - y);
}

// -- text with colours ----------------------------------------------------------------------------
const LEXED = 1 << 20;     // characters beyond which a text is shown plain
const COMMON = { s: /"(?:[^"\\\n]|\\.)*"/, m: /\b(?:0[xXfFdD][\da-fA-F]+|\d[\d.]*(?:e[-+]?\d+)?)\b/ };
const SLASHES = { c: /\/\/[^\n]*|\/\*[^]*?\*\// };
/** What each class of the style sheet is in a language, the first that fits. */
const LANGUAGES = {
  python: { c: /#[^\n]*/, s: /"""[^]*?"""|'''[^]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/, p: /@[\w.]+/, f: /(?<=\b(?:def|class)\s+)\w+/,
    k: /\b(?:and|as|assert|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|not|or|pass|raise|return|try|while|with|yield)\b/,
    t: /\b(?:None|True|False|self)\b/, b: /\b(?:tl|torch|triton|aten)\.[\w.]+|\b(?:abs|dict|float|getattr|int|isinstance|len|list|max|min|print|range|str|sum|tuple|zip)\b(?=\()/, m: COMMON.m },
  cuda: { ...SLASHES, p: /(?<=^\s*)#\s*\w+/, s: COMMON.s, d: /\b__\w+__\b/, t: /\b(?:auto|bool|char|const|double|float\d?|half2?|int\d?|long|short|size_t|static|unsigned|u?int\d+_t|void)\b/,
    k: /\b(?:break|case|class|constexpr|continue|do|else|enum|extern|for|goto|if|namespace|return|sizeof|struct|switch|template|typedef|typename|using|while)\b/, m: COMMON.m },
  mlir: { ...SLASHES, s: COMMON.s, v: /%[\w#:]+/, f: /@[\w$.]+/, p: /#\w+/, t: /!\w+[\w.]*|\b(?:tensor|vector|index|none|[iu]\d+|b?f\d+\w*)\b/, k: /\b[a-z]\w*\.[a-z_][\w.]*|\b(?:module|loc|attributes|return)\b/, m: COMMON.m },
  llvm: { c: /;[^\n]*/, s: COMMON.s, v: /%[\w.$-]+/, f: /@[\w.$-]+/, p: /[!#][\w.]+/, l: /^[\w.$-]+:/, t: /\b(?:i\d+|b?float|double|half|ptr|void|x)\b/,
    k: /(?<=^\s+(?:%\S+ = )?(?:tail )?)[a-z]\w*|\b(?:define|declare|to|label|align)\b/, m: COMMON.m },
  ptx: { ...SLASHES, s: COMMON.s, l: /\$L\w+/, v: /%[\w.]+/, d: /(?<=^\s*)\.[a-z]\w*/, t: /\.[a-z]\w*/, k: /(?<=^\s*(?:\{\s*)?(?:@!?%\w+\s+)?)[a-z]\w*(?:[.:]+\w+)*/, m: COMMON.m },
  sass: { ...SLASHES, s: COMMON.s, l: /\.L_\w+/, d: /(?<=^\s*)\.[a-z]\w*/, v: /\bU?[RP](?:\d+|Z|T)\b(?:\.\w+)*/, k: /\b[A-Z][A-Z\d_]+(?:\.\w+)*(?=[\s;])/, m: /-?\b(?:0x[\da-f]+|\d[\d.]*(?:e[-+]?\d+)?)\b/ },
};
const OF_STAGE = { ttir: 'mlir', ttgir: 'mlir', llir: 'llvm', ptx: 'ptx', sass: 'sass' };
/** The coloured ranges of each line of a text, which are read when it is first shown. */
function coloured(held, stage, path) {
  if (held.ranges) return held.ranges;
  held.ranges = held.lines.map(() => []);
  if (held.text.length > LEXED) return held.ranges;
  const language = LANGUAGES[OF_STAGE[stage] ?? (/\.(?:cu|cuh|cpp|h|hpp|cc)$/.test(path ?? '') ? 'cuda' : 'python')];
  const any = new RegExp(Object.entries(language).map(([kind, one]) => `(?<${kind}>${one.source})`).join('|'), 'gm');
  let n = 0, start = 0;
  for (const match of held.text.matchAll(any)) {
    const kind = Object.keys(match.groups).find((k) => match.groups[k] !== undefined);
    while (start + held.lines[n].length < match.index) start += held.lines[n++].length + 1;
    let from = match.index - start, m = n;
    for (const piece of match[0].split('\n')) {
      held.ranges[m++].push([from, from + piece.length, kind]);
      from = 0;
    }
  }
  return held.ranges;
}
const PARAMETER = /(?<![\w$%.])[\w$%.]+_param_(\d+)(?![\w$%.])/g;
/** A text of PTX with parameters by their names in the source, or their numbers. */
function named(text, names) {
  return text.replace(PARAMETER, (symbol, number) => {
    const short = `\u2026${names[symbol] ?? number}`;
    return short.length < symbol.length ? short : symbol;
  });
}
/** A line's text with its colours, and ranges of it marked by an element: [start, end, tag].
 *  Parameters are named where there are names. */
function painted(text, colours, marks = [], squeeze = false, names = null) {
  const out = document.createDocumentFragment();
  const edges = marks.flatMap(([from, to]) => [from, to]);
  let at = 0;
  const put = (end, kind) => {
    while (at < end) {
      const next = Math.min(end, ...edges.filter((e) => e > at && e < end));
      let piece = text.slice(at, next);
      // Wide gaps push what stands behind them out of sight: an address's, a comment's.
      if (squeeze && at === 0 && /^ {3,}$/.test(piece)) piece = '';
      else if (at === 0 && /^[ \t]{32,}$/.test(piece)) piece = '        ';
      else if (at > 0 && kind === '-') piece = piece.replace(/ {8,}/g, '  ');
      if (names) piece = named(piece, names);
      const mark = marks.find(([from, to]) => from <= at && at < to);
      const node = kind === '-' ? document.createTextNode(piece) : make('span', { cls: `x${kind}` }, piece);
      out.append(mark ? make(mark[2], {}, node) : node);
      at = next;
    }
  };
  for (const [from, to, kind] of colours ?? []) { put(from, '-'); put(to, kind); }
  put(text.length, '-');
  return out;
}

// -- a list of which only what is seen is built ----------------------------------------------------
class Rows {
  static made = new Set();
  constructor(box, { height, label, role = 'listbox', build, move, open }) {
    Object.assign(this, { box, height, build, move, open, count: 0, at: -1, whole: false });
    box.classList.add('rows');
    box.tabIndex = 0;
    box.setAttribute('role', role);
    box.setAttribute('aria-label', label);
    this.part = make('div', { cls: 'part', role: 'presentation' });
    this.all = make('div', { cls: 'all', role: 'presentation' }, this.part);
    box.replaceChildren(this.all);
    box.addEventListener('scroll', () => this.draw(), { passive: true });
    box.addEventListener('keydown', (event) => this.key(event));
    box.addEventListener('click', (event) => {
      const row = event.target.closest('[data-row]');
      if (row && event.target.closest('a') && !event.ctrlKey && !event.metaKey && !event.shiftKey) event.preventDefault();
      if (row) { this.box.focus({ preventScroll: true }); this.go(Number(row.dataset.row), false); }
    });
    new ResizeObserver(() => this.draw()).observe(box);
    Rows.made.add(this);
  }
  fill(count, wide = 0) {
    this.count = count;
    this.at = Math.min(this.at, count - 1);
    this.all.style.height = `${count * this.height}px`;
    this.all.style.minWidth = wide ? `${wide}ch` : '';
    this.draw(true);
  }
  range() {
    if (this.whole) return [0, Math.min(this.count, PRINTED)];
    if (this.count <= PLAIN) return [0, this.count];
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - SPARE);
    return [first, Math.min(this.count, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + SPARE)];
  }
  draw(anew = false) {
    const [first, last] = this.range();
    if (!anew && first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const rows = [];
    for (let n = first; n < last; n++) {
      const row = this.build(n);
      row.dataset.row = n;
      row.id ||= `${this.box.id}-${n}`;
      if (!row.hasAttribute('role')) row.setAttribute('role', 'option');
      row.setAttribute('aria-setsize', this.count);
      row.setAttribute('aria-posinset', n + 1);
      row.setAttribute('aria-selected', n === this.at);
      rows.push(row);
    }
    if (this.whole && this.count > PRINTED) rows.push(make('div', { cls: 'nothing' }, `${plural(this.count - PRINTED, 'more line')}, not printed`));
    this.part.replaceChildren(...rows);
    this.part.style.transform = `translateY(${first * this.height}px)`;
    if (this.at >= first && this.at < last) this.box.setAttribute('aria-activedescendant', `${this.box.id}-${this.at}`);
    else this.box.removeAttribute('aria-activedescendant');
  }
  /** Make a row the one where one is; it is brought into view, in the middle if it was far. */
  go(n, far = true) {
    if (!this.count) return;
    this.at = Math.max(0, Math.min(n, this.count - 1));
    this.show(this.at, far);
    this.draw(true);
    this.move?.(this.at);
  }
  show(n, middle = true) {
    const top = n * this.height, seen = this.box.clientHeight;
    if (top >= this.box.scrollTop && top + this.height <= this.box.scrollTop + seen) return;
    this.box.scrollTop = middle ? top - seen / 3 : top < this.box.scrollTop ? top : top + this.height - seen;
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      event.preventDefault();
      const to = this.at < 0 ? 0 : this.at + steps[event.key];
      this.go(Math.max(0, Math.min(to, this.count - 1)), false);
    } else if (event.key === 'Enter' && this.open) {
      event.preventDefault();
      this.open(this.at);
    }
  }
}
