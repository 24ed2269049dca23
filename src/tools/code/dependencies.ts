import { posix } from 'node:path';
import * as z from 'zod';
import { ToolError } from '../../errors.ts';
import { defaultLimits } from '../../limits.ts';
import { parseJson } from '../../text/json.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { NpmLockfile } from './npm-lockfile.ts';

const { graphEntriesMax, lockfileBytesMax } = defaultLimits;
const NOT_CHECKED = 'not checked';
const count = z.int().nonnegative();

/** Lockfiles of managers that are not supported; the error names them. */
const OTHERS = ['pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'Cargo.lock', 'uv.lock', 'poetry.lock', 'go.sum'];

const input = z.strictObject({
  action: z.enum(['list', 'tree', 'outdated', 'audit']).default('list').describe('What to show.'),
  manifest: workspacePath('package.json of the project; package-lock.json lies beside it.').default('package.json'),
  depth: z.int().min(1).max(50).default(3).describe('Levels of the tree.'),
});

export default defineTool({
  name: 'code_dependencies',
  title: 'Show dependencies',
  summary: 'List the packages of a project, or their tree, from package-lock.json (npm, versions 2 and 3).',
  notes:
    'Nothing is installed and nothing runs. Registries are not asked, so that what is outdated or vulnerable is `not checked`: a policy that lists the registry lets `terminal_execute` run `npm audit` or `npm outdated`.',
  version: '1.0.0',
  capabilities: [
    { action: 'dependencies', description: 'Lists packages with versions, licences and install scripts.' },
  ],
  category: 'code_analysis',
  tier: 'read_only',
  isExtra: true,
  idempotent: true,
  cacheable: true,
  effects: ({ manifest }) => [
    { kind: 'read', target: manifest },
    { kind: 'read', target: lockfileBeside(manifest) },
  ],
  input,
  output: z.strictObject({
    manager: z.literal('npm'),
    lockfile: z.string().describe('Relative to the workspace root.'),
    dependencies: z
      .array(
        z.strictObject({
          name: z.string(),
          installed: z.string().describe('Version of the lockfile.'),
          wanted: z.string().optional().describe('Range that the project asks for.'),
          direct: z.boolean(),
          dev: z.boolean(),
          optional: z.boolean(),
          license: z.string().optional(),
          hasInstallScript: z.boolean(),
        }),
      )
      .optional()
      .describe('With `list`.'),
    tree: z
      .array(
        z.strictObject({
          name: z.string(),
          version: z.string(),
          depth: z.int().positive(),
          deduped: z.boolean().describe('Whether its dependencies are shown at an earlier place.'),
        }),
      )
      .optional()
      .describe('With `tree`: each package before what it depends on.'),
    totalDeps: count.describe('Installed packages.'),
    vulnerabilities: z.literal(NOT_CHECKED).describe('No registry is asked.'),
    outdated: z.literal(NOT_CHECKED).describe('No registry is asked.'),
    reason: z.string().optional().describe('Why something is not checked.'),
    truncated: z.boolean(),
  }),
  examples: [
    { input: { manifest: 'lib/package.json' }, error: 'NOT_FOUND' },
    { input: { manifest: 'notes.txt' }, error: 'INPUT_INVALID' },
  ],
  aliases: [
    {
      name: 'analyze_dependencies',
      spellings: { names: { manifest: 'packageJsonPath' } },
      input: z.strictObject({ packageJsonPath: input.shape.manifest }),
      toInput: ({ packageJsonPath }) => input.parse({ manifest: packageJsonPath }),
    },
  ],

  async run({ action, manifest, depth }, ctx) {
    if (posix.basename(manifest) !== 'package.json')
      throw new ToolError('INPUT_INVALID', `manifest \`${manifest}\` is no package.json, the only kind that is read`);
    const path = lockfileBeside(manifest);
    const lockfile = readLockfile(manifest, path, ctx);
    const all = lockfile.list();
    const tree = action === 'tree' ? lockfile.tree(depth, graphEntriesMax) : undefined;
    return {
      manager: 'npm' as const,
      lockfile: path,
      ...(action !== 'tree' && { dependencies: all.slice(0, graphEntriesMax) }),
      ...(tree && { tree: tree.entries }),
      totalDeps: all.length,
      vulnerabilities: NOT_CHECKED as typeof NOT_CHECKED,
      outdated: NOT_CHECKED as typeof NOT_CHECKED,
      ...((action === 'audit' || action === 'outdated') && {
        reason: `No registry was asked. With a policy that lists it, run \`npm ${action}\` by terminal_execute.`,
      }),
      truncated: tree?.truncated ?? all.length > graphEntriesMax,
    };
  },
});

function lockfileBeside(manifest: string): string {
  return posix.join(posix.dirname(manifest), 'package-lock.json');
}

/** Throws NOT_FOUND without a lockfile, UNSUPPORTED for one of another manager or version. */
function readLockfile(manifest: string, path: string, ctx: ToolContext): NpmLockfile {
  ctx.open(manifest)[Symbol.dispose]();
  if (!isThere(path, ctx)) {
    const other = OTHERS.find((it) => isThere(posix.join(posix.dirname(manifest), it), ctx));
    if (other !== undefined)
      throw new ToolError('UNSUPPORTED', `${other} is not supported; package-lock.json of npm is`, {
        suggestion: `Read ${other} with file_read or file_grep.`,
      });
  }
  using file = ctx.open(path);
  if (file.size > lockfileBytesMax)
    throw new ToolError('FILE_LIMIT', `\`${path}\` is ${file.size} bytes; at most ${lockfileBytesMax} are read`, {
      details: { limit: lockfileBytesMax, used: file.size, enforcedBy: 'tool' },
    });
  let value: unknown;
  try {
    value = parseJson(file.bytes().toString());
  } catch {
    // A SyntaxError, or a RangeError for one that nests too deep.
    throw new ToolError('INPUT_INVALID', `\`${path}\` is no JSON`, { suggestion: 'Make it again with npm.' });
  }
  const version = (value as { lockfileVersion?: unknown } | null)?.lockfileVersion;
  if (version !== 2 && version !== 3)
    throw new ToolError(
      'UNSUPPORTED',
      `\`${path}\` has lockfileVersion ${JSON.stringify(version)}; 2 and 3 are supported`,
      {
        suggestion: 'npm 7 and newer write version 3: `npm install --package-lock-only`.',
      },
    );
  return new NpmLockfile(value);
}

function isThere(path: string, ctx: ToolContext): boolean {
  try {
    ctx.open(path)[Symbol.dispose]();
    return true;
  } catch (error) {
    if (error instanceof ToolError && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}
