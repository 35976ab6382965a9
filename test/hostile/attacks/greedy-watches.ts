import type { Attack } from '../attack.ts'
import { playGreedy } from '../greedy-stream.ts'
import { sharedOf } from '../stage.ts'

interface Size {
  readonly watches: number
  /** duration of the attack. ms */
  readonly lastsMs: number
}

export const greedyWatches: Attack<Size> = {
  name: 'greedy-watches',
  what: 'one user with more watches of the good agent than it has tunnels, opened again after each refusal',
  refusal: /^watch: 429 .*You hold \d+ of the \d+ tunnels/,
  cluster: true,
  cheap: { watches: 600, lastsMs: 1000 },
  full: { watches: 1600, lastsMs: 30_000 },
  async play(stage, { watches, ...options }, signal) {
    const { userCredential, namespace } = sharedOf(stage)
    const path = `/api/v1/namespaces/${namespace}/configmaps?watch=1`
    const head = [`GET ${path} HTTP/1.1`, 'Host: kas', `Authorization: Bearer ${userCredential}`, '', ''].join('\r\n')
    const requests = Array.from({ length: watches }, () => ({ kind: 'watch', head: () => head }))
    return await playGreedy(stage, requests, options, signal)
  },
}
