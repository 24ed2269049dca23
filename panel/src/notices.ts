/** Tells a person who looks elsewhere: the number of questions in the title, and a notice of the desktop. */
import { effect } from '@preact/signals';
import { onNotice } from './connection.ts';
import { waitingCount } from './questions.ts';

effect(() => {
  document.title = waitingCount.value > 0 ? `(${waitingCount.value}) Ringfence` : 'Ringfence';
});

onNotice('approval.requested', ({ approval: { approvalId, tool, impact } }) => {
  if (!document.hidden || typeof Notification === 'undefined' || Notification.permission !== 'granted') return;
  // No parameters: a notice is also on a locked screen.
  const notice = new Notification(`${tool} waits for you`, { body: impact.description, tag: approvalId });
  notice.onclick = () => {
    window.focus();
    location.hash = '#/inbox';
  };
});
