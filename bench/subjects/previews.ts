import type { ToolResult } from '../../src/base/call.ts';
import { defineBench } from '../bench.ts';
import { inTurns } from '../measure.ts';

const FILES_PER_FOLDER = 13;

export default defineBench({
  title: 'Previews of commands',
  question: 'What does it cost to run a command over an overlay, and to list its changes?',
  async run(bench) {
    const client = await bench.client('.');
    const folders = bench.size(40, 400);
    const plain = (command: string) => async () => {
      const result = (await client.call('terminal_execute', { command })) as unknown as ToolResult;
      if (!result.success) throw new Error(result.error.message);
    };
    const shown = (command: string) => async () => {
      const result = (await client.call('terminal_execute', { command }, { preview: true })) as unknown as ToolResult;
      if (!result.success) throw new Error(result.error.message);
      await client.request('calls.discard', { previewId: result.preview?.id });
    };
    const write = `rm -rf made && mkdir made && for i in $(seq ${folders}); do mkdir made/$i; for j in $(seq ${FILES_PER_FOLDER}); do echo "$i $j" > made/$i/$j; done; done`;
    const files = folders * FILES_PER_FOLDER;
    const [none, many] = ['`true`', `${files} files written`];
    const turns = { rounds: bench.size(2, 15), times: 1, warmRounds: 1 };
    const short = { [none]: plain('true'), [`${none}, as a preview`]: shown('true') };
    bench.times(await inTurns(short, turns), { over: none });
    const long = { [many]: plain(write), [`${many}, as a preview`]: shown(write) };
    bench.times(await inTurns(long, { ...turns, rounds: bench.size(2, 8) }), {
      over: many,
      goals: { [`${many}, as a preview`]: { ratio: 2 } },
    });
    bench.say('A preview of `true` is to cost at most 8 ms more than the command itself.');
  },
});
