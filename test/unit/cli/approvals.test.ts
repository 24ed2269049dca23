import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RpcError } from '../../../src/base/errors.ts';
import { type ApprovalsClient, approvalsWatch } from '../../../src/cli/approvals.ts';
import { askInline, type Terminal } from '../../../src/cli/questions/prompt.ts';
import { explainQuestion, showQuestion } from '../../../src/cli/questions/question.ts';
import { toForm, toResolution } from '../../../src/faces/mcp/question.ts';
import type { Approval } from '../../../src/store/approvals/approval.ts';

function approval(part: Partial<Approval> = {}): Approval {
  return {
    approvalId: 'a_1',
    callId: 'c1',
    sessionId: 's1',
    principal: 'uid:1',
    client: 'test 1',
    parents: [],
    cwd: '.',
    rememberMaxMs: 28_800_000,
    digest: 'd1',
    workspace: '/ws',
    tool: 'file_write',
    input: { path: 'a.txt' },
    effects: [{ kind: 'write', target: 'a.txt' }],
    rule: 'r1',
    reason: 'Writes.',
    impact: { level: 'medium', description: 'This operation will modify files', warnings: ['Will modify: a.txt'] },
    remember: { exact: 'exactly this call', tool: 'calls of this tool with at most this impact' },
    requestedAt: '2030-01-01T00:00:00.000Z',
    expiresAt: '2030-01-01T00:05:00.000Z',
    ...part,
  };
}

/** A person at a terminal: the output so far, and typed lines. */
class Person {
  readonly input = new PassThrough();
  readonly output = new PassThrough();
  readonly isTTY: boolean;
  armingMs = 50;
  seen = '';
  #heard: () => void = () => {};

  constructor(isTTY = false) {
    this.isTTY = isTTY;
    this.output.on('data', (chunk: Buffer) => {
      this.seen += chunk.toString();
      this.#heard();
    });
  }

  get io(): Terminal {
    return this;
  }

  /** Resolves once the text was printed `times` times. */
  async sees(text: string, times = 1): Promise<void> {
    while (this.seen.split(text).length <= times)
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
  }

  /** Resolves once the output ends with the text. */
  async echoes(text: string): Promise<void> {
    while (!this.seen.endsWith(text))
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
  }

  types(text: string): void {
    this.input.write(text);
  }
}

/** A daemon that only knows approvals. */
class Daemon implements ApprovalsClient {
  waiting: Approval[] = [];
  readonly resolved: unknown[] = [];
  readonly #notices: { method: string; params: unknown }[] = [];
  #wake: () => void = () => {};
  #ended = false;
  refuse: Error | undefined;
  #settled: () => void = () => {};

  async request(method: string, params: unknown): Promise<unknown> {
    if (method === 'approvals.list') return { approvals: this.waiting };
    const refusal = this.refuse;
    this.refuse = undefined;
    if (refusal) throw refusal;
    this.resolved.push(params);
    const { approvalId, decision } = params as { approvalId: string; decision: string };
    this.settle(approvalId, decision);
    this.#settled();
    return {};
  }

  ask(it: Approval): void {
    this.waiting.push(it);
    this.#tell('approval.requested', { approval: it });
  }

