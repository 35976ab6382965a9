import { viewsProtocol } from '../../../src/proto/views-json.ts'
import type { Attack } from '../attack.ts'
import { type EndlessRequest, playGreedy } from '../greedy-stream.ts'
import { headOf, neighbourOf, textFrame, upgradeHeaders } from '../stage.ts'

interface Size {
  /** WebSockets at each replica, with as many views on each as it may have */
  readonly sockets: number
  /** duration of the attack. ms */
  readonly lastsMs: number
}

const viewsOfEach = 20

export const ownViews: Attack<Size> = {
  name: 'own-views',
  what: 'one user, let in as the agent, with more views of the good agent than it may have, at all replicas',
  refusal: /^view: .*You hold \d+/s,
  cheap: { sockets: 10, lastsMs: 1000 },
  full: { sockets: 26, lastsMs: 20_000 },
  async play(stage, { sockets, lastsMs }, signal) {
    const [credential = ''] = neighbourOf(stage).userCredentials
    const [, agent] = credential.split(':')
    const head = headOf('GET /views', credential, ...upgradeHeaders(viewsProtocol))
    const frames = Array.from({ length: viewsOfEach }, (_, id) =>
      textFrame(JSON.stringify({ type: 'open', id, agent, view: 'tree' })),
    )
    const requests = [stage.entry, stage.holder, stage.standby].flatMap((at) => {
      return Array.from({ length: sockets }, (): EndlessRequest => ({ kind: 'view', head: () => head, at, frames }))
    })
    return await playGreedy(stage, requests, { lastsMs }, signal)
  },
}
