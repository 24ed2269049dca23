import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defineTool } from '../tool.ts';
import { metricsOf, newTodos, output, state, type Todo, todosIn } from './list.ts';

const input = z.strictObject({ todos: newTodos.describe('The whole new list.') });

export default defineTool({
  name: 'todo_write',
  title: 'Write the todo list',
  summary: 'Replace the todo list of this workspace: give the whole list, with the ids from todo_read.',
  notes: 'At most 500 entries of 2 000 characters.',
  capabilities: [{ action: 'replace', description: 'Replaces the todo list of the workspace.' }],
  category: 'custom',
  tier: 'write',
  idempotent: true,
  effects: () => [],
  state,
  input,
  output,
  examples: [
    {
      input: { todos: [{ content: 'Write a test', status: 'completed' }, { content: 'Make it pass' }] },
      output: { metrics: { total: 2, done: 1, percent: 50 } },
    },
    {
      input: {
        todos: [
          { id: '1', content: 'a' },
          { id: '1', content: 'b' },
        ],
      },
      error: 'INPUT_INVALID',
    },
  ],
  aliases: ['todo', 'todowrite'].map((name) => ({ name, input })),

  run({ todos: given }, ctx) {
    const todos = withIds(given, todosIn(ctx.state));
    ctx.state = todos;
    return Promise.resolve({ todos, metrics: metricsOf(todos) });
  },
});

/** Gives new entries the smallest numbers that no entry of the old or new list has. */
function withIds(given: z.output<typeof newTodos>, before: readonly Todo[]): Todo[] {
  const named = given.flatMap((it) => it.id ?? []);
  const twice = named.find((it, at) => named.indexOf(it) !== at);
  if (twice !== undefined)
    throw new ToolError('INPUT_INVALID', `two todos have the id \`${twice}\`; ids must be unique`);
  const taken = new Set([...named, ...before.map((it) => it.id)]);
  let next = 1;
  return given.map(({ id, ...rest }) => {
    while (taken.has(`${next}`)) next += 1;
    if (id === undefined) taken.add(`${next}`);
    return { id: id ?? `${next}`, ...rest };
  });
}
