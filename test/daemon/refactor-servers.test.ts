/** Renames in Python, Go and Rust by real language servers in the box; those that this machine lacks are left out by name. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { BUILT_IN_DEFAULT, type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  // rust-analyzer asks cargo, which rustup has in the home.
  const rust = join(process.env.HOME ?? '/', '.rustup/toolchains/stable-x86_64-unknown-linux-gnu');
  const config = existsSync(rust) ? { toolchains: [`${rust}/bin`, rust] } : {};
  daemon = await openDaemon({ policy: BUILT_IN_DEFAULT, config });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const read = (path: string) => readFileSync(join(daemon.workspace, path), 'utf8');
function put(tree: Record<string, string>): void {
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(daemon.workspace, path)), { recursive: true });
    writeFileSync(join(daemon.workspace, path), text);
  }
}
const rename = (input: object) => client.call('code_refactor', { operation: 'rename', ...input } as never);

const isInstalled = (program: string) => findProgram(program) !== undefined;

interface Language {
  readonly language: string;
  readonly programs: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly path: string;
  readonly user: string;
  /** A name that the function meets where it is used. */
  readonly taken: string;
}

const LANGUAGES: readonly Language[] = [
  {
    language: 'Python',
    programs: ['pyright-langserver', 'pylsp'],
    files: {
      'py/shape.py': 'def area(side):\n    """area in words"""\n    return side * side\n',
      'py/use.py': 'from shape import area\n\ndef told(surface):\n    return f"{area(surface)} area"\n',
    },
    path: 'py/shape.py',
    user: 'py/use.py',
    taken: 'surface',
  },
  {
    language: 'Go',
    programs: ['gopls'],
    files: {
      'go.mod': 'module example.test/shape\n\ngo 1.19\n',
      'shape.go': 'package shape\n\n// area of a square\nfunc area(side int) int { return side * side }\n',
      'use.go': 'package shape\n\nfunc Told(surface int) int { return area(surface) }\n',
    },
    path: 'shape.go',
    user: 'use.go',
    taken: 'surface',
  },
  {
    language: 'Rust',
    programs: ['rust-analyzer'],
    files: {
      'Cargo.toml': '[package]\nname = "shape"\nversion = "0.1.0"\nedition = "2021"\n',
      'src/lib.rs': 'pub mod shape;\npub mod used;\n',
      'src/shape.rs': '/// area of a square\npub fn area(side: u32) -> u32 { side * side }\n',
      'src/used.rs': 'use crate::shape::area;\n\npub fn told(surface: fn(u32) -> u32) -> u32 { surface(area(2)) }\n',
    },
    path: 'src/shape.rs',
    user: 'src/used.rs',
    taken: 'surface',
  },
];

describe.each(LANGUAGES)('a rename in $language', ({ programs, files, path, user, taken }) => {
  const isHere = programs.some(isInstalled);

  test.runIf(isHere)(
    'changes each use, asks nothing, and one undo takes it back',
    async () => {
      put(files);
      const shown = await rename({ path, symbol: 'area', newName: 'extent', preview: true });
      expect(shown).toMatchObject({
        success: true,
        data: { files: expect.arrayContaining([expect.objectContaining({ path: user })]) },
      });
      expect(read(user)).toBe(files[user]);
      const made = await rename({ path, symbol: 'area', newName: 'extent' });
      expect(made).toMatchObject({ success: true, metadata: { undo: 'full' } });
      expect(read(path)).toMatch(/(def|func|fn) extent/);
      expect(read(user)).toContain('extent(');
      await client.request('calls.undo', { callId: made.callId });
      for (const it of [path, user]) expect(read(it)).toBe(files[it]);
    },
    120_000,
  );

  test.runIf(isHere)(
    'a name that another would take over is refused, and nothing is written',
    async () => {
      put(files);
      const refused = await rename({ path, symbol: 'area', newName: taken });
      expect(refused).toMatchObject({ success: false, error: { code: 'CONFLICT' } });
      for (const it of [path, user]) expect(read(it)).toBe(files[it]);
    },
    120_000,
  );
});

test('a name that is no identifier, or no symbol, is told so', async () => {
  put({ 'a.py': '# area\n' });
  expect(await rename({ path: 'a.py', symbol: 'area', newName: 'a b' })).toMatchObject({
    error: { code: 'INPUT_INVALID', message: expect.stringContaining('`a b`') },
  });
});
