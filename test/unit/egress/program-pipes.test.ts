/** Pipes of the egress process between commands and programs that the gateway starts for them. */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { DoorAnswer, DoorQuestion } from '../../../src/sandbox/egress/messages.ts';
import { ProgramPipes } from '../../../src/sandbox/egress/program-pipes.ts';

const at = (name: string) => ({ host: `${name}.ringfence.invalid`, port: 1 });

/** Pipes whose gateway gives this answer, and what it was asked. */
function open(answer: DoorAnswer) {
  const asked: unknown[] = [];
  const pipes = new ProgramPipes(async (token: string, { kind, host }: DoorQuestion) => {
    asked.push([token, kind, host]);
    return answer;
  });
  return { pipes, asked };
}

const read = async (end: Duplex): Promise<string> => {
  const [chunk] = (await once(end, 'data')) as [Buffer];
  return chunk.toString('utf8');
};

describe('a pipe to a program', () => {
  test('the pipe carries bytes both ways between a command and the program with the token of the answer', async () => {
    const { pipes, asked } = open({ program: 'its-token' });
    const near = (await pipes.open('command', at('git-upload-pack'))) as Duplex;
    const far = (await pipes.open('its-token', at('pipe'))) as Duplex;
    expect(asked).toEqual([['command', 'program', 'git-upload-pack']]);
    near.write('to it');
    expect(await read(far)).toBe('to it');
    far.write('and back');
    expect(await read(near)).toBe('and back');
  });

  test.each(['near', 'far'] as const)('a pipe whose %s end is gone ends on the other side', async (which) => {
    const { pipes } = open({ program: 'its-token' });
    const ends = {
      near: (await pipes.open('command', at('x'))) as Duplex,
      far: (await pipes.open('its-token', at('pipe'))) as Duplex,
    };
    const other = ends[which === 'near' ? 'far' : 'near'];
    ends[which].destroy();
    await once(other, 'close');
    expect(other.destroyed).toBe(true);
  });

  test('a pipe ends if its program ends before it comes for it', async () => {
    const { pipes } = open({ program: 'its-token' });
    const near = (await pipes.open('command', at('x'))) as Duplex;
    pipes.close('its-token');
    await once(near, 'close');
    await expect(pipes.open('its-token', at('pipe'))).rejects.toThrow('nothing waits');
  });

  test('a pipe is taken once, and by no other token', async () => {
    const { pipes } = open({ program: 'its-token' });
    await pipes.open('command', at('x'));
    await expect(pipes.open('command', at('pipe'))).rejects.toThrow('nothing waits');
    await pipes.open('its-token', at('pipe'));
    await expect(pipes.open('its-token', at('pipe'))).rejects.toThrow('nothing waits');
  });

  test('a refusal of the gateway reaches the command, and hosts are none of its business', async () => {
    const { pipes } = open({ refused: 'a person said no' });
    await expect(pipes.open('command', at('sign'))).rejects.toThrow('a person said no');
    expect(pipes.open('command', { host: 'example.org', port: 443 })).toBeUndefined();
  });
});
