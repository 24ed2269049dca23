/** Remotes by ssh: `USER@HOST:PATH` and `ssh://USER@HOST[:PORT]/PATH`. */

/** A repository on a server that is reached by ssh. */
export interface SshServer {
  readonly user: string;
  readonly host: string;
  readonly port: number;
  /** The path that the server's programs take: relative to the user's home, or absolute. */
  readonly path: string;
}

const USER = String.raw`([A-Za-z0-9_][\w.-]{0,63})`;
/** A name, or an IPv4 address: nothing that ssh could take for an option. */
const HOST = String.raw`([A-Za-z0-9_][\w.-]{0,252})`;
const PATH = String.raw`([^-\p{Cc}][^\p{Cc}]{0,1023})`;
const SHORT = new RegExp(`^${USER}@${HOST}:(?!//)${PATH}$`, 'u');
const LONG = new RegExp(String.raw`^ssh://${USER}@${HOST}(?::(\d{1,5}))?/${PATH}$`, 'u');

/** The server that a remote names; undefined for one that is not reached by ssh, or names no user. */
export function sshServerOf(remote: string): SshServer | undefined {
  const [, user, name, path] = SHORT.exec(remote) ?? [];
  if (user && name && path) return { user, host: name.toLowerCase(), port: 22, path };
  const [, login, host, port = '22', rest = ''] = LONG.exec(remote) ?? [];
  if (!login || !host || Number(port) < 1 || Number(port) > 65_535) return undefined;
  return { user: login, host: host.toLowerCase(), port: Number(port), path: rest.startsWith('~') ? rest : `/${rest}` };
}
