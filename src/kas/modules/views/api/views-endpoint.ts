import { viewsBounds, viewsProtocol } from '../../../../proto/views-json.ts'
import type { OwnEndpoint } from '../../../module.ts'
import type { Feeds } from '../feed/feeds.ts'
import { viewSockets } from '../feed/view.ts'
import { snapshot } from './snapshot.ts'
import { ViewsConversation } from './views-conversation.ts'

/** Views of one agent, over a WebSocket or one at a time, as it is now (doc/views.md). */
export function viewsEndpoint(feeds: Pick<Feeds, 'open'>): OwnEndpoint {
  return {
    path: '/views',
    methods: ['GET'],
    serve: (request) => snapshot(feeds, request),
    upgrade: {
      protocol: viewsProtocol,
      maxMessageBytes: viewsBounds.maxQueryBytes,
      what: viewSockets,
      open: (opened) => new ViewsConversation(feeds, opened),
    },
  }
}
