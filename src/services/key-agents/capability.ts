/** The agents that hold a person's keys. */
import { join } from 'node:path';
import * as z from 'zod';
import { defineCapability } from '../capability.ts';
import { Ssh } from './ssh.ts';

export const keyAgents = defineCapability({
  keys: {
    sshAgent: z
      .string()
      .min(1)
      .max(4096)
      .optional()
      .describe(
        'Socket of the ssh agent whose keys `git_push` and its kin use: [push](how-to/push.md). Default: SSH_AUTH_SOCK of the daemon.',
      ),
  },
  settings: ({ sshAgent }, { env, toPath }) => ({
    agent: sshAgent === undefined ? env.SSH_AUTH_SOCK : toPath(sshAgent),
  }),
  start({ agent }, daemon) {
    const knownHosts = [join(daemon.home, '.ssh/known_hosts'), '/etc/ssh/ssh_known_hosts'];
    return { keyAgents: { ssh: new Ssh({ agent, knownHosts }, daemon) } };
  },
});
