/** Reads JUnit's XML as node:test and pytest write it: test cases and what stands in them; no entity but XML's own. */

/** The outcomes of all test cases; undefined for a text without a closed root. */
export function readJUnit(text: string): TestOutcome[] | undefined {
  if (!/<testsuites?\b/.test(text) || !/<\/testsuites?>\s*$|<testsuites[^>]*\/>\s*$/.test(text)) return undefined;
  const outcomes: TestOutcome[] = [];
  for (const [, attributes = '', body = ''] of text.matchAll(
    /<testcase\b((?:"[^"]*"|[^">])*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g,
  )) {
    const own = attributesOf(attributes);
    const name = [own.get('classname'), own.get('name')].filter((it) => it && it !== 'test').join(' ');
    const failed = /<(?:failure|error)\b((?:"[^"]*"|[^">])*?)(?:\/>|>([\s\S]*?)<\/(?:failure|error)>)/.exec(body);
    const state = failed ? 'failed' : /<skipped\b/.test(body) ? 'skipped' : 'passed';
    const said = failed ? [attributesOf(failed[1] ?? '').get('message'), decoded(failed[2] ?? '')] : [];
    const file = own.get('file') ?? fileIn(said.join('\n'));
    const line = own.get('line');
    outcomes.push({
      name,
      state,
      file,
      ...(line !== undefined && { line: Number(line) + 1 }),
      ...(failed && { message: said.filter((it) => it).join('\n') }),
    });
  }
  return outcomes;
}

/** The last `file.py:3: Error` of a traceback of pytest. */
const fileIn = (said: string): string | undefined => [...said.matchAll(/^([^\s:]+\.py):\d+: /gm)].at(-1)?.[1];

function attributesOf(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(/([\w:-]+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, decoded(value)]));
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function decoded(text: string): string {
  return text
    .replaceAll(/<!\[CDATA\[([\s\S]*?)\]\]>/g, '$1')
    .replaceAll(/&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w+));/g, (whole, decimal, hex, name) => {
      const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
      if (name !== undefined) return NAMED[name as string] ?? whole;
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    });
}

export interface TestOutcome {
  readonly name: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  readonly file?: string | undefined;
  readonly line?: number | undefined;
  readonly message?: string;
}
