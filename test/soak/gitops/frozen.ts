import { delay } from '../../../src/lib/signals.ts'
import { Seeded } from '../../support/seeded.ts'
import type { AgentkPod } from '../agentk-pods.ts'
import type { Findings, Stage } from '../scene.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { WrittenMaps } from './written-maps.ts'

/** the request of a round at which the pod is frozen is at most this; the shortest round has a few more */
const maxRequest = 12
/** interval of checks of another process. ms */
const askAgainMs = 250
/** limit until a push is applied, or until the other pod leads. ms */
const patienceMs = 60_000
/** limit until the cluster is equal: a new leader waits for requests on their way, and retries failures. ms */
const equalMs = 240_000

/**
 * Freezes the leading pod in the middle of a round. The other one leads and applies new pushes; then the frozen one
 * thaws, with its requests on their way. Two processes, the real Lease.
 */
export async function frozenInRounds(
  ground: GitopsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { freezes, seed }: { freezes: number; seed: number },
): Promise<Findings> {
  const { sources, replicas, admin } = ground
  const seeded = new Seeded(seed)
  const maps = new WrittenMaps(admin)
  maps.start()
  try {
    const failures: string[] = []
    const compare = async (when: string, limitMs: number) =>
      void failures.push(...(await maps.differences(sources, limitMs, signal)).map((line) => `${when} ${line}`))
    await compare('at the beginning:', equalMs)
    for (let freeze = 1; freeze <= freezes; freeze++) {
      const pod = await ground.leadingPod()
      const at = 1 + seeded.int(maxRequest)
      const frozen = frozenAt(ground, pod, at)
      try {
        await sources.push(replicas)
        await frozen(signal)
        await sources.push(replicas)
        await followed(ground, pod, signal)
        await compare(`freeze ${freeze}, at request ${at}, led by the other pod:`, equalMs)
      } finally {
        pod.signal('SIGCONT')
      }
      await sources.push(replicas)
      await compare(`freeze ${freeze}, at request ${at}, thawed:`, equalMs)
      say(`freeze ${freeze} of ${freezes}: ${pod.name}, at request ${at} of its round`)
    }
    await sources.pushAll(replicas)
    await compare('at the end', equalMs)
    failures.push(...maps.steppedBack)
    const figure = `frozen: ${freezes} times the leading pod, in the middle of a round; ${maps.writes} writes seen, ${maps.steppedBack.length} of an older commit after a newer one`
    return { figures: [figure], failures, data: { frozen: { freezes, writes: maps.writes } } }
  } finally {
    maps.stop()
  }
}

/**
 * Freezes the pod at that request of a round: the request is sent, and its answer is not read. @returns waits for it
 */
function frozenAt({ front }: GitopsGround, pod: AgentkPod, request: number) {
  const frozen = Promise.withResolvers<void>()
  let left = request
  front.onRequest = (url) => {
    if (url.includes('/leases') || url.includes('watch=') || --left !== 0) return
    pod.signal('SIGSTOP')
    frozen.resolve()
  }
  return async (signal: AbortSignal) => {
    const late = new Error(`no round with ${request} requests in ${patienceMs} ms`)
    const waited = delay(patienceMs, signal).then(() => Promise.reject(late))
    await Promise.race([frozen.promise, waited]).finally(() => {
      front.onRequest = () => undefined
    })
  }
}

/** Waits until another pod leads. */
async function followed(ground: GitopsGround, before: AgentkPod, signal: AbortSignal): Promise<void> {
  const late = AbortSignal.timeout(patienceMs)
  while ((await ground.leadingPod()) === before) {
    if (late.aborted) throw new Error(`nobody else leads ${patienceMs} ms after ${before.name} was frozen`)
    await delay(askAgainMs, signal)
  }
}
