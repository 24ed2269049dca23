import { expect, test } from 'vitest';
import { Catalogue } from '../../../src/tools/catalogue.ts';
import { builtinToolset } from '../../../src/tools/registry.ts';

const builtin = builtinToolset();
const named = (...names: string[]) => new Map(names.map((it) => [it, builtin.get('file_read') as never]));

test('a source replaces what it gave, others keep theirs, and who listens hears of each change until disposed', () => {
  const catalogue = new Catalogue(builtin);
  let heard = 0;
  const listening = catalogue.onChange(() => heard++);
  catalogue.set('a', named('a__x', 'a__y'));
  const before = catalogue.toolset;
  catalogue.set('b', named('b__x'));
  catalogue.set('a', named('a__z'));
  expect([...catalogue.toolset.keys()].slice(builtin.size)).toEqual(['a__z', 'b__x']);
  expect(before.has('a__y')).toBe(true);
  listening[Symbol.dispose]();
  catalogue.set('a', new Map());
  expect([...catalogue.toolset.keys()].slice(builtin.size)).toEqual(['b__x']);
  expect(heard).toBe(3);
});

test('nobody takes the name of another one', () => {
  const catalogue = new Catalogue(builtin);
  catalogue.set('a', named('a__x'));
  expect(() => catalogue.set('b', named('b__x', 'a__x'))).toThrow(/a__x/);
  expect(() => catalogue.set('b', named('file_read'))).toThrow(/file_read/);
  expect(catalogue.toolset.has('b__x')).toBe(false);
});

test('the text before `__` names one source, whose own tools may change', () => {
  const catalogue = new Catalogue(builtin);
  catalogue.set('provider:gh', named('gh__x'));
  expect(() => catalogue.set('plugin gh', named('gh__y'))).toThrow(/called gh__…, as those of provider:gh are/);
  expect(catalogue.toolset.has('gh__y')).toBe(false);
  catalogue.set('provider:gh', named('gh__y'));
  catalogue.set('plugin ghost', named('ghost__x'));
  expect(catalogue.toolset.has('ghost__x')).toBe(true);
});
