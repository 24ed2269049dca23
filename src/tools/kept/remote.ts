/** The tool that reads where the workspace's repository lies: run by the gateway alone, for calls that name no repository. */
import * as z from 'zod';
import { urlOfRemote } from '../git/remote.ts';
import { branchOf, findRepository } from '../git/repository.ts';
import { defineTool, workspacePath } from '../tool.ts';

export const foundRemote = z.object({ url: z.url().max(2048), branch: z.string().max(255).optional() });

export const remoteTool = defineTool({
  name: 'git_remote',
  title: 'Remote',
  summary: 'Reads the URL of `origin` and the current branch.',
  capabilities: [{ action: 'look', description: 'Reads the URL of `origin` and the current branch.' }],
  category: 'development',
  tier: 'read_only',
  effects: () => [],
  before: {
    async resolve({ path }, ctx) {
      const repository = findRepository(ctx, path);
      const url = urlOfRemote(ctx, repository, 'origin');
      return [{ path, url, branch: branchOf(ctx, repository) }];
    },
  },
  input: z.strictObject({ path: workspacePath('In the repository.').default('.'), ...foundRemote.partial().shape }),
  output: z.strictObject({}),
});
