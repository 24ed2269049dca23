import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RunContext } from '@openai/agents';
import { ringfenceTools as aiTools } from '../../src/client/adapters/ai.ts';
import { ringfenceTools as langchainTools } from '../../src/client/adapters/langchain.ts';
import { ringfenceTools as openAiTools } from '../../src/client/adapters/openai-agents.ts';
import { dataOf } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { inTurns, median } from '../measure.ts';

const PYTHON = '/usr/bin/python3';
const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const INPUT = { path: 'note' };
/** Milliseconds that an adapter may add to a call. */
const ADAPTER_MS = 0.1;

/** A tool of a list that a test of the adapters calls by its name. */
function named<T extends { name: string }>(tools: readonly T[]): T {
  const tool = tools.find((it) => it.name === 'file_read');
  if (!tool) throw new Error('file_read is not among the tools');
  return tool;
}

export default defineBench({
  title: 'Clients',
  question: 'What does a call cost from Python and by the adapters for frameworks?',
  async run(bench) {
    const client = await bench.client('clients');
    writeFileSync(join(client.folder, 'note'), 'text of a note');
    const ai = (await aiTools(client)).file_read;
    const langchain = named(await langchainTools(client));
    const openai = named(await openAiTools(client));
    if (openai.type !== 'function') throw new Error('file_read is no function');
    let calls = 0;
    const call = () => ({ toolCallId: `ai-${++calls}`, messages: [], context: undefined });
    const taken = await inTurns(
      {
        'ringfence/client': () => dataOf(client.call('file_read', INPUT)),
        'ringfence/ai': () => ai?.execute?.(INPUT, call() as never),
        'ringfence/langchain': () => langchain.invoke(INPUT),
        'ringfence/openai-agents': () => openai.invoke(new RunContext(), JSON.stringify(INPUT)),
      },
      { rounds: bench.size(2, 30), times: bench.size(2, 50), warmRounds: bench.size(1, 20) },
    );
    bench.times(taken, { over: 'ringfence/client' });
    for (const name of ['ringfence/ai', 'ringfence/langchain', 'ringfence/openai-agents'] as const) {
      const beyond = median(taken[name].flat()) - median(taken['ringfence/client'].flat());
      bench.value(`${name}, beyond the client`, beyond, 'ms', { most: ADAPTER_MS });
    }
    await python(bench, client.folder);
  },
});

async function python(bench: Context, workspace: string): Promise<void> {
  if (spawnSync(PYTHON, ['-c', 'import msgpack']).status !== 0) {
    bench.skip('the Python client', `${PYTHON} has no msgpack`);
    return;
  }
  const { socket } = await bench.daemon();
  const [singles, together] = [bench.size(20, 3_000), bench.size(64, 4_000)];
  const args = [at('../floors/python-client.py'), socket, workspace, `${singles}`, `${together}`];
  const env = { ...process.env, PYTHONPATH: at('../../clients/python/src'), PYTHONDONTWRITEBYTECODE: '1' };
  const said = execFileSync(PYTHON, args, { env, encoding: 'utf8' });
  const { times, rates } = JSON.parse(said) as { times: Record<string, number[]>; rates: number[] };
  const { client = [], ...adapters } = times;
  bench.value('the Python client, one call', median(client), 'ms', { most: 0.35 });
  for (const [name, taken] of Object.entries(adapters)) {
    const beyond = median(taken) - median(client);
    bench.value(`ringfence.adapters.${name}, beyond the Python client`, beyond, 'ms', { most: ADAPTER_MS });
  }
  bench.value('the Python client, 32 in flight', median(rates), '/s', { least: 2_500 });
}
