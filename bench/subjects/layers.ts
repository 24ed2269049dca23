import { spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits } from '../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../src/base/powers.ts';
import { Peer } from '../../src/wire/protocol/peer.ts';
import { connectUnix } from '../../src/wire/transport/unix-socket.ts';
import { temporaryDir } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { createEcho } from '../floors/echo.ts';
import { LAYERS } from '../floors/layers.ts';
import { inTurns, median, type Subject } from '../measure.ts';
import { here } from '../results.ts';

const powers = systemPowers(silentLog);

interface Layer {
  readonly call: Subject;
  /** Bytes of the server's JavaScript heap in use. */
  heap(method: 'heap.clean' | 'heap.used'): Promise<number>;
}

/** Starts a server of all layers, with one connection to each. */
async function startLayers(
  flags: readonly string[],
): Promise<{ layers: ReadonlyMap<string, Layer> } & AsyncDisposable> {
  const folder = temporaryDir('layers');
  for (const it of ['state', 'ws']) mkdirSync(join(folder, it));
  for (const at of [0, 1]) {
    writeFileSync(join(folder, `ws/empty-${at}`), '');
    writeFileSync(join(folder, `ws/full-${at}`), `${'x'.repeat(63)}\n`.repeat(64));
  }
  const program = [...flags, here('floors/layer-server.ts'), folder];
  const server = spawn(process.execPath, program, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<number | null>((resolve) => server.once('exit', resolve));
  await new Promise((resolve, reject) => {
    server.stdout.once('data', resolve);
    void ended.then((code) => reject(new Error(`the server of the layers ended with ${code}`)));
  });
  const layers = new Map<string, Layer>();
  const peers: Peer[] = [];
  for (const [at, layer] of LAYERS.entries()) {
    const peer = new Peer(await connectUnix(join(folder, `state/${at}.sock`)), { limits: defaultLimits, powers });
    peers.push(peer);
    const file = !layer.frames && layer.end === 'host' ? 'empty' : 'full';
    const step = !layer.frames && layer.cached ? 0 : 1;
    let calls = 0;
    const call = async () => {
      calls += step;
      const params = { tool: 'file_read', input: { path: `${file}-${calls % 2}` }, options: { callId: powers.uuid() } };
      const { success, error } = (await peer.request('tools.call', params)) as { success: boolean; error?: object };
      if (!success) throw new Error(JSON.stringify(error));
    };
    layers.set(layer.name, { call, heap: async (method) => (await peer.request(method, {})) as number });
  }
  return {
    layers,
    async [Symbol.asyncDispose]() {
      for (const it of peers) it.close();
      server.kill();
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

/** Flags that avoid garbage collection during the measurement. */
const ROOMY = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256'];

/** KiB of JavaScript heap that a call allocates, by layer. */
async function allocations(
  { layers }: Awaited<ReturnType<typeof startLayers>>,
  { calls, most }: { readonly calls: number; readonly most: number },
) {
  const took = new Map<string, number>();
  // Each measurement starts with a full collection.
  for (const [name, { call, heap }] of [...layers].slice(0, most)) {
    for (let i = 0; i < calls; i++) await call();
    const before = await heap('heap.clean');
    for (let i = 0; i < calls; i++) await call();
    took.set(name, ((await heap('heap.used')) - before) / calls / 1024);
  }
  return took;
}

export default defineBench({
  title: 'Layers of a call',
  question: 'Where does the time of one file_read of 4 KiB go, from the socket to the tool?',
  async run(bench) {
    await using roomy = await startLayers(ROOMY);
    const allocated = await allocations(roomy, { calls: bench.size(10, 500), most: bench.size(2, LAYERS.length) });
    await using apart = bench.small ? null : await startLayers([]);
    const { layers } = apart ?? roomy;
    using echo = await createEcho();
    const ECHO = 'socket echo';
    const subjects: Record<string, Subject> = { [ECHO]: echo.run };
    for (const [name, { call }] of layers) subjects[name] = call;
    const taken = await inTurns(subjects, { rounds: bench.size(2, 20), times: bench.size(10, 200) });
    bench.times(taken, { over: ECHO });
    for (const it of bench.findings.figures) {
      const kib = allocated.get(it.name);
      if (kib !== undefined) Object.assign(it, { allocatedKiB: kib });
    }
    const chain = [ECHO, ...LAYERS.map((it) => it.name).filter((it) => it.startsWith('+'))];
    const p50 = chain.map((it) => median((taken[it] ?? []).flat()) * 1000);
    const bars = chain.map((name, at) => ({ name, value: (p50[at] as number) - (p50[at - 1] ?? 0) }));
    bench.draw({
      name: 'layers',
      title: 'One file_read of 4 KiB, layer by layer (median, what each adds)',
      kind: 'stack',
      bars: bars.map((it) => ({ ...it, label: `${it.value.toFixed(0)} µs` })),
    });
  },
});
