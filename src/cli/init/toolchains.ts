/**
 * Finds toolchains of version managers on the person's PATH, so that `ringfence init` can propose to show them to commands. Only reads
 * files and runs no program, since a shim would run whatever its project says.
 */
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { toolchainProblem } from '../../daemon/command-environment.ts';
import { isInside } from '../../paths.ts';

export interface Toolchain {
  /** Absolute real path of the folder of one version. */
  readonly path: string;
  readonly manager: string;
}

/** Folders below the home directory that hold one version each; the first group is the part that commands need to see. */
const VERSIONS: readonly { readonly manager: string; readonly folder: RegExp }[] = [
  { manager: 'nvm', folder: /^(\.nvm\/versions\/node\/[^/]+)\/bin$/ },
  { manager: 'fnm', folder: /^((?:\.local\/share\/fnm|\.fnm)\/node-versions\/[^/]+\/installation)\/bin$/ },
  { manager: 'volta', folder: /^(\.volta\/tools\/image\/[^/]+\/[^/]+)\/bin$/ },
  { manager: 'mise', folder: /^(\.local\/share\/mise\/installs\/[^/]+\/[^/]+)(?:\/bin)?$/ },
  { manager: 'asdf', folder: /^(\.asdf\/installs\/[^/]+\/[^/]+)(?:\/[^/]+)?\/bin$/ },
  { manager: 'pyenv', folder: /^(\.pyenv\/versions\/[^/]+)\/bin$/ },
  { manager: 'uv', folder: /^(\.local\/share\/uv\/python\/[^/]+)\/bin$/ },
  { manager: 'rustup', folder: /^(\.rustup\/toolchains\/[^/]+)\/bin$/ },
  { manager: 'go', folder: /^((?:sdk\/go[^/]*|\.local\/go|\.go))\/bin$/ },
  { manager: 'sdkman', folder: /^(\.sdkman\/candidates\/[^/]+\/[^/]+)\/bin$/ },
  { manager: 'bun', folder: /^(\.bun\/bin)$/ },
  { manager: 'deno', folder: /^(\.deno\/bin)$/ },
];

/** Folders of shims, whose versions are set in a file of the manager. */
const SHIMS: readonly { readonly folder: string; readonly bins: (home: string) => string[] }[] = [
  { folder: '.volta/bin', bins: voltaBins },
  { folder: '.asdf/shims', bins: asdfBins },
  { folder: '.local/share/mise/shims', bins: miseBins },
  { folder: '.pyenv/shims', bins: pyenvBins },
  { folder: '.cargo/bin', bins: rustupBins },
  { folder: '.local/bin', bins: uvBins },
];

/** Most toolchains that a config may name. */
const TOOLCHAINS_MAX = 16;

/**
 * The toolchains behind `path`, in its order. Leaves out those that commands may not see (folders with keys, the home directory, `closed`).
 */
export function findToolchains({
  path,
  home,
  closed,
}: {
  readonly path: string;
  readonly home: string;
  /** Workspaces and the daemon's own folders: absolute real paths. */
  readonly closed: readonly string[];
}): Toolchain[] {
  const found = new Map<string, Toolchain>();
  for (const entry of path.split(':').filter((it) => isInside(home, it)))
    for (const bin of [entry, ...(SHIMS.find((it) => join(home, it.folder) === entry)?.bins(home) ?? [])]) {
      const toolchain = versionAt(bin, home);
      if (toolchain && toolchainProblem(toolchain.path, { home, closed }) === undefined)
        found.set(toolchain.path, toolchain);
    }
  return [...found.values()].slice(0, TOOLCHAINS_MAX);
}

/** The version whose programs are in the folder `bin`; follows links (fnm, sdkman's `current`). */
function versionAt(bin: string, home: string): Toolchain | undefined {
  const real = realOf(bin);
  if (real === undefined || !isInside(home, real)) return undefined;
  for (const { manager, folder } of VERSIONS) {
    const [, version] = folder.exec(relative(home, real)) ?? [];
    if (version !== undefined) return { path: join(home, version), manager };
  }
  return undefined;
}

function voltaBins(home: string): string[] {
  const platform = textOf(join(home, '.volta/tools/user/platform.json'));
  const [, version] = /"runtime"\s*:\s*"([^"/]+)"/.exec(platform) ?? [];
  return version === undefined ? [] : [join(home, '.volta/tools/image/node', version, 'bin')];
}

/** Versions from lines such as `nodejs 22.1.0`. */
function asdfBins(home: string): string[] {
  const chosen = textOf(join(home, '.tool-versions')).matchAll(/^([\w-]+)[ \t]+([\w.+-]+)/gm);
  return [...chosen].map(([, tool = '', version = '']) => join(home, '.asdf/installs', tool, version, 'bin'));
}

function miseBins(home: string): string[] {
  const { tools } = tomlOf(join(home, '.config/mise/config.toml'));
  const chosen = Object.entries(tools ?? {}).filter((it): it is [string, string] => typeof it[1] === 'string');
  return chosen.flatMap(([tool, version]) => {
    const folder = join(home, '.local/share/mise/installs', tool, version);
    return [join(folder, 'bin'), folder].filter((it) => existsSync(it)).slice(0, 1);
  });
}

function pyenvBins(home: string): string[] {
  const versions = textOf(join(home, '.pyenv/version')).split(/\s+/).filter(Boolean);
  return versions.map((it) => join(home, '.pyenv/versions', it, 'bin'));
}

function rustupBins(home: string): string[] {
  const { default_toolchain: name } = tomlOf(join(home, '.rustup/settings.toml'));
  return typeof name === 'string' ? [join(home, '.rustup/toolchains', name, 'bin')] : [];
}

/** Pythons that uv installed and links as `python3.12` in ~/.local/bin. */
function uvBins(home: string): string[] {
  const folder = join(home, '.local/bin');
  const pythons = namesIn(folder).filter((it) => /^python[\d.]*$/.test(it));
  return pythons.map((it) => join(realOf(join(folder, it)) ?? folder, '..'));
}

function realOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined; // ENOENT: PATH names a folder that does not exist.
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // ENOENT: the manager has no default version.
  }
}

function tomlOf(path: string): Record<string, unknown> & { readonly tools?: object } {
  try {
    return parseToml(textOf(path));
  } catch {
    return {}; // The manager itself would reject that file.
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // ENOENT
  }
}
