import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { AgentkPod } from '../agentk-pods.ts'
import type { Findings, Stage } from '../scene.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { equalMs, restarted } from './kills.ts'
import { WrittenMaps } from './written-maps.ts'

/** interval of pushes. ms */
const paceMs = 1000
/** pause between the end of a fault and the next. ms */
const betweenMs = 4000
const busyMs = 5000
const conflicts = 10

/** One round of faults. The pod comes last, since the other one leads only once the Lease has expired. */
const round = ['busy', 'replica', 'conflicts', 'busy', 'replica', 'conflicts', 'pod'] as const
type Fault = (typeof round)[number]

/** Pushes while each fault comes in turn: at the end the cluster is equal to Git. */
export async function pushesUnderFaults(
  ground: GitopsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { assets, minutes }: { assets: string; minutes: number },
): Promise<Findings> {
  const { sources, replicas, admin, front } = ground
  const faults = new Faults(ground, assets)
  const maps = new WrittenMaps(admin)
  maps.start()
  const calm = new AbortController()
  const pushed = pushUntil(ground, AbortSignal.any([signal, calm.signal]))
  pushed.catch(() => undefined) // awaited below
  try {
    const end = Date.now() + minutes * 60_000
    do {
      for (const fault of round) {
        await faults.play(fault, signal)
        await delay(betweenMs, signal)
      }
      say(`${sources.count} pushes, ${faults.text}`)
    } while (Date.now() < end)
    calm.abort()
    await pushed
    await sources.pushAll(replicas)
    const wrong = await maps.differences(sources, equalMs, signal)
    const failures = [...wrong.map((line) => `at the end ${line}`), ...maps.steppedBack]
    const counts = { pushes: sources.count, untold: sources.untold, ...faults.counts, refused: front.refused }
    const figure = `faults: ${sources.count} pushes, ${faults.text}; ${maps.steppedBack.length} writes of an older commit after a newer one, ${wrong.length} objects not as in Git`
    return { figures: [figure], failures, data: { faults: { minutes, ...counts } } }
  } finally {
    calm.abort()
    maps.stop()
  }
}

/** Pushes until the signal aborts; a running push is ended first. */
async function pushUntil({ sources, replicas }: GitopsGround, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sources.push(replicas)
    await delay(paceMs, signal).catch(() => undefined)
  }
}

class Faults {
  readonly counts: Record<Fault, number> = { busy: 0, replica: 0, conflicts: 0, pod: 0 }
  readonly #ground: GitopsGround
  readonly #assets: string

  constructor(ground: GitopsGround, assets: string) {
    this.#ground = ground
    this.#assets = assets
  }

  get text(): string {
    const { busy, replica, conflicts: written, pod } = this.counts
    const { refused } = this.#ground.front
    return `busy ${busy} times with ${refused} requests refused, ${replica} replicas and ${pod} pods killed, ${written * conflicts} fields written by kubectl`
  }

  async play(fault: Fault, signal: AbortSignal): Promise<void> {
    const { replicas, pods, front } = this.#ground
    const turn = this.counts[fault]++
    if (fault === 'busy') {
      front.isBusy = true
      await delay(busyMs, signal).finally(() => {
        front.isBusy = false
      })
    } else if (fault === 'replica') {
      await restarted(replicas[turn % replicas.length] as LocalReplica, this.#ground, signal)
    } else if (fault === 'pod') {
      const pod = pods[turn % pods.length] as AgentkPod
      pod.signal('SIGKILL')
      await pod.exited
      await pod.start()
    } else for (let i = 0; i < conflicts; i++) await this.#overwrite()
  }

  /** Overwrites a field of Git as a user does. */
  async #overwrite(): Promise<void> {
    const { sources, controlPlane } = this.#ground
    const { namespace, name } = sources.kept()
    const patch = JSON.stringify({ data: { push: 'by hand' } })
    const argv = ['patch', 'configmap', name, '--namespace', namespace, '--type=merge', '--patch', patch]
    const flags = ['--field-manager=ada', '--kubeconfig', controlPlane.kubeconfig]
    await promisify(execFile)(join(this.#assets, 'kubectl'), [...argv, ...flags])
  }
}
