/** The shape of a workspace's todo list, which both tools share. */
import * as z from 'zod';

const TODOS_MAX = 500;
const CONTENT_CHARS_MAX = 2000;

export const STATUSES = ['pending', 'in_progress', 'completed', 'cancelled'] as const;
export const PRIORITIES = ['high', 'medium', 'low'] as const;

const id = z.string().min(1).max(64);
const content = z.string().min(1).max(CONTENT_CHARS_MAX);
const status = z.enum(STATUSES);
const priority = z.enum(PRIORITIES);

export const todo = z.strictObject({ id, content, status, priority });
export type Todo = z.output<typeof todo>;

/** The list as callers write it. */
export const newTodos = z
  .array(
    z.strictObject({
      id: id.optional().describe('Stays the same from call to call; assigned if absent.'),
      content: content.describe('The task.'),
      status: status.default('pending').describe('Progress.'),
      priority: priority.default('medium').describe('Priority.'),
    }),
  )
  .max(TODOS_MAX);

export const state = { name: 'todo', schema: z.array(todo).max(TODOS_MAX) };

const count = z.int().nonnegative();
export const output = z.strictObject({
  todos: z.array(todo),
  metrics: z.strictObject({
    total: count.describe('Of the whole list.'),
    done: count.describe('Completed or cancelled.'),
    percent: z.int().min(0).max(100).describe('Done of total; 100 of an empty list.'),
  }),
});

export const todosIn = (kept: unknown): Todo[] => state.schema.parse(kept ?? []);

export function metricsOf(todos: readonly Todo[]): z.output<typeof output>['metrics'] {
  const total = todos.length;
  const done = todos.filter((it) => it.status === 'completed' || it.status === 'cancelled').length;
  return { total, done, percent: total === 0 ? 100 : Math.floor((100 * done) / total) };
}
