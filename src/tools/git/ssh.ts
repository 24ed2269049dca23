/** The person's ssh for git in a sandbox: it runs outside, and git talks to it by a pipe. */
import { ToolError } from '../../base/errors.ts';
import { connecting, programAt } from '../context/program-pipe.ts';
import type { SshServer } from '../context/ssh-server.ts';

/** What git takes for the server: the gateway knows which one is meant. */
export const SSH_URL = 'ssh://server/repository';

/** Git gives a server and the program to run there; the pipe is to that program. It ends when the server does, or soon after git. */
const RELAY = `${connecting(programAt('${2%% *}'))}
{ cat; sleep 5; kill $$; } <&0 >&3 2>/dev/null &
cat <&3`;

export const SSH_ENVIRONMENT = {
  RELAY,
  GIT_SSH_COMMAND: 'bash -c "$RELAY" relay',
  GIT_SSH_VARIANT: 'simple',
};

const CHARS_SHOWN = 400;

/** What ssh, or the server by ssh, said as a tool's error. The person's files and keys that ssh names stay out of it. */
export function refusedBySsh({ user, host, port }: SshServer, stderr: string): ToolError {
  const login = `ssh ${port === 22 ? '' : `-p ${port} `}${user}@${host}`;
  const name = port === 22 ? host : `[${host}]:${port}`;
  if (/HOST IDENTIFICATION HAS CHANGED/.test(stderr))
    return new ToolError(
      'ACCESS_DENIED',
      `the host key of ${name} has changed: it is another server, or was set up anew`,
      {
        suggestion: `Tell the person. If they expect that: \`ssh-keygen -R '${name}'\`, and then \`${login}\` to compare the fingerprint.`,
        details: { reason: 'changed-host-key', host: name },
      },
    );
  if (/Host key verification failed|host key is known/.test(stderr))
    return new ToolError('ACCESS_DENIED', `the host key that ${name} shows is none that the person knows`, {
      suggestion: `Ask the person to run \`${login}\` once and to compare the fingerprint.`,
      details: { reason: 'unknown-host-key', host: name },
    });
  if (/Permission denied|agent refused|Too many authentication failures|communication with agent/.test(stderr))
    return new ToolError('AUTH_REQUIRED', `${host} takes no key of the person's ssh agent for ${user}`, {
      suggestion: `Ask the person to try \`${login}\`, and to add the key by ssh-add.`,
      details: { reason: 'refused-by-server', auth: 'refused' },
    });
  const said = stderr
    .replaceAll(/^(?:fatal|error|remote): |remote error: |ssh: /gm, '')
    .trim()
    .split('\n')
    .slice(0, 3)
    .join(' ')
    .slice(0, CHARS_SHOWN);
  const details = { reason: 'refused-by-server', git: said };
  if (/not found|does not appear to be a git repository/i.test(stderr))
    return new ToolError('NOT_FOUND', `${host} has no such repository, or does not show it to ${user}`, {
      suggestion: 'Check the remote; if it is right, ask the person for access.',
      details,
    });
  return new ToolError('UPSTREAM_FAILED', `${host} could not do this by ssh: ${said}`, {
    suggestion: `Ask the person to try \`${login}\`.`,
    details,
  });
}
