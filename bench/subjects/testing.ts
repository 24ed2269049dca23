import { startDaemon } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';

/** The built form, as a package that is installed: its daemon then runs as built, too. */
const built = async (): Promise<typeof import('../../src/testing/testing.ts')> =>
  import(new URL('../../dist/src/testing/testing.js', import.meta.url).href);

/** Time from the start of a daemon to the sessions of a test, in milliseconds. */
async function readyMs(open: () => Promise<AsyncDisposable[]>): Promise<number> {
  const from = performance.now();
  const opened = await open();
  const ms = performance.now() - from;
  for (const it of opened.toReversed()) await it[Symbol.asyncDispose]();
  return ms;
}

export default defineBench({
  title: 'Testing',
  question: 'How long does a test wait for its daemon?',
  async run(bench: Context) {
    const { startTestDaemon } = await built();
    const [plain, tested]: [number[][], number[][]] = [[], []];
    // The first start of all writes the compiled code that later ones use.
    for (let round = -1; round < bench.size(1, 12); round++) {
      const daemon = await readyMs(async () => {
        const started = await startDaemon();
        return [started, await started.connect()];
      });
      const ours = await readyMs(async () => [await startTestDaemon()]);
      if (round < 0) continue;
      plain.push([daemon]);
      tested.push([ours]);
    }
    const [floor, name] = ['a daemon with a new state, and a session', 'startTestDaemon, to its two sessions'];
    bench.times({ [floor]: plain, [name]: tested }, { over: { [name]: floor }, goals: { [name]: { most: 300 } } });
  },
});
