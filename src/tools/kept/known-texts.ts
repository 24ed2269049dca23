/**
 * The tool that tells which texts stand at their paths in given commits: run by the gateway alone. Each object on the way
 * is hashed here, since whoever may write the repository can put other bytes under its name.
 */
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { Git } from '../git/git.ts';
import { findRepository } from '../git/repository.ts';
import { defineTool, workspacePath } from '../tool.ts';

const oid = () => z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/);
const DEPTH_MAX = 32;
const OBJECT = /^([0-9a-f]+) (commit|tree) (\d+)\n/;

export const knownTextsTool = defineTool({
  name: 'git_known_texts',
  title: 'Known texts',
  summary: 'Tells which files stand so in commits.',
  capabilities: [{ action: 'look', description: 'Tells which files stand so in commits.' }],
  category: 'development',
  tier: 'read_only',
  runs: { in: 'command' },
  effects: () => [],
  input: z.strictObject({
    commits: z.array(oid()).min(1).max(200).describe('Where to look.'),
    files: z
      .array(z.strictObject({ path: workspacePath('The file.'), blob: oid() }))
      .min(1)
      .max(500)
      .describe('Files, with the hashes of their bytes.'),
  }),
  output: z.strictObject({
    known: z.array(z.string()).describe('Those that one of the commits has.'),
    missing: z.array(z.string()).describe('Those at whose path one of the commits has nothing.'),
  }),

  async run({ commits, files }, ctx) {
    const git = new Git(ctx, findRepository(ctx, '.'));
    const tops = [...(await read(git, commits)).values()].flatMap(
      (it) => /^tree ([0-9a-f]+)\n/.exec(it.text)?.[1] ?? [],
    );
    const [known, missing] = [new Set<string>(), new Set<string>()];
    const looks = files.map(({ path, blob }) => ({ path, blob, names: path.split('/'), trees: new Set(tops) }));
    for (let depth = 0; depth < DEPTH_MAX; depth++) {
      const trees = await read(git, [...new Set(looks.flatMap((it) => [...it.trees]))]);
      if (trees.size === 0) break;
      for (const it of looks) {
        const inTrees = [...it.trees].flatMap((tree) => trees.get(tree) ?? []);
        const entries = inTrees.flatMap(({ entries: of }) => of.get(it.names[depth] ?? '') ?? []);
        if (entries.length < inTrees.length) missing.add(it.path);
        if (depth === it.names.length - 1 && entries.includes(it.blob)) known.add(it.path);
        it.trees = new Set(depth < it.names.length - 1 ? entries : []);
      }
    }
    return { known: [...known], missing: [...missing] };
  },
});

interface GitObject {
  readonly text: string;
  /** The ids of a tree's entries, by name. */
  readonly entries: ReadonlyMap<string, string>;
}

/** Reads objects by one git; those that are missing, or are not what their name says, are left out. */
async function read(git: Git, ids: readonly string[]): Promise<Map<string, GitObject>> {
  const objects = new Map<string, GitObject>();
  if (ids.length === 0) return objects;
  const env = { GIT_NO_REPLACE_OBJECTS: '1' };
  const { stdout } = await git.try(['cat-file', '--batch'], { stdin: `${ids.join('\n')}\n`, env });
  for (let at = 0; at < stdout.length; ) {
    const end = stdout.indexOf(10, at);
    if (end < 0) break;
    const [head, id = '', type = '', size = ''] = OBJECT.exec(stdout.toString('latin1', at, end + 1)) ?? [];
    if (head === undefined) {
      at = end + 1;
      continue;
    }
    const body = stdout.subarray(end + 1, end + 1 + Number(size));
    at = end + 2 + Number(size);
    const hash = createHash(id.length === 64 ? 'sha256' : 'sha1')
      .update(`${type} ${body.length}\0`)
      .update(body);
    if (hash.digest('hex') !== id) continue;
    const entries = type === 'tree' ? entriesOf(body, id.length / 2) : new Map<string, string>();
    objects.set(id, { text: type === 'commit' ? body.toString('latin1') : '', entries });
  }
  return objects;
}

function entriesOf(tree: Buffer, idBytes: number): Map<string, string> {
  const entries = new Map<string, string>();
  for (let at = 0; at < tree.length; ) {
    const end = tree.indexOf(0, at);
    if (end < 0) break;
    const name = tree.toString('utf8', tree.indexOf(32, at) + 1, end);
    entries.set(name, tree.toString('hex', end + 1, end + 1 + idBytes));
    at = end + 1 + idBytes;
  }
  return entries;
}
