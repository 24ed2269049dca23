/** The web panel's listener on loopback: the page's files, signing in, and the protocol as JSON over WebSocket. */

import type { Channel, Listener } from '../../wire/transport/transport.ts';
import { listenWebSocket, type WebSocketOptions } from '../../wire/transport/websocket.ts';
import { answerPage, type PageParts } from './requests.ts';

export type PanelOptions = WebSocketOptions & Pick<PageParts, 'files' | 'signIn' | 'names'>;

/** Listens on loopback, at the first of its names. Throws when the host is not a loopback one or the port is taken. */
export async function listenPanel(options: PanelOptions, accept: (channel: Channel) => void): Promise<Listener> {
  const serve: WebSocketOptions['serve'] = (request, response, port) =>
    void answerPage(request, response, { ...options, port }).catch((error: Error) => {
      options.powers.log.warn({ reason: error.message }, 'a request to the panel failed');
      response.destroy();
    });
  const listener = await listenWebSocket({ ...options, serve }, accept);
  const [name] = options.names;
  return { ...listener, address: `http://${name}:${new URL(listener.address).port}/` };
}
