/** The systemd units of the daemon. What they leave out matters as much: their test names it. */

/** Whose units: of one person's own service manager, or templates of the machine's, with an instance a person. */
export type Scope = 'user' | 'system';

export interface UnitOptions {
  readonly scope: Scope;
  /** Absolute path of Node. */
  readonly node: string;
  /** Absolute path of `bin/ringfenced.js`. */
  readonly program: string;
}

/** The name of the unit without its suffix; a template's ends in `@`. */
export const unitName = (scope: Scope, user: string): string => (scope === 'user' ? 'ringfence' : `ringfence@${user}`);

/** The units of a person, the sockets first. */
export function unitNames(scope: Scope, user: string): readonly string[] {
  const at = scope === 'user' ? '' : `@${user}`;
  return [`ringfence${at}.socket`, `ringfence-mcp${at}.socket`, `ringfence${at}.service`];
}

/** The socket's folder, by systemd's specifiers. */
const runtimeDir = (scope: Scope): string => (scope === 'user' ? '%t/ringfence' : '/run/ringfence/%i');

/** Directives that a user's own manager could not apply, or that would need a mount namespace there. */
const SYSTEM_ONLY = [
  'User=%i',
  'ProtectClock=yes',
  'ProtectKernelModules=yes',
  'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK',
  'CapabilityBoundingSet=',
];

export function serviceUnit({ scope, node, program }: UnitOptions): string {
  const words = [node, program, '--socket', `${runtimeDir(scope)}/ringfence.sock`];
  const folder = scope === 'user' ? 'ringfence' : 'ringfence/%i';
  return `[Unit]
Description=Ringfence, executes AI agents' tool calls in processes that the kernel confines
Documentation=https://github.com/ringfence/ringfence
Requires=${socketOf(scope)}
After=${socketOf(scope)}

[Service]
Type=notify
Sockets=${socketOf(scope)}
NotifyAccess=main
ExecStart=${words.map((it) => asWord(it, runtimeDir(scope))).join(' ')}
ExecReload=/bin/kill -HUP $MAINPID
WatchdogSec=30s
TimeoutStopSec=20s
KillMode=mixed
Restart=on-failure
RestartSec=1s
# An error in the settings: starting again would not help.
RestartPreventExitStatus=2 78
UMask=0077
WorkingDirectory=/
RuntimeDirectory=${folder}
RuntimeDirectoryMode=0700
# The sockets lie in it, and stay while the service is stopped.
RuntimeDirectoryPreserve=yes
LimitCORE=0
LimitNOFILE=65536
OOMPolicy=continue
Delegate=cpu memory pids
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
SystemCallArchitectures=native
${scope === 'system' ? `${SYSTEM_ONLY.join('\n')}\n` : ''}
[Install]
WantedBy=${scope === 'user' ? 'default.target' : 'multi-user.target'}
`;
}

export function socketUnit(scope: Scope): string {
  const folder = runtimeDir(scope);
  // A folder of the machine's manager belongs to root until the service starts, and its owner must reach the socket.
  const owner = scope === 'user' ? 'DirectoryMode=0700' : 'DirectoryMode=0755\nSocketUser=%i';
  return `[Unit]
Description=Socket of Ringfence

[Socket]
ListenStream=${folder}/ringfence.sock
FileDescriptorName=control
SocketMode=0600
${owner}
RemoveOnStop=yes
Service=${unitName(scope, '%i')}.service

[Install]
WantedBy=sockets.target
`;
}

/** The MCP socket has a unit of its own, since the sockets of one unit share their name. */
export function mcpSocketUnit(scope: Scope): string {
  return socketUnit(scope)
    .replace('Socket of Ringfence', 'MCP socket of Ringfence')
    .replace('ringfence.sock', 'mcp.sock')
    .replace('FileDescriptorName=control', 'FileDescriptorName=mcp');
}

const socketOf = (scope: Scope): string => unitNames(scope, '%i').slice(0, 2).join(' ');

/** The files of a scope by name. */
export function unitFiles(options: UnitOptions): ReadonlyMap<string, string> {
  const at = options.scope === 'user' ? '' : '@';
  return new Map([
    [`ringfence${at}.service`, serviceUnit(options)],
    [`ringfence${at}.socket`, socketUnit(options.scope)],
    [`ringfence-mcp${at}.socket`, mcpSocketUnit(options.scope)],
  ]);
}

/** Quotes a word of a command line for systemd, whose own specifiers are only wanted in `folder`. */
function asWord(word: string, folder: string): string {
  const plain = word.startsWith(`${folder}/`) ? word : word.replaceAll('%', '%%').replaceAll('$', '$$$$');
  return /^[\w@%+=:,./$-]+$/.test(plain) ? plain : `"${plain.replaceAll(/["\\]/g, '\\$&')}"`;
}
