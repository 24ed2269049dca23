/** The read-only system that every sandbox shows: /usr, and of /etc and /sys what tells no secret. */
import { existsSync, lstatSync, readdirSync, readlinkSync } from 'node:fs';
import type { Mount, Profile } from '../mount.ts';

/**
 * Names in /etc that programs need to start, and settings that hold no credential. Files in which people do write one are judged by
 * what they hold (settings.ts), or are not shown (profile.d, environment, apt).
 */
const ETC = [
  ...['ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'passwd', 'group', 'nsswitch.conf', 'localtime', 'alternatives'],
  ...['ssl', 'ca-certificates', 'ca-certificates.conf', 'pki', 'crypto-policies', 'gnutls', 'mime.types', 'mailcap'],
  ...['services', 'protocols', 'ethertypes', 'networks', 'rpc', 'host.conf', 'gai.conf', 'shells', 'login.defs'],
  ...['os-release', 'lsb-release', 'debian_version', 'redhat-release', 'alpine-release', 'arch-release', 'issue'],
  ...[
    'locale.alias',
    'locale.conf',
    'locale.gen',
    'timezone',
    'terminfo',
    'inputrc',
    'nanorc',
    'vim',
    'manpath.config',
  ],
  ...['fonts', 'chromium', 'chromium.d', 'groff', 'papersize', 'libpaper.d', 'texmf', 'xml', 'sgml', 'glvnd', 'OpenCL'],
  ...[
    'vulkan',
    'gtk-2.0',
    'gtk-3.0',
    'perl',
    'maven/logging',
    'maven/m2.conf',
    'magic',
    'magic.mime',
    'dpkg',
    'gdb',
    'gprofng.rc',
    'ghostscript',
  ],
];
/** Distributions keep the settings of these under names with versions: without them Java does not start. */
const ETC_VERSIONED = /^(?:java(?:-\d+-openjdk)?|python3(?:\.\d+)?|ImageMagick-\d+)$/;
/** Keys of the machine's servers below those, which a daemon that runs as root could show. */
const ETC_KEYS = [
  '/etc/ssl/private',
  '/etc/pki/tls/private',
  '/etc/pki/nssdb',
  '/etc/pki/consumer',
  '/etc/pki/entitlement',
];

/**
 * A second path of an execute host's /etc. No machine has this path: a command's profile used elsewhere fails instead
 * of showing more.
 */
const HOST_ETC = '/run/ringfence/etc';

/** What lscpu and dpkg list; the processors are in /proc/cpuinfo, too. */
export const SYSTEM_FACTS = ['/sys/devices/system/cpu', '/sys/devices/system/node', '/var/lib/dpkg'].map(
  (path): Mount => ({ kind: 'ro-try', path }),
);

type EtcParts = Pick<Profile, 'nests' | 'isNested' | 'names' | 'ownFiles'>;

/** The read-only system: /usr, the top-level folders that link into it or stand beside it, and a few files of /etc. */
export function systemMounts(profile: EtcParts): Mount[] {
  const top = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'].flatMap((path): Mount[] => {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat) return [];
    return stat.isSymbolicLink() ? [{ kind: 'symlink', to: readlinkSync(path), at: path }] : [{ kind: 'ro', path }];
  });
  return [{ kind: 'ro', path: '/usr' }, ...top, ...etcMounts(profile), CARGO];
}

/** The file that names the sandbox's own loopback, for a system that is not the machine's. */
export const namesMount = ({ isNested = false, names }: EtcParts): Mount[] =>
  isNested || names !== undefined
    ? [{ kind: 'ro-at', path: `${isNested ? HOST_ETC : names}/hosts`, at: '/etc/hosts' }]
    : [];

/** bubblewrap reads the mount table for each mount: commands mount their host's assembled /etc as one. */
function etcMounts({ nests, isNested = false, names, ownFiles = [] }: EtcParts): Mount[] {
  if (isNested) return [{ kind: 'ro-at', path: HOST_ETC, at: '/etc' }];
  const own = [
    ...(names === undefined ? [] : OWN_NAMES.map((it) => ({ path: `${names}/${it}`, at: `/etc/${it}` }))),
    ...ownFiles,
  ];
  const all = [...ETC, ...readdirSync('/etc').filter((it) => ETC_VERSIONED.test(it))];
  const machine = all.map((name) => `/etc/${name}`).filter((path) => existsSync(path));
  const shown = machine.filter((path) => !own.some(({ at }) => at === path));
  const link: Mount[] = nests ? [{ kind: 'symlink', to: '../../etc', at: HOST_ETC }] : [];
  return [
    ...shown.map((path): Mount => ({ kind: 'ro', path })),
    ...own.map((it): Mount => ({ kind: 'ro-at', ...it })),
    ...ETC_KEYS.filter(isFolder).map((path): Mount => ({ kind: 'hidden', type: 'directory', path })),
    ...link,
  ];
}

/** cargo reads settings in the folders above a project only, and from no folder of the machine. */
const CARGO: Mount = { kind: 'symlink', to: 'etc/cargo', at: '/.cargo' };

const isFolder = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** Our own files for name lookup; the machine's may need a resolver that no sandbox has, and may name hosts of its networks. */
const OWN_NAMES = ['hosts', 'nsswitch.conf'];
