/** The agents that hold a person's keys. */
import { join } from 'node:path';
import * as z from 'zod';
import { defineCapability } from '../capability.ts';
import { Signer } from './signing.ts';
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
    ssh: sshAgent === undefined ? env.SSH_AUTH_SOCK : toPath(sshAgent),
    gpgHome: env.GNUPGHOME,
  }),
  start({ ssh, gpgHome }, daemon) {
    const { home, configHome } = daemon;
    const knownHosts = [join(home, '.ssh/known_hosts'), '/etc/ssh/ssh_known_hosts'];
    const signer = new Signer({ ssh, gpgHome, home, configHome }, daemon);
    return { keyAgents: { ssh: new Ssh({ agent: ssh, knownHosts }, daemon), signer } };
  },
});
