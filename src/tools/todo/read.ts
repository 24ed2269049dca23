import * as z from 'zod';
import { defineTool } from '../tool.ts';
import { metricsOf, output, PRIORITIES, STATUSES, state, todosIn } from './list.ts';

const input = z.strictObject({
  status: z.enum(STATUSES).optional().describe('Only todos of this status.'),
  priority: z.enum(PRIORITIES).optional().describe('Only todos of this priority.'),
});

export default defineTool({
  name: 'todo_read',
  title: 'Read the todo list',
  summary: 'Read the todo list of this workspace.',
  capabilities: [{ action: 'read', description: 'Reads the todo list of the workspace.' }],
  category: 'custom',
  tier: 'read_only',
  idempotent: true,
  effects: () => [],
  state,
  input,
  output,
  examples: [{ input: { status: 'pending' }, output: {} }],
  aliases: [{ name: 'todoread', input }],

  run({ status, priority }, ctx) {
    const all = todosIn(ctx.state);
    const todos = all.filter((it) => (status ?? it.status) === it.status && (priority ?? it.priority) === it.priority);
    return Promise.resolve({ todos, metrics: metricsOf(all) });
  },
});
