import { KasError } from '../../../../lib/errors.ts'
import { isOneObject } from '../../../../lib/json-scanner.ts'
import { abortable } from '../../../../lib/signals.ts'
import { viewsBounds, viewsProtocol } from '../../../../proto/views-json.ts'
import type { OwnAnswer, OwnEndpoint, OwnRequest } from '../../../own-endpoint.ts'
import type { Feeds } from '../feed/feeds.ts'
import { viewSockets } from '../feed/view.ts'
import { queryText } from './query-text.ts'
import { ViewsConversation } from './views-conversation.ts'

/** Parameters that may occur once, and parameters that may repeat. */
const single = new Set(['view', 'environment', 'application', 'text', 'labels', 'sort', 'limit', 'agent'])
const lists = new Set(['namespace', 'kind', 'verdict'])

/** Views of one agent: over a WebSocket, or one current view per request (doc/guide/views.md). */
export function viewsEndpoint(feeds: Pick<Feeds, 'open'>): OwnEndpoint {
  return {
    path: '/views',
    methods: ['GET'],
    serve: (request) => snapshot(feeds, request),
    upgrade: {
      protocol: viewsProtocol,
      maxMessageBytes: viewsBounds.maxQueryBytes,
      what: viewSockets,
      beginsByMessage: true,
      open: (opened) => new ViewsConversation(feeds, opened),
    },
  }
}

/**
 * Answers with the first update of a view (doc/guide/views.md).
 *
 * @throws KasError BAD_REQUEST, TOO_MANY_STREAMS, or the error that ended the view
 */
async function snapshot(feeds: Pick<Feeds, 'open'>, request: OwnRequest): Promise<OwnAnswer> {
  const { agentId, caller, impersonation: as, signal } = request
  const query = queryOf(request)
  request.shows?.(queryText(query))
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
  const update = async (json: Uint8Array) => resolve(json)
  const view = feeds.open(agentId, { caller, as, query }, { update, ended: reject })
  try {
    const body = await abortable(promise, signal)
    if (await isOneObject(body)) return { status: 200, mediaType: 'application/json', body }
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'an update of a view is not one JSON object' })
  } finally {
    view.close()
  }
}

function queryOf({ query, agentId }: OwnRequest): Uint8Array {
  for (const [name, values] of query) {
    if (!single.has(name) && !lists.has(name))
      throw bad(`the parameter ${JSON.stringify(name.slice(0, 64))} is not known`)
    if (single.has(name) && values.length > 1) throw bad(`${name} stands more than once`)
  }
  const one = (name: string) => query.get(name)?.[0]
  const agent = one('agent')
  if (agent !== undefined && agent !== String(agentId)) throw bad(`agent: the credentials are for agent ${agentId}`)
  const limit = one('limit')
  if (limit !== undefined && !/^\d{1,6}$/.test(limit)) throw bad('limit: a whole number is needed')
  const wanted = {
    view: one('view') ?? 'tree',
    scope: { namespaces: query.get('namespace'), environment: one('environment'), application: one('application') },
    filter: { text: one('text'), kinds: query.get('kind'), verdicts: query.get('verdict') },
    labels: one('labels'),
    sort: one('sort'),
    limit: limit === undefined ? undefined : Number(limit),
  }
  const json = Buffer.from(JSON.stringify(wanted))
  const { maxQueryBytes } = viewsBounds
  if (json.length > maxQueryBytes) throw bad(`the query has more than ${maxQueryBytes} bytes`)
  return json
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}
