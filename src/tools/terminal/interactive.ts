import * as z from 'zod';
import { defaultLimits } from '../../base/limits.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { commandHealth } from './runs.ts';

const ACTIONS = ['open', 'write', 'read', 'resize', 'signal', 'close', 'list'] as const;
const SIGNALS = ['INT', 'TERM', 'HUP', 'QUIT', 'KILL', 'TSTP', 'CONT'] as const;
const COMMAND_CHARS_MAX = 128 * 1024 - 1;
const DATA_CHARS_MAX = 16 * 1024;
const WAIT_MS = 1000;

const input = z.strictObject({
  action: z.enum(ACTIONS).optional().describe('All but open and list need sessionId.'),
  sessionId: z.string().min(1).max(64).optional().describe('From open.'),
  command: z
    .string()
    .min(1)
    .max(COMMAND_CHARS_MAX)
    .refine((it) => !it.includes('\0'), 'must not hold a NUL byte')
    .optional()
    .describe('open: command line; absent: an interactive bash.'),
  cwd: workspacePath('open: directory to run in.').default('.'),
  data: z.string().max(DATA_CHARS_MAX).optional().describe('write: what to type; \\r is Enter, \\u0003 Ctrl-C.'),
  signal: z.enum(SIGNALS).optional().describe('signal: to the program in the foreground.'),
  cols: rare(z.int().min(2).max(500).optional().describe('For open and resize: columns, 80 when absent.')),
  rows: rare(z.int().min(1).max(200).optional().describe('For open and resize: rows, 24 when absent.')),
  afterSeq: z.int().min(0).optional().describe('Only output after this seq of an earlier answer.'),
  waitMs: z
    .int()
    .min(0)
    .max(defaultLimits.terminalWaitMs)
    .optional()
    .describe(`Longest wait until it needs input or ends, read: has output; ${WAIT_MS}, read: 0.`),
});

type Input = z.output<typeof input>;
type Action = (typeof ACTIONS)[number];

/** The default action: a call that names a terminal reads from it and never writes. */
const actionOf = ({ action, sessionId }: Pick<Input, 'action' | 'sessionId'>): Action =>
  action ?? (sessionId === undefined ? 'open' : 'read');

const NEEDS: Partial<Record<Action, readonly (keyof Input)[]>> = {
  write: ['sessionId', 'data'],
  read: ['sessionId'],
  resize: ['sessionId', 'cols', 'rows'],
  signal: ['sessionId', 'signal'],
  close: ['sessionId'],
};

const screen = z.strictObject({
  text: z.string().describe('What a person would see, without trailing blanks and control sequences.'),
  cursor: z.strictObject({ row: z.int(), column: z.int() }).describe('Counted from 1.'),
  cols: z.int(),
  rows: z.int(),
  title: z.string().optional(),
  fullScreen: z.boolean().describe('Whether a program shows a screen of its own, as editors do.'),
});

const output = z.strictObject({
  sessionId: z.string().optional(),
  ready: z.boolean().optional().describe('Whether the program runs and can be written to.'),
  output: z.string().optional().describe('Raw output with control sequences; invalid UTF-8 becomes U+FFFD.'),
  seq: z.int().optional().describe('Position after this output; pass it as afterSeq of the next read.'),
  missedBytes: z.int().optional().describe('Earlier output that is no longer kept.'),
  screen: screen.optional().describe('Absent if the output could not be drawn.'),
  needsInput: z
    .strictObject({ kind: z.enum(['line', 'password', 'key']) })
    .optional()
    .describe('The program waits for input: a line, a hidden line (password), or keys (a line editor, an editor).'),
  exited: z.boolean().optional(),
  endedBy: z.string().optional().describe('The limit that ended the terminal, if the program did not end by itself.'),
  exitCode: z.int().optional(),
  signal: z.string().optional(),
  terminals: z
    .array(
      z.strictObject({
        sessionId: z.string(),
        command: z.string(),
        exited: z.boolean(),
        cols: z.int(),
        rows: z.int(),
        ageMs: z.int(),
        seq: z.int(),
      }),
    )
    .optional()
    .describe('Terminals of this session; for list.'),
});

const DEFAULT_COMMAND = 'exec bash --norc --noprofile -i';
const COMMAND_CHARS_SHOWN = 200;

