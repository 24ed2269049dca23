/** An npm registry on loopback whose packages are made in the test: packuments, tarballs, and answers about vulnerabilities. */
import { hash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';

export interface FakeVersion {
  readonly version: string;
  /** Days before now at which it was published; absent for none that is told. */
  readonly ageDays?: number;
  readonly manifest?: object;
  readonly files?: Readonly<Record<string, string>>;
  /** URL of the tarball in place of the registry's own. */
  readonly tarball?: string;
  readonly integrity?: string;
  /** Bytes of the archive in place of one with the files. */
  readonly archive?: Buffer;
}

/** An entry of an archive that `tarOf` writes as it is told, whatever it would do to who unpacks it. */
export interface TarEntry {
  readonly path: string;
  readonly content?: string;
  /** `0` for a file, `1` and `2` for links, `5` for a folder; a file by default. */
  readonly type?: string;
  readonly link?: string;
}

export interface FakeRegistry extends AsyncDisposable {
  /** Without a slash at its end. */
  readonly url: string;
  readonly host: string;
  /** Method and path of each request. */
  readonly seen: string[];
  /** Publishes a version; the newest one published is `latest`. */
  publish(name: string, version: FakeVersion): void;
  /** Advisories by package; undefined: the endpoint answers 404. */
  advisories: Record<string, object[]> | undefined;
  /** Called before each tarball is sent. */
  onTarball: (path: string) => void;
}

const DAY_MS = 86_400_000;

export async function startRegistry(): Promise<FakeRegistry> {
  const packages = new Map<string, Map<string, FakeVersion>>();
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '');
    seen.push(`${request.method} ${path}`);
    request.resume();
    if (path.startsWith('/-/v1/search')) return void response.end(JSON.stringify(found(packages)));
    if (path.includes('/-/npm/v1/security/')) {
      if (!registry.advisories || !path.endsWith('advisories/bulk')) return void response.writeHead(404).end('{}');
      return void response.end(JSON.stringify(registry.advisories));
    }
    const [, name = '', file = ''] = /^\/(.+?)\/-\/(.+)\.tgz$/.exec(path) ?? [];
    if (file !== '') {
      registry.onTarball(path);
      const found = packages.get(name)?.get(file.slice(name.replace(/^.*\//, '').length + 1));
      return void (found ? response.end(tarballOf(name, found)) : response.writeHead(404).end());
    }
    const versions = packages.get(path.slice(1));
    if (!versions) return void response.writeHead(404).end('{"error":"not found"}');
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(packument(path.slice(1), versions, registry.url)));
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const registry: FakeRegistry = {
    url: `http://${host}`,
    host,
    seen,
    advisories: {},
    onTarball: () => {},
    publish(name, version) {
      packages.set(name, (packages.get(name) ?? new Map()).set(version.version, version));
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
  return registry;
}

/** The answer to every search: all packages, as npm gives more than what was asked for. */
const found = (packages: ReadonlyMap<string, ReadonlyMap<string, FakeVersion>>) => ({
  objects: [...packages].map(([name, versions]) => {
    const newest = [...versions.values()].at(-1);
    return { package: { name, version: newest?.version, ...newest?.manifest } };
  }),
});

function packument(name: string, versions: ReadonlyMap<string, FakeVersion>, url: string): object {
  const all = [...versions.values()];
  const file = name.replace(/^.*\//, '');
  const time = Object.fromEntries(
    all.flatMap((it) =>
      it.ageDays === undefined ? [] : [[it.version, new Date(Date.now() - it.ageDays * DAY_MS).toISOString()]],
    ),
  );
  const toManifest = (it: FakeVersion) => ({
    name,
    version: it.version,
    ...it.manifest,
    dist: {
      tarball: it.tarball ?? `${url}/${name}/-/${file}-${it.version}.tgz`,
      integrity: it.integrity ?? `sha512-${hash('sha512', tarballOf(name, it), 'base64')}`,
    },
  });
  return {
    name,
    'dist-tags': { latest: all.at(-1)?.version },
    versions: Object.fromEntries(all.map((it) => [it.version, toManifest(it)])),
    time: { created: new Date(0).toISOString(), modified: new Date(0).toISOString(), ...time },
  };
}

function tarballOf(name: string, { version, manifest, files, archive }: FakeVersion): Buffer {
  if (archive) return archive;
  const all = { 'package.json': JSON.stringify({ name, version, ...manifest }), 'index.js': '', ...files };
  return tarOf(Object.entries(all).map(([path, content]) => ({ path: `package/${path}`, content })));
}

export function tarOf(entries: readonly TarEntry[]): Buffer {
  return gzipSync(Buffer.concat([...entries.map(tarEntry), Buffer.alloc(1024)]));
}

function tarEntry({ path, content: text = '', type = '0', link = '' }: TarEntry): Buffer {
  const content = Buffer.from(text);
  const header = Buffer.alloc(512);
  const put = (at: number, text: string) => void header.write(text, at, 'latin1');
  put(0, path);
  put(100, '0000644\0');
  put(108, '0000000\0');
  put(116, '0000000\0');
  put(124, `${content.length.toString(8).padStart(11, '0')}\0`);
  put(136, '00000000000\0');
  put(148, ' '.repeat(8));
  put(156, type);
  put(157, link);
  put(257, 'ustar\x0000');
  put(
    148,
    `${header
      .reduce((sum, it) => sum + it, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
  );
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}
