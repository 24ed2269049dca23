/** A proxy of Go modules on loopback whose modules are made in the test. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { zipOf } from './zip.ts';

export interface FakeModule {
  readonly version: string;
  readonly ageDays: number;
  /** Lines of its go.mod behind the first. */
  readonly mod?: string;
  readonly files?: Readonly<Record<string, string>>;
}

export interface FakeProxy extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  /** Path of each request. */
  readonly seen: string[];
  publish(name: string, module: FakeModule): void;
}

const DAY_MS = 86_400_000;

export async function startGoProxy(): Promise<FakeProxy> {
  const modules = new Map<string, Map<string, FakeModule>>();
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://own');
    seen.push(pathname);
    const body = answerTo(pathname, modules);
    response.writeHead(body === undefined ? 404 : 200).end(body);
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return {
    // go asks 127.0.0.1 past its proxy, but not this spelling of it.
    url: `http://127.1:${port}`,
    host: `127.0.0.1:${port}`,
    seen,
    publish(name, module) {
      modules.set(name, (modules.get(name) ?? new Map()).set(module.version, module));
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

function answerTo(path: string, modules: ReadonlyMap<string, ReadonlyMap<string, FakeModule>>) {
  const [, name = '', asked = ''] = /^\/(.+?)\/(@latest|@v\/.+)$/.exec(path) ?? [];
  const versions = [...(modules.get(name)?.values() ?? [])];
  if (asked === '@v/list') return versions.length > 0 ? versions.map((it) => it.version).join('\n') : undefined;
  const [, version = '', kind = 'info'] = /^@v\/(.+)\.(info|mod|zip)$/.exec(asked) ?? [];
  const found = asked === '@latest' ? versions.at(-1) : versions.find((it) => it.version === version);
  if (!found) return undefined;
  const mod = `module ${name}\n\ngo 1.18\n${found.mod ?? ''}`;
  if (kind === 'mod') return mod;
  const at = `${name}@${found.version}`;
  if (kind === 'zip')
    return zipOf(
      Object.fromEntries(
        Object.entries({ 'go.mod': mod, 'own.go': 'package own\n', ...found.files }).map(([file, text]) => [
          `${at}/${file}`,
          text,
        ]),
      ),
    );
  return JSON.stringify({
    Version: found.version,
    Time: new Date(Date.now() - found.ageDays * DAY_MS).toISOString().replace(/\.\d+/, ''),
  });
}
