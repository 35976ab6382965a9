import type { Attack } from '../attack.ts'
import { type EndlessRequest, playGreedy } from '../greedy-stream.ts'
import { headOf, neighbourOf, upgradeHeaders } from '../stage.ts'

interface Size {
  /** streams of each kind */
  readonly each: number
  /** duration of the attack. ms */
  readonly lastsMs: number
}

const pod = '/api/v1/namespaces/demo/pods/echo'
const channels = upgradeHeaders('v5.channel.k8s.io')
/** length of a body that is sent in single bytes, with pauses */
const uploadBytes = 1_000_000

/** Requests that only their caller can end. */
function requestsOf(credential: string): readonly EndlessRequest[] {
  const exec = headOf(`GET ${pod}/exec?command=cat&stdin=true&stdout=true`, credential, ...channels)
  const logs = headOf('GET /api/v1/namespaces/demo/pods/clock/log?follow=true&tailLines=1', credential)
  const forward = headOf(`GET ${pod}/portforward?ports=80`, credential, ...upgradeHeaders('v4.channel.k8s.io'))
  const body = ['Content-Type: application/json', `Content-Length: ${uploadBytes}`]
  const upload = headOf('POST /api/v1/namespaces/demo/configmaps', credential, ...body)
  return [
    { kind: 'exec', head: () => exec },
    { kind: 'logs -f', head: () => logs },
    { kind: 'port-forward', head: () => forward },
    { kind: 'upload', head: () => upload, drip: ' ' },
  ]
}

const told = (kind: string) => `${kind}: 429 [^;]*You hold \\d+ of the \\d+ tunnels.*`

export const greedyStreams: Attack<Size> = {
  name: 'greedy-streams',
  what: 'one user with more execs, logs -f, port-forwards and slow uploads than the good agent has tunnels, again after each refusal',
  refusal: new RegExp(`^${['exec', 'logs -f', 'port-forward', 'upload'].map(told).join('; ')}`, 's'),
  cheap: { each: 150, lastsMs: 1000 },
  full: { each: 160, lastsMs: 30_000 },
  async play(stage, { each, ...options }, signal) {
    const [credential = ''] = neighbourOf(stage).userCredentials
    const kinds = requestsOf(credential)
    const requests = Array.from({ length: each }, () => kinds).flat()
    return await playGreedy(stage, requests, options, signal)
  },
}