  settle(approvalId: string, decision: string): void {
    this.waiting = this.waiting.filter((it) => it.approvalId !== approvalId);
    this.#tell('approval.resolved', { approvalId, decision });
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** Resolves after `count` answers. */
  async answered(count: number): Promise<unknown[]> {
    while (this.resolved.length < count)
      await new Promise<void>((resolve) => {
        this.#settled = resolve;
      });
    return this.resolved;
  }

  async *notifications(): AsyncGenerator<{ method: string; params: unknown }> {
    for (;;) {
      const notice = this.#notices.shift();
      if (notice) yield notice;
      else if (this.#ended) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }

  #tell(method: string, params: unknown): void {
    this.#notices.push({ method, params });
    this.#wake();
  }
}

let person: Person;
let daemon: Daemon;
let leave: AbortController;
beforeEach(() => {
  person = new Person();
  daemon = new Daemon();
  leave = new AbortController();
});
afterEach(() => leave.abort());

const watch = () => approvalsWatch(daemon, person.io, { signal: leave.signal });
const PROMPT = '  > ';

describe('one question', () => {
  const session = (match: string) => ({ remember: { scope: 'session', match } });

  test.each<[string, object]>([
    ['y', { decision: 'approve' }],
    ['YES', { decision: 'approve' }],
    ['  y  ', { decision: 'approve' }],
    ['n', { decision: 'deny' }],
    ['n  use the other file ', { decision: 'deny', feedback: 'use the other file' }],
    ['no', { decision: 'deny' }],
    ['ya', { decision: 'approve', ...session('tool') }],
    ['s', { decision: 'approve', ...session('tool') }],
    ['S', { decision: 'approve', ...session('tool') }],
    ['N', { decision: 'deny', ...session('tool') }],
    ['N stop it', { decision: 'deny', feedback: 'stop it', ...session('tool') }],
    ['na', { decision: 'deny', ...session('tool') }],
    ['na never do that', { decision: 'deny', feedback: 'never do that', ...session('tool') }],
  ])('`%s` means %o', async (line, answer) => {
    const asked = askInline(approval(), person.io);
    await person.sees(PROMPT);
    person.types(`${line}\n`);
    expect(await asked).toEqual(answer);
  });

  test.each([
    '',
    'yep',
    'maybe',
    'y but only once',
    'ya or not',
    's please',
    'p',
    'yp',
    'yt',
    'yn',
    'approve',
    '\u0000y',
  ])('`%s` is no answer, and it is asked again', async (line) => {
    const asked = askInline(approval(), person.io);
    await person.sees(PROMPT);
    person.types(`${line}\n`);
    await person.sees(PROMPT, 2);
    person.types('n\n');
    expect(await asked).toEqual({ decision: 'deny' });
  });

  test('`ya` remembers no more than the very same call where the impact is high', async () => {
    const high = approval({ impact: { level: 'high', description: 'x', warnings: [] } });
    const asked = askInline(high, person.io);
    await person.sees(PROMPT);
    person.types('e\n');
    await person.sees('this session: exactly this call');
    person.types('ya\n');
    expect(await asked).toEqual({ decision: 'approve', remember: { scope: 'session', match: 'exact' } });
  });

  test('the end of the input is no answer', async () => {
    const asked = askInline(approval(), person.io);
    await person.sees(PROMPT);
    person.input.end();
    expect(await asked).toBeUndefined();
  });

  test('Ctrl-C on a terminal is no answer', async () => {
    person = new Person(true);
    const asked = askInline(approval(), person.io);
    await person.sees(PROMPT);
    person.types('y\x03');
    expect(await asked).toBeUndefined();
  });

  test('input typed before the program asked does not answer the question', async () => {
    person = new Person(true);
    person.types('y\ny');
    const asked = askInline(approval(), person.io);
    await person.sees(PROMPT);
    person.types('\r');
    await person.sees('Type y, s, n, N, e;');
    await person.sees(PROMPT, 2);
    person.types('n\r');
    expect(await asked).toEqual({ decision: 'deny' });
  });

  test('a question that is answered elsewhere is no longer asked', async () => {
    const over = new AbortController();
    const asked = askInline(approval(), person.io, over.signal);
    await person.sees(PROMPT);
    over.abort();
    expect(await asked).toBeUndefined();
  });
});

describe('watching', () => {
  test('asks what waits already and what comes, one after the other', async () => {
    daemon.waiting = [approval(), approval({ approvalId: 'a_2' })];
    const watching = watch();
    await person.sees('(1 more after this one)');
    await person.sees(PROMPT);
    person.types('y\n');
    await person.sees(PROMPT, 2);
    person.types('n why\n');
    await daemon.answered(2);
    daemon.ask(approval({ approvalId: 'a_3' }));
    await person.sees(PROMPT, 3);
    person.types('ya\n');
    expect(await daemon.answered(3)).toEqual([
      { approvalId: 'a_1', digest: 'd1', decision: 'approve' },
      { approvalId: 'a_2', digest: 'd1', decision: 'deny', feedback: 'why' },
      { approvalId: 'a_3', digest: 'd1', decision: 'approve', remember: { scope: 'session', match: 'tool' } },
    ]);
    leave.abort();
    expect(await watching).toBe(130);
    expect(person.seen).not.toContain('elsewhere');
  });

  test('a key typed for one question is no answer to the one that takes its place, for the time in which nobody can have read it', async () => {
    daemon.waiting = [approval(), approval({ approvalId: 'a_2', input: { path: 'b.txt' } })];
    void watch();
    await person.sees(PROMPT);
    daemon.settle('a_1', 'expired');
    await person.sees('a_1 (file_write) was answered elsewhere: expired.');
    await person.sees(' · a_2');
    person.types('y\n');
    await person.sees(PROMPT, 2);
    expect(daemon.resolved).toEqual([]);
    person.types('n\n');
    expect(await daemon.answered(1)).toEqual([{ approvalId: 'a_2', digest: 'd1', decision: 'deny' }]);
  });

  test.each([true, false])(
    'input typed before a question was shown does not answer it (terminal: %s)',
    async (isTTY) => {
      person = new Person(isTTY);
      daemon.waiting = [approval(), approval({ approvalId: 'a_2' })];
      void watch();
      await person.sees(PROMPT);
      person.types('y\ny\ny\n');
      await person.sees(PROMPT, 2);
      person.types('n\n');
      expect(await daemon.answered(2)).toMatchObject([
        { decision: 'approve' },
        { approvalId: 'a_2', digest: 'd1', decision: 'deny' },
      ]);
    },
  );

  test('half a line typed for one question is not the beginning of the answer to the next', async () => {
    person = new Person(true);
    daemon.waiting = [approval(), approval({ approvalId: 'a_2' })];
    void watch();
    await person.sees(PROMPT);
    person.types('y');
    await person.echoes('y');
    daemon.settle('a_1', 'deny');
    await person.sees(' · a_2');
    await person.sees(PROMPT, 2);
    person.types('\r');
    await person.sees('Type y, s, n, N, e;');
    expect(daemon.resolved).toEqual([]);
  });

  test('an answer that the daemon does not take is told, and asked again while it waits', async () => {
    daemon.waiting = [approval()];
    daemon.refuse = new RpcError('INVALID_PARAMS', 'the policy forbids remembering; answer once');
    void watch();
    await person.sees(PROMPT);
    person.types('ya\n');
    await person.sees('The answer was not accepted: the policy forbids remembering; answer once');
    await person.sees(PROMPT, 2);
    person.types('y\n');
    expect(await daemon.answered(1)).toEqual([{ approvalId: 'a_1', digest: 'd1', decision: 'approve' }]);
  });

  test('ends with the connection, answering nothing', async () => {
    daemon.waiting = [approval()];
    const watching = watch();
    await person.sees(PROMPT);
    daemon.end();
    expect(await watching).toBe(3);
    expect(daemon.resolved).toEqual([]);
  });

  test('ends with Ctrl-C, answering nothing', async () => {
    person = new Person(true);
    daemon.waiting = [approval()];
    const watching = watch();
    await person.sees(PROMPT);
    person.types('\x03');
    expect(await watching).toBe(130);
    expect(daemon.resolved).toEqual([]);
  });
});

describe('what is shown', () => {
  const nowMs = Date.parse('2030-01-01T00:01:00.000Z');
  const plain = (part: Partial<Approval> = {}) => showQuestion(approval(part), { color: false, nowMs });
  const explained = (part: Partial<Approval> = {}) => explainQuestion(approval(part), { color: false });
  const command = (text: string): Partial<Approval> => ({
    tool: 'terminal_execute',
    input: { command: text },
    effects: [{ kind: 'exec', target: text }],
    client: 'claude-code 2.1',
    undo: 'none',
    rule: 'publishing',
    reason: 'It publishes.',
    impact: { level: 'high', description: 'This operation will affect remote systems', warnings: [] },
    remember: { exact: 'this very command line' },
  });

  test('a command is a question of ten lines: what, who and how long, three facts, the answers', () => {
    expect(`${plain(command('npm publish'))}\n  > `.split('\n')).toEqual([
      '',
      `  $ npm publish${' '.repeat(55)}4 min left`,
      '  claude-code in ws · a_1',
      '',
      '  ! this operation will affect remote systems',
      '  ! nothing of it can be undone',
      '  It publishes (rule publishing)',
      '',
      '  y once   s session   n no   N no for the session   e explain',
      '  > ',
    ]);
  });

  test('a host is named with its port, the command that waits for it and what marks it', () => {
    const text = plain({
      ...command('npm ci'),
      effects: [{ kind: 'connect', target: 'registry.npmjs.org:443' }],
      door: { kind: 'host', target: 'registry.npmjs.org:443' },
      project: '/ws',
      remember: { door: 'connections to registry.npmjs.org:443' },
      impact: {
        level: 'medium',
        description: 'x',
        warnings: ['It looks like registry.npmjs.org and is another host', 'Commands can then send'],
      },
      expiresAt: '2030-01-01T00:02:42.000Z',
    });
    expect(text.split('\n')).toEqual([
      '',
      `  connect registry.npmjs.org:443${' '.repeat(39)}1:42 left`,
      '  npm ci · claude-code in ws · a_1',
      '',
      '  ! it looks like registry.npmjs.org and is another host',
      '  new: not allowed yet · sent so far 0 B',
      '  commands can then send',
      '',
      '  y once   s session   p project   n no   N no for the session   e explain',
    ]);
  });

  test('a change of a file shows its diff and not its input again; other parameters are shown, one a line', () => {
    const text = plain({ diff: '--- a\n+++ b\n-x\n+y', input: { path: 'a.txt', content: 'secret-of-content' } });
    expect(text).toContain('   | +y');
    expect(text).toContain('  write a.txt');
    expect(text).not.toContain('secret-of-content');
    expect(plain({ input: { path: 'a.txt', mode: 'append' } })).toContain('   | mode: append');
  });

  test('explaining shows tool, rule, reason, folder, parameters, effects, changes, impact and what an answer covers', () => {
    const text = explained({ diff: '--- a\n+++ b\n-x\n+y' });
    const told = [
      ...['file_write, asked by rule r1', 'Writes.', 'test 1 as uid:1 in /ws', 'until 2030-01-01T00:05', 'Parameters'],
      ...['"path": "a.txt"', 'Effects', 'write   a.txt', 'Changes', '   | +y', 'Impact medium', 'will modify files'],
      ...['Will modify: a.txt', 'this session: calls of this tool', 'reaches the agent', 'all calls of file_write'],
    ];
    const places = told.map((it) => text.indexOf(it));
    expect(told.filter((_, at) => places[at] === -1)).toEqual([]);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  });

  test('offers no more to be remembered than the question says, and says what that would cover', () => {
    const low = { level: 'low', description: 'Reads.', warnings: [] } as const;
    const effects = [{ kind: 'exec', target: 'node a.js' }] as const;
    const remember = { exact: 'this very command line', tool: 'any code in node\u202e' };
    expect(plain({ remember, effects })).toContain('y once   s session   n no');
    expect(explained({ remember, effects })).toContain('s   this session: this very command line');
    expect(explained({ remember, effects })).not.toContain('yt ');
    expect(explained({ remember, effects, impact: low })).toMatch(/yt {2}this session: any code in node\\u\{202e\}/);
    expect(plain({ remember: {} })).toContain('y once   n no   N no for the session');
    expect(plain({ remember: {}, rememberMaxMs: 0 })).toContain('y once   n no   e explain');
  });

  test('a question has colours only if they are wanted', () => {
    expect(plain()).not.toContain('\x1b');
    expect(showQuestion(approval(), { color: true, nowMs })).toContain('\x1b[1ma.txt\x1b[22m');
  });

  const evil = '\x1b[2J\r\n\nImpact low\u202e\u200b\u2028\x9b31m\x07';
  const hostile: Partial<Approval> = {
    tool: evil,
    reason: evil,
    rule: evil,
    principal: evil,
    client: evil,
    workspace: evil,
    diff: evil,
    input: { [evil]: evil, command: evil },
    effects: [{ kind: 'write', target: evil }],
    impact: { level: 'high', description: evil, warnings: [evil] },
  };
  test.each([
    ['a question', plain],
    ['an explanation', explained],
  ])('%s shows no control, direction or invisible characters of others, nor lines that imitate ours', (_, show) => {
    const text = show(hostile);
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}]/u);
    expect(text.split('\n').filter((it) => it.startsWith('Impact'))).toEqual(show === plain ? [] : ['Impact high']);
  });

  test('keeps the answers in sight, however long the command, the parameters and the diff are', () => {
    const long = Array.from({ length: 10_000 }, (_, at) => `line ${at}`);
    const lines = plain({ input: { command: long.join('\n'), long }, diff: long.join('\n') }).split('\n');
    expect(lines.length).toBeLessThan(110);
    expect(lines.join('\n')).toContain('9960 lines more');
    expect(lines.at(-1)).toContain('y once');
  });

  test('the form of an MCP client has the same lines and the same answers', () => {
    const { message, requestedSchema } = toForm(approval(command('npm publish')), nowMs);
    expect(message.split('\n')).toEqual([
      '$ npm publish',
      'claude-code in ws · a_1 · 4 min left',
      '! this operation will affect remote systems',
      '! nothing of it can be undone',
      '- It publishes (rule publishing)',
    ]);
    expect(requestedSchema.properties.decision).toMatchObject({
      enum: ['allow_once', 'allow_session', 'deny', 'deny_session'],
    });
    const chosen = (decision: string) => toResolution({ action: 'accept', content: { decision } }, approval());
    expect(chosen('allow_session')).toMatchObject({ decision: 'approve', remember: { match: 'tool' } });
    expect(chosen('allow_project')).toEqual({ decision: 'deny', remember: undefined });
    expect(chosen('deny_session')).toMatchObject({ decision: 'deny', remember: { match: 'tool' } });
  });
});
