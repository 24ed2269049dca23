/** Tells a person away from the terminal of a question: by the desktop's own program, if there is one. */
import { systemPowers } from '../../base/powers.ts';
import { showLine } from '../../base/text/shown-text.ts';
import type { Approval } from '../../store/approvals/approval.ts';
import { agentOf } from '../../store/approvals/question-words.ts';

/** Shows a notice without parameters: it is also on a locked screen. Nothing happens where no program shows notices. */
export function notifyDesktop(approval: Approval): void {
  const body = showLine(`${agentOf(approval)}: ${approval.tool}. ${approval.impact.description}`);
  const title = 'Ringfence waits for you';
  const [program, args] =
    process.platform === 'darwin'
      ? ['osascript', ['-e', `display notification ${JSON.stringify(body)} with title ${JSON.stringify(title)}`]]
      : ['notify-send', ['--app-name=Ringfence', '--', title, body]];
  const child = systemPowers().spawn(program as string, args as string[], { stdio: 'ignore' });
  child.on('error', () => {}); // ENOENT: this desktop has no such program.
  child.unref();
}
