/** Links between pages lead to files and headings that exist, lines are short, and the index lists every page. */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { CODES } from '../../../src/base/errors.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (file: string): string => readFileSync(join(root, file), 'utf8');
/** bench/notes.md is left out, since its text becomes part of docs/benchmarks.md and its links count from there. */
const pages = globSync(['*.md', '{docs,examples,policies,bench,mcpb,native,test}/**/*.md'], { cwd: root }).filter(
  (it) => !it.includes('node_modules') && it !== 'bench/notes.md',
);

const withoutCode = (text: string): string =>
  text.replaceAll(/^( *)```[\s\S]*?^\1```/gm, '').replaceAll(/`[^`\n]*`/g, '`');

/** Anchors of a page's headings, as GitHub makes them. */
function anchorsOf(text: string): Set<string> {
  const headings = [...text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} (.+)$/gm)].map(([, it = '']) =>
    it
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  );
  return new Set(
    headings.map((it, at) =>
      headings.indexOf(it) === at ? it : `${it}-${headings.slice(0, at).filter((other) => other === it).length}`,
    ),
  );
}

/** Links of a page that lead nowhere. */
function deadLinksOf(page: string): string[] {
  const links = [...withoutCode(read(page)).matchAll(/\]\(<?((?![a-z]+:)[^)\s>]+)>?\)/g)].map(([, it = '']) => it);
  return links.filter((link) => {
    const [path = '', anchor] = link.split('#');
    const file = path === '' ? page : normalize(join(dirname(page), path));
    if (!existsSync(join(root, file))) return true;
    if (anchor === undefined) return false;
    return statSync(join(root, file)).isDirectory() || !anchorsOf(read(file)).has(anchor);
  });
}

test.each(pages)('every link of %s leads somewhere', (page) => {
  expect(deadLinksOf(page)).toEqual([]);
});

/** docs/benchmarks.md is left out, since its captions come from the benches. */
test.each(pages.filter((it) => it !== 'docs/benchmarks.md'))(
  'the prose of %s is in lines of at most 120 characters',
  (page) => {
    const prose = read(page).replaceAll(/^( *)```[\s\S]*?^\1```/gm, '');
    expect(prose.split('\n').filter((it) => it.length > 120 && !/^ *\|/.test(it))).toEqual([]);
  },
);

test('docs/README.md lists every page, and docs/decisions/README.md every decision', () => {
  for (const index of ['docs/README.md', 'docs/decisions/README.md']) {
    const folder = dirname(index);
    const listed = [...read(index).matchAll(/^- \[[^\]]+\]\((\S+?\.md)\)/gm)].map(([, it]) => it);
    const there = globSync('**/*.md', { cwd: join(root, folder) }).filter((it) => it !== 'README.md');
    const wanted = there.filter((it) => folder !== 'docs' || !/^(decisions\/\d|threat-model\/)/.test(it));
    expect(new Set(listed)).toEqual(new Set(wanted));
  }
});

/** Pages that a script writes whole. */
const GENERATED = ['benchmarks', 'design-documents', 'tools', 'verbs'].map((it) => `docs/${it}.md`);
test.each(pages.filter((it) => !GENERATED.includes(it)))('%s has at most 300 lines', (page) => {
  expect(read(page).split('\n').length - 1).toBeLessThanOrEqual(300);
});

const decisions = pages.filter((it) => /^docs\/decisions\/\d/.test(it));
test.each(decisions)('%s has a status, a context, a decision and consequences, on a page', (page) => {
  const text = read(page);
  expect(text).toMatch(/^# \d+\. .+\n\n\*\*Status\*\*: .+/);
  expect([...text.matchAll(/^## (.+)$/gm)].map(([, it]) => it)).toEqual(
    expect.arrayContaining(['Context', 'Decision', 'Consequences']),
  );
  expect(text.split('\n').length).toBeLessThanOrEqual(80);
});

test('the errors and verbs that the page of troubles names exist', () => {
  const text = read('docs/how-to/troubleshooting.md');
  const codes = [...text.matchAll(/\b[A-Z]{3,}_[A-Z_]+\b/g)].map(([it]) => it);
  expect(codes.length).toBeGreaterThan(10);
  expect(codes.filter((it) => !Object.hasOwn(CODES, it))).toEqual([]);
  const verbs = [...text.matchAll(/ringfence ([a-z]+)/g)].map(([, it = '']) => it).filter((it) => it !== 'doctor');
  expect(verbs.filter((it) => !new RegExp(`^ringfence ${it}\\b`, 'm').test(read('docs/verbs.md')))).toEqual([]);
});
