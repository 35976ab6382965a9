import { delay } from '../../../src/lib/signals.ts'
import type { Findings, Stage } from '../scene.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { configuration } from './pushed-sources.ts'

/** limit that the documents promise: a poll each 3 s, and the round. ms */
const maxMs = 5000
/** interval of checks of another process. ms */
const askAgainMs = 50
/** longer than the measured time may be. ms */
const patienceMs = 90_000
const namespace = 'east'
const name = 'polled'

/** A ConfigMap of the second project: a push sets its value, and the cluster gets the value. */
export class SecondSource {
  readonly #ground: GitopsGround
  readonly #signal: AbortSignal

  constructor(ground: GitopsGround, signal: AbortSignal) {
    this.#ground = ground
    this.#signal = signal
  }

  /** Makes the agent follow the project. */
  async begin(): Promise<void> {
    const { second } = this.#ground
    const source = { id: second.project, default_namespace: namespace, paths: [{ glob: '*.yaml' }] }
    await this.push('0')
    await this.#ground.configured({
      gitops: { manifest_projects: [...configuration.gitops.manifest_projects, source] },
    })
    await this.untilThere('0')
  }

  /** Pushes without a notification. */
  async push(value: string): Promise<void> {
    await this.#ground.second.push({ 'map.yaml': manifest(value) })
  }

  /** @returns duration. ms */
  async untilThere(value: string): Promise<number> {
    const began = performance.now()
    const late = AbortSignal.any([this.#signal, AbortSignal.timeout(patienceMs)])
    for (;;) {
      const { status, body } = await this.#ground.admin.request(`/api/v1/namespaces/${namespace}/configmaps/${name}`)
      if (status === 200 && JSON.parse(body).data.value === value) return Math.round(performance.now() - began)
      await delay(askAgainMs, late)
    }
  }
}

/** Pushes to a second project without notifications: only polls find the pushes. */
export async function pollsOfSecondProject(
  ground: GitopsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { polls }: { polls: number },
): Promise<Findings> {
  const source = new SecondSource(ground, signal)
  await source.begin()
  const took: number[] = []
  for (let push = 1; push <= polls; push++) {
    await source.push(String(push))
    took.push(await source.untilThere(String(push)))
    say(`push ${push} of ${polls}: ${took.at(-1)} ms`)
    await delay(push * 137, signal) // at some other moment between two polls
  }
  const longest = Math.max(...took)
  const late = took.filter((ms) => ms > maxMs).length
  const figure = `polls: ${polls} pushes to a second project, told to nobody; ${polls - late} in the cluster within ${maxMs} ms, ${longest} ms at the most`
  const failures = late > 0 ? [`${late} of ${polls} pushes took longer than ${maxMs} ms`] : []
  return { figures: [figure], failures, data: { polls: { pushes: polls, late, longestMs: longest } } }
}

function manifest(value: string): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { value } })
}
