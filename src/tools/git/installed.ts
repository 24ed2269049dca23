/** Checks that git is installed, runs and is new enough. */
import type { Effect } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import type { Health } from '../lifecycle.ts';
import type { ToolContext } from '../tool.ts';

/** The first version that reads settings from GIT_CONFIG_COUNT, which switches off the filters of a repository. */
const GIT_MIN = [2, 31] as const;
const OUTPUT_BYTES_MAX = 4096;
const STDERR_CHARS_SHOWN = 200;

/** Throws UNSUPPORTED if git is missing, does not run or is too old. */
export async function assertGit(ctx: ToolContext): Promise<void> {
  const { stdout, stderr, exitCode } = await ctx.program({
    program: 'git',
    args: ['--version'],
    cwd: '.',
    env: { LC_ALL: 'C.UTF-8' },
    bytesMax: OUTPUT_BYTES_MAX,
  });
  const said = stdout.toString('utf8').trim();
  const [, version = '', major, minor] = /^git version ((\d+)\.(\d+)\S*)/.exec(said) ?? [];
  if (exitCode !== 0 || version === '') {
    const why = (stderr.trim() || said || `exit code ${exitCode}`).slice(0, STDERR_CHARS_SHOWN);
    throw new ToolError('UNSUPPORTED', `git can't be run on this machine: ${why}`, {
      suggestion: 'Ask the person to run `git --version` where the daemon runs and to repair what it reports.',
    });
  }
  const [least, leastMinor] = GIT_MIN;
  if (Number(major) > least || (Number(major) === least && Number(minor) >= leastMinor)) return;
  throw new ToolError('UNSUPPORTED', `git is ${version} on this machine; the git tools need ${least}.${leastMinor}`, {
    suggestion: `Ask the person to install git ${least}.${leastMinor} or newer.`,
  });
}

/** Health check of the tools that run git. */
export async function gitHealth(ctx: ToolContext): Promise<Health> {
  await assertGit(ctx);
  return { ok: true };
}

/** Properties of the tools that only read a repository. */
export const readsRepository = {
  category: 'development',
  tier: 'read_only',
  runs: { in: 'command' },
  initialize: assertGit,
  healthCheck: gitHealth,
  idempotent: true,
  effects: ({ path }: { path: string }): Effect[] => [{ kind: 'read', target: path }],
  spellings: { names: { projectPath: 'path' } },
} as const;
