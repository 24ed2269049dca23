import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../../src/client/client.ts';
import { type ModelReply, ModelServer } from '../../src/testing/model-server.ts';
import { startDaemon } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { inTurns, median } from '../measure.ts';

const READ: ModelReply = { calls: [{ name: 'file_read', input: { path: 'a.txt' } }] };
const END: ModelReply = { text: 'done' };
const PROMPT = /of (\d+) answers/;

/** A model that answers with a read until its task says that it is over. */
const startModel = (): Promise<ModelServer> =>
  ModelServer.start(({ body }) => {
    const messages = body.messages as { role: string; content: unknown }[];
    const answers = 1 + messages.filter((it) => it.role === 'assistant').length;
    const [, last] = PROMPT.exec(JSON.stringify(messages)) ?? [];
    return answers < Number(last) ? READ : END;
  });

/** Pss of the process that keeps a conversation, in MiB: what it takes beside the pages that it shares. */
async function agentMiB(operator: Client): Promise<number> {
  const { hosts } = (await operator.request('status', {})) as { hosts: { tier: string; pid: number }[] };
  const sizes = hosts
    .filter((it) => it.tier === 'isolate')
    .map(({ pid }) => Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]) / 1024);
  return Math.max(...sizes);
}

async function run(bench: Context): Promise<void> {
  await using model = await startModel();
  const agents = { default: { dialect: 'openai', url: model.url, model: 'scripted' } };
  await using daemon = await startDaemon({ config: { agents } });
  await using client = await daemon.connect();
  await using operator = await daemon.connect({ role: 'operator' });
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
  const many = bench.size(3, 21);
  const task = async (answers: number) => {
    const result = await client.call('task_delegate', { prompt: `A task of ${answers} answers.`, maxCycles: 50 });
    if (!result.success || result.data.ended !== 'done') throw new Error('the task did not end well');
  };
  const names = {
    one: 'a task of one answer',
    many: `a task of ${many} answers`,
    ask: 'an answer alone',
    read: 'a read',
  };
  await task(many);
  // The last request has the most messages: what is asked alone is no shorter than those of the task.
  const body = JSON.stringify(model.requests.at(-1)?.body);
  const taken = await inTurns(
    {
      [names.one]: () => task(1),
      [names.many]: () => task(many),
      [names.ask]: async () => {
        await (await fetch(`${model.url}/chat/completions`, { method: 'POST', body })).text();
      },
      [names.read]: () => client.call('file_read', { path: 'a.txt' }, { cache: false }),
    },
    { rounds: bench.size(1, 15), times: 1, warmRounds: bench.size(0, 3) },
  );
  bench.times(taken);
  const of = (name: string) => median((taken[name] ?? []).flat());
  const beyond = (of(names.many) - of(names.one)) / (many - 1) - of(names.ask) - of(names.read);
  bench.value('a cycle, beyond the model and the read', beyond, 'ms', { most: 1 });
  bench.value('the process of a sub-agent', await agentMiB(operator), 'MiB', { most: 60 });
}

export default defineBench({
  title: 'Sub-agents',
  question: 'What does a sub-agent take beyond its model and its tools?',
  run,
});
