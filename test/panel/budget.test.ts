/** What the panel's page costs to load: every open panel is one more reader of this machine. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { repository } from '../support/daemon.ts';

const KiB = 1024;
const folder = join(repository, 'dist/panel');
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((it) => it.includes('.'));
const gzipped = (end: string) =>
  files.filter((it) => it.endsWith(end)).reduce((sum, it) => sum + gzipSync(readFileSync(join(folder, it))).length, 0);

test('its scripts take at most 45 KiB compressed, and its styles at most 4 KiB', () => {
  expect(gzipped('.js')).toBeGreaterThan(0);
  expect(gzipped('.js')).toBeLessThanOrEqual(45 * KiB);
  expect(gzipped('.css')).toBeLessThanOrEqual(4 * KiB);
});

test('it names no other origin, and no source of it makes markup of strings', () => {
  const page = readFileSync(join(folder, 'index.html'), 'utf8');
  expect([...page.matchAll(/(?:src|href)="([^"]*)"/g)].filter(([, it]) => !/^\/[^/]/.test(it ?? ''))).toEqual([]);
  expect(page).not.toMatch(/<script(?![^>]*src=)|<style|style=|\son\w+=/);
  const sources = readdirSync(join(repository, 'panel/src'), { recursive: true, encoding: 'utf8' });
  for (const it of sources.filter((name) => /\.tsx?$/.test(name)))
    expect(readFileSync(join(repository, 'panel/src', it), 'utf8'), it).not.toMatch(
      /dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/,
    );
});
