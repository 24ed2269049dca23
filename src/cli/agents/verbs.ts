/** Verbs of sub-agents; their code is loaded on demand. */
import { type CliCapability, collect } from '../verbs/verbs.ts';

export default {
  addVerbs(verbs) {
    verbs
      .add('run <prompt>', 'give a task to a sub-agent, show its progress, and print its summary')
      .summary('give a task to a sub-agent (`call` runs one tool)')
      .option('--agent <profile>', 'the profile of the configuration whose model works on it (default: `default`)')
      .option('--tools <name>', 'a tool that it has, `*` matches anything; may be repeated (default: all)', collect)
      .option('--task-mode <name>', 'a mode that narrows the sub-agent: read, plan, code, or one of the configuration')
      .option('--max-cycles <n>', 'most answers of its model (default: 10)', Number)
      .option('--usd <amount>', 'most that it may cost, in US dollars', Number)
      .option('--tokens <n>', 'most tokens that its model may take', Number)
      .option('--timeout <duration>', 'end it after this time, such as 30s or 10m')
      .option('--workspace <dir>', 'the folder to work in (default: this one)')
      .option('--mode <name>', 'a mode that narrows the session that starts it')
      .addHelpText(
        'after',
        `
Exit codes: 0 done, 1 error, 4 refused, 5 out of cycles or budget, 130 cancelled.`,
      )
      .action(verbs.here(async () => (await import('./run.ts')).run));

    const tasks = verbs.addGroup('tasks', 'list the tasks of sub-agents, show what they did, or cancel one');
    const load = () => import('./tasks.ts');
    verbs
      .add('list', 'list the newest tasks', tasks)
      .option('--limit <n>', 'how many tasks to list (default: 50)', Number)
      .action(verbs.operating(async (client, flags) => (await load()).tasksList(flags, client)));
    verbs
      .add('show <taskId>', 'print a task with its transcript; the beginning or end of the id is enough', tasks)
      .action(verbs.operating(async (client, id, flags) => (await load()).tasksShow(id, flags, client)));
    verbs
      .add('cancel <taskId>', 'end a task that runs, with its calls and its sub-agents', tasks)
      .action(verbs.operating(async (client, id, flags) => (await load()).tasksCancel(id, flags, client)));
  },
} satisfies CliCapability;
