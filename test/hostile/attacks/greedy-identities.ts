import type { Attack } from '../attack.ts'
import { type EndlessRequest, playGreedy } from '../greedy-stream.ts'
import { headOf, neighbourOf, upgradeHeaders } from '../stage.ts'

interface Size {
  /** execs of the user's own tokens */
  readonly execs: number
  /** execs of each of the user's jobs */
  readonly ofEachJob: number
  /** duration of the attack. ms */
  readonly lastsMs: number
}

const exec = 'GET /api/v1/namespaces/demo/pods/echo/exec?command=cat&stdin=true&stdout=true'
const channels = upgradeHeaders('v5.channel.k8s.io')

export const greedyIdentities: Attack<Size> = {
  name: 'greedy-identities',
  what: 'one user with more execs than the good agent has tunnels: by two tokens, Impersonate-User that varies, jobs in 40 projects',
  refusal: /^user: 429 .*You hold \d+ of the \d+ tunnels/,
  cheap: { execs: 540, ofEachJob: 2, lastsMs: 1000 },
  full: { execs: 540, ofEachJob: 3, lastsMs: 30_000 },
  async play(stage, { execs, ofEachJob, lastsMs }, signal) {
    const { userCredentials, jobCredentials } = neighbourOf(stage)
    let asked = 0
    const asUser = (i: number): EndlessRequest => {
      const credential = userCredentials[i % userCredentials.length] as string
      const head = () => headOf(exec, credential, `Impersonate-User: nobody-${++asked}`, ...channels)
      return { kind: 'user', head }
    }
    const asJob = (credential: string): EndlessRequest => {
      const head = headOf(exec, credential, ...channels)
      return { kind: 'job', head: () => head }
    }
    const requests = [
      ...Array.from({ length: execs }, (_, i) => asUser(i)),
      ...Array.from({ length: ofEachJob }, () => jobCredentials.map(asJob)).flat(),
    ]
    return await playGreedy(stage, requests, { lastsMs, refused: ['user'] }, signal)
  },
}
