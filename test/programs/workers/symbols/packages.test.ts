/**
 * Renames and moves in real packages: the packages of node_modules that carry their TypeScript sources. The errors that
 * such sources have without their own settings are as good as none: they must stay the same.
 */
import { cpSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { TypeCheck } from '../../../../src/tools/source/typescript.ts';
import { repository } from '../../../support/daemon.ts';
import { type ToolFolder, toolFolder, writeFiles } from '../../../support/search.ts';

/** Packages with the folder of their sources. */
const PACKAGES = {
  '@jridgewell/sourcemap-codec': 'src',
  '@jridgewell/trace-mapping': 'src',
  '@secretlint/core': 'src',
  '@secretlint/types': 'src',
  ajv: 'lib',
  'ajv-formats': 'src',
  'css-select': 'src',
  'css-what': 'src',
  'dom-serializer': 'src',
  domutils: 'src',
  entities: 'src',
  eventsource: 'src',
  'eventsource-parser': 'src',
  htmlparser2: 'src',
  mime: 'src',
  minisearch: 'src',
  'nth-check': 'src',
  piscina: 'src',
  'search-insights': 'lib',
  zod: 'src/v4/core',
};

let folder: ToolFolder;
beforeAll(() => {
  folder = toolFolder();
  symlinkSync(join(repository, 'node_modules'), join(folder.workspace, 'node_modules'));
  writeFiles(folder.workspace, { '.gitignore': 'node_modules\n', '.git/HEAD': '' });
});
afterAll(() => folder[Symbol.dispose]());
// The server keeps the projects that it has loaded; 20 of them are near its bound of memory.
afterEach(() => folder.tools.servers.typescript[Symbol.dispose]());

const OPTIONS = {
  ...{ module: 'esnext', moduleResolution: 'bundler', target: 'esnext', noEmit: true, strict: true, types: ['node'] },
  ...{ allowImportingTsExtensions: true, skipLibCheck: true, esModuleInterop: true, resolveJsonModule: true },
};

/** Copies the sources of a package, without its tests and declarations; gives their paths and texts. */
function copySources(name: string, sources: string): Map<string, string> {
  const from = join(repository, 'node_modules', name, sources);
  const home = name.replace(/[@/]/g, '_');
  const isSource = (it: string) =>
    !/\.[a-z]+$/.test(it) || (/\.[cm]?ts$/.test(it) && !/\.d\.[cm]?ts$|[.-](test|spec)\./.test(it));
  cpSync(from, join(folder.workspace, home, 'src'), {
    recursive: true,
    filter: (it) => isSource(basename(it)) && !/\/(tests?|__tests__|__fixtures__|node_modules)$/.test(it),
  });
  writeFiles(join(folder.workspace, home), {
    'package.json': '{ "type": "module" }',
    'tsconfig.json': JSON.stringify({ compilerOptions: OPTIONS, include: ['src'] }),
  });
  return textsIn(home);
}

const textsIn = (home: string): Map<string, string> =>
  new Map(
    readdirSync(join(folder.workspace, home, 'src'), { recursive: true, withFileTypes: true })
      .filter((it) => it.isFile())
      .map((it) => join(it.parentPath, it.name))
      .sort()
      .map((it) => [relative(folder.workspace, it), readFileSync(it, 'latin1')]),
  );

/** The file that most others import, and a name that it exports and others use. */
function mostUsed(texts: Map<string, string>): { path: string; symbol: string; line: number } {
  const all = [...texts].map(([path, text]) => {
    const stem = basename(path).replace(/\.[cm]?ts$/, '');
    const others = [...texts].filter(([it]) => it !== path).map(([, it]) => it);
    const importers = others.filter(
      (it) => it.includes(`/${stem}.`) || it.includes(`/${stem}'`) || it.includes(`/${stem}"`),
    );
    const exported = [
      ...text.matchAll(
        /^(?:export )?(?:default )?(?:abstract )?(?:async )?(?:function|class|const|interface|type) (\w+)(?![\w$])/gm,
      ),
    ]
      .map((it) => it[1] as string)
      .map((symbol) => ({ symbol, uses: others.filter((it) => new RegExp(`\\b${symbol}\\b`).test(it)).length }))
      .sort((a, b) => b.uses - a.uses);
    return { path, symbol: exported[0]?.symbol ?? '', uses: importers.length };
  });
  const [first] = all.filter((it) => it.symbol !== '').sort((a, b) => b.uses - a.uses);
  const { path, symbol } = first as { path: string; symbol: string };
  const lines = (texts.get(path) as string).split('\n');
  return { path, symbol, line: lines.findIndex((it) => new RegExp(`^[a-z ]+\\b${symbol}\\b`).test(it)) + 1 };
}

/** All errors of a package, without the names that a refactoring itself changes. */
async function errorsOf(home: string, names: RegExp): Promise<string[]> {
  const { errors, truncated } = await folder.tools.run<TypeCheck>('code_type_check', {
    files: [home],
  });
  expect(truncated).toBe(false);
  return errors
    .map((it) => `${it.code} ${it.message.replaceAll(names, '·').replaceAll(/(['"])[^'"]*\/[^'"]*\1/g, '/')}`)
    .sort();
}

const refactor = (input: Record<string, unknown>) => folder.tools.run<{ newErrors: object[] }>('code_refactor', input);

test.each(Object.entries(PACKAGES))(
  'a rename and moves leave the errors of %s as they are, and back again every byte',
  { timeout: 120_000 },
  async (name, sources) => {
    const before = copySources(name, sources);
    const home = name.replace(/[@/]/g, '_');
    const { path, symbol, line } = mostUsed(before);
    const [newName, to] = [`renamed${symbol}`, join(dirname(path), 'moved here', basename(path))];
    const errors = await errorsOf(home, new RegExp(`\\b${symbol}\\b`, 'g'));
    const names = new RegExp(`\\b(${symbol}|${newName})\\b`, 'g');
    expect(await refactor({ operation: 'rename', path, symbol, line, newName })).toMatchObject({ newErrors: [] });
    expect(textsIn(home)).not.toEqual(before);
    expect(await errorsOf(home, names)).toEqual(errors);
    expect(await refactor({ operation: 'move_file', path, to })).toMatchObject({ newErrors: [] });
    expect(await errorsOf(home, names)).toEqual(errors);
    await refactor({ operation: 'move_file', path: to, to: path });
    await refactor({ operation: 'rename', path, symbol: newName, line, newName: symbol });
    expect(textsIn(home)).toEqual(before);
    const [inner] = [...before.keys()].map((it) => it.split('/')).filter((it) => it.length > 3);
    if (!inner) return;
    const [directory, elsewhere] = [inner.slice(0, 3).join('/'), join(home, 'src/moved here', inner[2] as string)];
    await refactor({ operation: 'move_file', path: directory, to: elsewhere });
    expect(await errorsOf(home, names)).toEqual(errors);
    await refactor({ operation: 'move_file', path: elsewhere, to: directory });
    expect(textsIn(home)).toEqual(before);
  },
);
