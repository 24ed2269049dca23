/** A Python package index on loopback (PEP 503, 691 and 700) whose wheels are made in the test. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { zipOf } from './zip.ts';

export interface FakeProject {
  readonly version: string;
  /** Days before now at which it was uploaded; absent for none that is told. */
  readonly ageDays?: number;
  readonly requires?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
  /** URL of the file in place of the index's own. */
  readonly url?: string;
  /** Publishes a source archive in place of a wheel: reading its metadata runs its code. */
  readonly source?: Buffer;
}

export interface FakeIndex extends AsyncDisposable {
  /** Without a slash at its end. */
  readonly url: string;
  readonly host: string;
  /** Path of each request. */
  readonly seen: string[];
  publish(name: string, project: FakeProject): void;
}

/** Whether commands have a Python with pip and venv; Debian keeps them in packages of their own. */
export function hasPip(): boolean {
  try {
    execFileSync('/usr/bin/python3', ['-I', '-c', 'import pip, venv, ensurepip'], { stdio: 'ignore' });
    return true;
  } catch {
    return false; // ENOENT or ModuleNotFoundError
  }
}

const DAY_MS = 86_400_000;

export async function startIndex(): Promise<FakeIndex> {
  const projects = new Map<string, Map<string, FakeProject>>();
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '');
    seen.push(path);
    const [, kind = '', name = '', file = ''] = path.split('/');
    const all = [...(projects.get(name)?.values() ?? [])].map((it) => ({ it, ...fileOf(name, it) }));
    const found = all.find((it) => it.filename === file);
    if (kind === 'files' && found) return void response.end(found.bytes);
    if (kind !== 'simple' || all.length === 0) return void response.writeHead(404).end();
    response.setHeader('content-type', 'application/vnd.pypi.simple.v1+json');
    const files = all.map(({ it, filename, bytes }) => ({
      filename,
      url: it.url ?? `${origin}/files/${name}/${filename}`,
      hashes: { sha256: hash('sha256', bytes) },
      ...(it.ageDays !== undefined && { 'upload-time': new Date(Date.now() - it.ageDays * DAY_MS).toISOString() }),
    }));
    response.end(JSON.stringify({ meta: { 'api-version': '1.1' }, name, versions: [], files }));
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const origin = `http://${host}`;
  return {
    url: `${origin}/simple`,
    host,
    seen,
    publish(name, project) {
      projects.set(name, (projects.get(name) ?? new Map()).set(project.version, project));
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

function fileOf(name: string, { version, requires = [], files, source }: FakeProject) {
  if (source) return { filename: `${name}-${version}.tar.gz`, bytes: source };
  const info = `${name}-${version}.dist-info`;
  const metadata = [
    `Name: ${name}`,
    `Version: ${version}`,
    'License: MIT',
    ...requires.map((it) => `Requires-Dist: ${it}`),
  ];
  const bytes = zipOf({
    [`${name}/__init__.py`]: `version = "${version}"\n`,
    ...files,
    [`${info}/METADATA`]: ['Metadata-Version: 2.1', ...metadata, '', ''].join('\n'),
    [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    [`${info}/RECORD`]: '',
  });
  return { filename: `${name}-${version}-py3-none-any.whl`, bytes };
}