export default defineTool({
  name: 'terminal_interactive',
  title: 'Use a terminal',
  summary:
    'A real terminal, sandboxed as terminal_execute: for REPLs, debuggers, servers. ' +
    'open starts one, write types and waits until it needs input again, read gives new output.',
  notes:
    'Without `action`: read where `sessionId` is given, else open. Answers hold the output, the screen, and `needsInput` when the program waits. ' +
    'Without `afterSeq`, write gives what follows it, read all. Terminals are ended when idle, when their session ends, and when the policy changes.',
  capabilities: [
    { action: 'open', description: 'Starts a program in a terminal.' },
    { action: 'write', description: 'Types into the terminal.' },
    { action: 'read', description: 'Returns the output since the last read.' },
    { action: 'signal', description: 'Signals the program in the foreground.' },
    { action: 'resize', description: 'Changes the size of the terminal.' },
    { action: 'close', description: 'Ends the terminal and all that runs in it.' },
    { action: 'list', description: 'Lists the terminals of the session.' },
  ],
  category: 'development',
  tier: 'execute',
  healthCheck: commandHealth,
  destructive: true,
  runs: { in: 'command', keeps: () => true },
  cleanup: (session) => session.endKept(),
  effects: (it) => (isTyped(it) ? [{ kind: 'exec', target: typedBy(it) }] : []),
  commandOf: (it) => {
    const action = actionOf(it);
    if (action === 'open')
      return {
        command: typedBy(it),
        cwd: it.cwd,
        env: {},
        unknown: 'what is typed into a terminal is not known when it opens',
      };
    if (action !== 'write') return undefined;
    return {
      command: typedBy(it),
      cwd: '.',
      env: {},
      unknown: 'the program in the terminal decides what this text does',
    };
  },
  // Reading is judged as read_only: the output comes from input that was already judged.
  tiers: { of: (it) => (isTyped(it) ? 'execute' : 'read_only') },
  input: input.superRefine((it, problems) => {
    for (const name of NEEDS[actionOf(it)] ?? [])
      if (it[name] === undefined)
        problems.addIssue({ code: 'custom', path: [name], message: `${actionOf(it)} needs it` });
  }),
  output,
  examples: [
    {
      input: { action: 'open', command: 'printf "hello"; exit 3', waitMs: 10_000 },
      output: { output: 'hello', ready: false, exited: true, exitCode: 3 },
    },
    { input: { action: 'list' }, output: {} },
    { input: { action: 'open', cwd: '../..' }, error: 'ACCESS_DENIED' },
    { input: { action: 'read', sessionId: 'no-such' }, error: 'NOT_FOUND' },
    { input: { action: 'write', sessionId: 'no-such' }, error: 'INPUT_INVALID' },
  ],

  async run(it, ctx) {
    const { terminals } = ctx;
    const action = actionOf(it);
    const { sessionId = '', waitMs = action === 'read' ? 0 : WAIT_MS, afterSeq } = it;
    if (action === 'list') return { terminals: terminals.list() };
    if (action === 'close') {
      await terminals.close(sessionId);
      return { sessionId, ready: false, exited: true };
    }
    const id = action === 'open' ? await open(it, ctx) : sessionId;
    const from = action === 'open' ? undefined : await act(it, ctx);
    const until = action === 'read' ? 'output' : 'input';
    const state = await terminals.state(id, { until, waitMs, afterSeq: afterSeq ?? from ?? 0 });
    return { sessionId: id, ready: !state.exited, ...state };
  },
});

function open({ command, cwd, cols = 80, rows = 24 }: Input, ctx: ToolContext): Promise<string> {
  const checked = ctx.command({ command: command ?? DEFAULT_COMMAND, cwd, env: {} });
  return ctx.terminals.open(checked, { cols, rows, command: (command ?? 'bash').slice(0, COMMAND_CHARS_SHOWN) });
}

/** Acts on the terminal; gives the position where the output for the answer begins, if the action sets one. */
async function act({ action, sessionId = '', ...it }: Input, { terminals }: ToolContext): Promise<number | undefined> {
  if (action === 'write') return terminals.write(sessionId, it.data ?? '');
  if (action === 'resize') await terminals.resize(sessionId, { cols: it.cols ?? 80, rows: it.rows ?? 24 });
  if (action === 'signal') return terminals.signal(sessionId, `SIG${it.signal}`);
  return undefined;
}

const isTyped = (it: Input): boolean => ['open', 'write'].includes(actionOf(it));

/** The text that a policy judges; Enter ends a line. */
function typedBy({ command, data = '', ...it }: Input): string {
  return actionOf(it) === 'open' ? (command ?? 'bash --norc --noprofile -i') : data.replaceAll('\r', '\n');
}
