/** The todo list of a workspace: kept by the daemon, visible to nobody else. */
import { readdirSync, rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { dataOf, openDaemon, temporaryDir } from '../support/daemon.ts';

test('a list outlives session and daemon, each workspace has its own, and none lies in the workspace', async () => {
  const stateDir = temporaryDir('state');
  const workspace = temporaryDir('ws');
  const other = temporaryDir('ws');
  const args = ['--workspace', other];
  try {
    await using daemon = await openDaemon({ stateDir, workspace, args });
    await using writer = await daemon.connect();
    const todos = [
      { content: 'one', status: 'completed' as const },
      { id: 'x', content: 'two', priority: 'high' as const },
    ];
    const written = await dataOf(writer.call('todo_write', { todos }));
    expect(written).toEqual({
      todos: [
        { id: '1', content: 'one', status: 'completed', priority: 'medium' },
        { id: 'x', content: 'two', status: 'pending', priority: 'high' },
      ],
      metrics: { total: 2, done: 1, percent: 50 },
    });
    await using elsewhere = await daemon.connect({ workspace: other });
    expect(await dataOf(elsewhere.call('todo_read', {}))).toEqual({
      todos: [],
      metrics: { total: 0, done: 0, percent: 100 },
    });
    expect(readdirSync(workspace)).toEqual([]);
    await daemon[Symbol.asyncDispose]();
    await using second = await openDaemon({ stateDir, workspace, args });
    await using reader = await second.connect();
    expect(await dataOf(reader.call('todo_read', {}))).toEqual(written);
    expect(await dataOf(reader.call('todo_read', { priority: 'high' }))).toMatchObject({
      todos: [{ id: 'x' }],
      metrics: { total: 2 },
    });
    const renewed = await dataOf(reader.call('todo_write', { todos: [{ content: 'three' }] }));
    expect(renewed.todos).toMatchObject([{ id: '2', content: 'three' }]);
  } finally {
    for (const it of [stateDir, workspace, other]) rmSync(it, { recursive: true, force: true });
  }
});
