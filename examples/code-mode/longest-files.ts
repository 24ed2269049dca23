// One program instead of twelve calls: the same question answered both ways, and what each costs a model. Run by the tests.
import { createClient, type ToolInput, type ToolResult } from 'ringfence/client';

const [socket = '', workspace = process.cwd()] = process.argv.slice(2);
await using client = await createClient({ socket, workspace });

const pattern = 'src/base/*.ts';
const READS = 11;
const ROUNDS = 5;

/** What a model would write: the body of an async function. */
const code = `const { paths } = await tools.file_glob({ pattern: input.pattern });
const files = await Promise.all(paths.slice(0, input.reads).map(async (path) => {
  const { content, lines } = await tools.file_read({ path });
  return { path, lines, exports: content.match(/^export /gm)?.length ?? 0 };
}));
return files.sort((a, b) => b.lines - a.lines).slice(0, 3);`;

/** A way to the answer, with the bytes of it that pass through a model: inputs that it writes, results that it reads. */
interface Way {
  readonly answer: unknown;
  readonly bytes: number;
  readonly turns: number;
}

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

async function byCalls(): Promise<Way> {
  let [bytes, turns] = [0, 0];
  const dataOf = async <Data>(input: object, call: PromiseLike<ToolResult<Data>>): Promise<Data> => {
    const data = success(await call);
    bytes += bytesOf(input) + bytesOf(data);
    turns += 1;
    return data;
  };
  const { paths } = await dataOf({ pattern }, client.call('file_glob', { pattern }));
  const files: { path: string; lines: number; exports: number }[] = [];
  for (const path of paths.slice(0, READS)) {
    const { content, lines } = await dataOf({ path }, client.call('file_read', { path }));
    files.push({ path, lines, exports: content.match(/^export /gm)?.length ?? 0 });
  }
  return { answer: files.sort((a, b) => b.lines - a.lines).slice(0, 3), bytes, turns };
}

async function byProgram(): Promise<Way> {
  const input: ToolInput<'code_run'> = { code, input: { pattern, reads: READS } };
  const data = success(await client.call('code_run', input));
  return { answer: data.value, bytes: bytesOf(input) + bytesOf(data), turns: 1 };
}

function success<Data>(result: ToolResult<Data>): Data {
  if (!result.success) throw new Error(result.error.message);
  return result.data;
}

/** The median of some rounds, after one that warms up. */
async function timed(way: () => Promise<Way>): Promise<Way & { readonly ms: number }> {
  await way();
  const times: number[] = [];
  let last: Way | undefined;
  for (let round = 0; round < ROUNDS; round++) {
    const from = performance.now();
    last = await way();
    times.push(performance.now() - from);
  }
  return { ...(last as Way), ms: times.sort((a, b) => a - b)[ROUNDS >> 1] as number };
}

const calls = await timed(byCalls);
const program = await timed(byProgram);
if (JSON.stringify(calls.answer) !== JSON.stringify(program.answer)) throw new Error('the two ways differ');
console.log(JSON.stringify(program.answer));

/** About four bytes of code and English are a token. */
const show = (name: string, { turns, bytes, ms }: typeof calls) =>
  console.log(
    `${name}: ${turns} turns of the model, ${bytes} bytes, about ${Math.ceil(bytes / 4)} tokens; tools took ${ms.toFixed(1)} ms`,
  );
show('calls', calls);
show('program', program);
console.log(`${(calls.bytes / program.bytes).toFixed(0)} times fewer bytes`);
