/** A sparse index of Rust crates on loopback whose crates are made in the test, and the cargo that tests have. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface FakeCrate {
  readonly version: string;
  /** Days before now at which it was published; absent for none that is told. */
  readonly ageDays?: number;
  readonly needs?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
  readonly checksum?: string;
}

export interface FakeCrates extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  /** Path of each request. */
  readonly seen: string[];
  publish(name: string, crate: FakeCrate): void;
}

const DAY_MS = 86_400_000;

/** The folder of a toolchain with cargo 1.68 or newer, which has sparse indexes; undefined if there is none. */
export function cargoToolchain(): string | undefined {
  const rustup = join(homedir(), '.rustup/toolchains');
  const installed = existsSync(rustup)
    ? readdirSync(rustup)
        .sort()
        .reverse()
        .map((it) => join(rustup, it))
    : [];
  return [...installed, '/usr/local', '/usr'].find((it) => {
    try {
      const [, minor = '0'] =
        /^cargo 1\.(\d+)/.exec(execFileSync(join(it, 'bin/cargo'), ['--version'], { encoding: 'utf8' })) ?? [];
      return Number(minor) >= 68;
    } catch {
      return false; // ENOENT
    }
  });
}

export async function startCrates(): Promise<FakeCrates> {
  const crates = new Map<string, Map<string, FakeCrate>>();
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://own');
    seen.push(pathname);
    const [, dl, name = '', version = ''] = pathname.split('/');
    const versions = [
      ...(crates.get(dl === 'dl' ? name : pathname.replace(/^.*\//, '')) ?? new Map()).values(),
    ] as FakeCrate[];
    const found = versions.find((it) => it.version === version);
    if (pathname === '/config.json') return void response.end(JSON.stringify({ dl: `http://${host}/dl` }));
    if (dl === 'dl' && found) return void response.end(archiveOf(name, found));
    if (dl === 'dl' || versions.length === 0) return void response.writeHead(404).end();
    response.end(versions.map((it) => JSON.stringify(entryOf(pathname.replace(/^.*\//, ''), it))).join('\n'));
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}`,
    host,
    seen,
    publish(name, crate) {
      crates.set(name, (crates.get(name) ?? new Map()).set(crate.version, crate));
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

const entryOf = (name: string, it: FakeCrate) => ({
  name,
  vers: it.version,
  deps: (it.needs ?? []).map((need) => ({
    name: need,
    req: '^1',
    features: [],
    optional: false,
    default_features: true,
    target: null,
    kind: 'normal',
  })),
  cksum: it.checksum ?? hash('sha256', archiveOf(name, it)),
  features: {},
  yanked: false,
  ...(it.ageDays !== undefined && {
    pubtime: new Date(Date.now() - it.ageDays * DAY_MS).toISOString().replace(/\.\d+/, ''),
  }),
});

function archiveOf(name: string, { version, needs = [], files }: FakeCrate): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-crate-'));
  const manifest = `[package]\nname = "${name}"\nversion = "${version}"\nedition = "2018"\n\n[dependencies]\n${needs.map((it) => `${it} = "1"\n`).join('')}`;
  for (const [path, text] of Object.entries({ 'Cargo.toml': manifest, 'src/lib.rs': '', ...files })) {
    mkdirSync(dirname(join(folder, `${name}-${version}`, path)), { recursive: true });
    writeFileSync(join(folder, `${name}-${version}`, path), text);
  }
  // The same bytes each time: without times, and without those of gzip.
  const tar = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '-C', folder, '-cf', '-', `${name}-${version}`];
  const bytes = execFileSync('tar', ['-I', 'gzip -n', ...tar]);
  rmSync(folder, { recursive: true });
  return bytes;
}
