/** What the panel's page costs to load: every open panel is one more reader of this machine. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { repository } from '../support/daemon.ts';

const KiB = 1024;
const folder = join(repository, 'dist/panel');
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((it) => it.includes('.'));
const gzipped = (names: readonly string[]) =>
  names.map((it) => gzipSync(readFileSync(join(folder, it))).length).reduce((sum, it) => sum + it, 0);

/** Files that the page loads at once, by their ending: those that it names, and what they import. */
function loadedFirst(end: string): string[] {
  const page = readFileSync(join(folder, 'index.html'), 'utf8');
  const found = new Set([...page.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, it]) => it as string));
  for (const name of found) {
    if (!name.endsWith('.js')) continue;
    const text = readFileSync(join(folder, name), 'utf8');
    for (const [, it] of text.matchAll(/(?:from|import)"\.\/([^"]+)"/g)) found.add(`assets/${it}`);
  }
  return [...found].filter((it) => it.endsWith(end));
}

test('the page first loads at most 45 KiB of scripts and 4 KiB of styles, compressed, and few files', () => {
  expect(loadedFirst('.js')).toHaveLength(1);
  expect(gzipped(loadedFirst('.js'))).toBeLessThanOrEqual(45 * KiB);
  expect(gzipped(files.filter((it) => it.endsWith('.css')))).toBeLessThanOrEqual(4 * KiB);
});

test('the views that are loaded later are apart, and at most 90 KiB compressed', () => {
  const first = new Set(loadedFirst('.js'));
  const later = files.filter((it) => it.endsWith('.js') && !first.has(it));
  for (const view of ['batch', 'compose', 'audit', 'policy', 'costs', 'machine'])
    expect(
      later.some((it) => it.startsWith(`assets/${view}-`)),
      view,
    ).toBe(true);
  expect(gzipped(later)).toBeLessThanOrEqual(90 * KiB);
});

test('the page names no other origin, and no source of it makes markup of strings', () => {
  const page = readFileSync(join(folder, 'index.html'), 'utf8');
  expect([...page.matchAll(/(?:src|href)="([^"]*)"/g)].filter(([, it]) => !/^\/[^/]/.test(it ?? ''))).toEqual([]);
  expect(page).not.toMatch(/<script(?![^>]*src=)|<style|style=|\son\w+=/);
  const sources = readdirSync(join(repository, 'panel/src'), { recursive: true, encoding: 'utf8' });
  for (const it of sources.filter((name) => /\.tsx?$/.test(name)))
    expect(readFileSync(join(repository, 'panel/src', it), 'utf8'), it).not.toMatch(
      /dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/,
    );
});
