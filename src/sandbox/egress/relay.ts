import type { Duplex } from 'node:stream';

/** Copies bytes in both directions with backpressure, until both sides have ended or one failed. What `a` sends passes the gate. */
export function relay(a: Duplex, b: Duplex, gate?: Duplex): void {
  if (gate) {
    pass(a, gate);
    pass(gate, b);
    gate.on('error', () => a.destroy());
  } else {
    pass(a, b);
  }
  pass(b, a);
}

function pass(from: Duplex, to: Duplex): void {
  from.on('error', () => to.destroy());
  // After an orderly end, remaining data must still be written.
  from.on('close', () => {
    if (!from.readableEnded) to.destroy();
  });
  from.pipe(to);
}
