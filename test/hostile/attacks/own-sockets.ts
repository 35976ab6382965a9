import { viewsProtocol } from '../../../src/proto/views-json.ts'
import type { Attack } from '../attack.ts'
import { type EndlessRequest, playGreedy } from '../greedy-stream.ts'
import { headOf, neighbourOf, upgradeHeaders } from '../stage.ts'

interface Size {
  /** sockets at each replica that is attacked */
  readonly sockets: number
  readonly replicas: number
  /** duration of the attack. ms */
  readonly lastsMs: number
}

export const ownSockets: Attack<Size> = {
  name: 'own-sockets',
  what: 'one user with more WebSockets for views of the good agent than it may have, all of them idle',
  refusal: /^socket: 429 .*You hold \d+/,
  cheap: { sockets: 520, replicas: 1, lastsMs: 1000 },
  full: { sockets: 520, replicas: 3, lastsMs: 20_000 },
  async play(stage, { sockets, replicas, lastsMs }, signal) {
    const [credential = ''] = neighbourOf(stage).userCredentials
    const head = headOf('GET /views', credential, ...upgradeHeaders(viewsProtocol))
    const requests = [stage.entry, stage.holder, stage.standby].slice(0, replicas).flatMap((at) => {
      return Array.from({ length: sockets }, (): EndlessRequest => ({ kind: 'socket', head: () => head, at }))
    })
    return await playGreedy(stage, requests, { lastsMs }, signal)
  },
}
