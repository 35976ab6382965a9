import { KasError } from '../../../../lib/errors.ts'
import type { RequestLife } from '../request-life.ts'
import { contentHeaders } from '../response/own-answer.ts'
import type { WatchApi } from '../watch/watch-api.ts'
import type { WebSocketTokens } from '../watch/websocket-tokens.ts'
import type { AskedRequest, Endpoint, ForCallers, LetIn } from './endpoint.ts'

export interface WatchEndpointsComponents {
  /** absent: neither tokens nor watches are served (doc/reference/gitlab-contract.md 9.3 no. 25) */
  readonly webSocketTokens?: WebSocketTokens | undefined
  readonly watches: Pick<WatchApi, 'accept'>
  /** headers of kas' own answers */
  readonly headers: (life: RequestLife) => string[]
}

const watchPath = '/watch'

/**
 * Creates the endpoints for watches over a WebSocket, and for tokens that open one in a browser
 * (doc/reference/tunnel-protocol.md 6.8).
 */
export function watchEndpoints(
  { webSocketTokens, watches, headers }: WatchEndpointsComponents,
  { admit, credentials }: ForCallers,
): { readonly watch: Endpoint; readonly token: Endpoint } {
  if (!webSocketTokens) return { watch: isOff, token: isOff }
  const accept = async ({ credentials: own, caller }: LetIn, { life, head }: AskedRequest) => {
    const { exchange } = life
    const conversation = watches.accept(exchange, head, { credentials: own, caller, span: life })
    life.opened()
    life.becomes(conversation)
    await conversation.run(exchange.signal)
    return 'upgraded' as const
  }
  const watch: Endpoint<LetIn> = {
    path: watchPath,
    methods: ['GET'],
    admit,
    ...(credentials ? { credentials } : {}),
    serve: accept, // refuses it, because it is no upgrade
    upgrade: accept,
  }
  const token: Endpoint<LetIn> = {
    path: '/',
    methods: ['GET'],
    admit,
    async serve({ credentials: own }, { life, target }) {
      const sealed = await webSocketTokens.seal(own, target.path)
      const body = JSON.stringify({ token: sealed })
      life.exchange.answer(200, [...headers(life), ...contentHeaders('application/json')], body)
      return 'token'
    },
  }
  return { watch, token }
}

/** Reads a token, which only opens WebSockets, and which an Authorization header overrides. */
export function tokenCredentials(webSocketTokens: WebSocketTokens | undefined): NonNullable<Endpoint['credentials']> {
  return ({ life, head, target }) => {
    const { webSocketTokens: tokens, authorization } = head
    if (tokens.length === 0 || authorization.length > 0 || !life.exchange.upgrade) return undefined
    return webSocketTokens?.open(tokens, target.path)
  }
}

const isOff: Endpoint = {
  path: watchPath,
  methods: undefined,
  readsBodies: true,
  admit: () => Promise.reject(new KasError({ code: 'NOT_SERVED', what: 'the watch API is off' })),
  serve: () => Promise.reject(new Error('nobody is let in')),
}
