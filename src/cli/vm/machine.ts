/** The Linux machine as Lima reads it (JSON is YAML), and the script that installs the package in it. */
import type { UserDirs } from '../../daemon/user-dirs.ts';

/** The machine's name among those of Lima. */
export const MACHINE = 'ringfence';

/** The daemon's sockets in the machine, which systemd opens for its user. */
const GUEST_FOLDER = '/run/user/{{.UID}}/ringfence';

/** Runs as root at each start of the machine; does nothing where the package is there. */
export const PROVISION = `#!/bin/bash
set -eu
loginctl enable-linger "$LIMA_CIDATA_USER"
installed=/usr/local/lib/ringfence-installed
[ "$(cat $installed 2>/dev/null)" != "$PARAM_package" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends bubblewrap ca-certificates git libatomic1 nodejs npm procps
npm install --global --no-audit --no-fund "$PARAM_package"
echo "$PARAM_package" >$installed
`;

/** Mounts folders at the paths that they have outside, so that a path means the same on both sides. */
export const mountsOf = (folders: readonly string[]): object[] =>
  folders.map((location) => ({ location, mountPoint: location, writable: true }));

/** Debian 13 with the package, with these folders and nothing else of the host, its sockets at those of `dirs`. */
export const templateOf = (folders: readonly string[], npmPackage: string, dirs: UserDirs): object => ({
  minimumLimaVersion: '2.0.0',
  base: 'template:_images/debian-13',
  param: { package: npmPackage },
  mounts: mountsOf(folders),
  // Lima could pass changes of files on as events, but loses many; the daemon looks for changes in shared folders itself.
  mountInotify: false,
  containerd: { system: false, user: false },
  ssh: { forwardAgent: false, loadDotSSHPubKeys: false },
  portForwards: [
    { guestSocket: `${GUEST_FOLDER}/ringfence.sock`, hostSocket: dirs.socket },
    { guestSocket: `${GUEST_FOLDER}/mcp.sock`, hostSocket: dirs.mcpSocket },
  ],
  provision: [{ mode: 'system', script: PROVISION }],
});
