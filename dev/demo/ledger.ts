import type { Answer, Caller } from './caller.ts'

export const configMaps = '/api/v1/namespaces/default/configmaps'

type Asked = Pick<Caller, 'ask'>

interface Entry {
  readonly call: string
  readonly answer: Answer
}

/**
 * Unsafe calls, with their results. Every delivery creates an object of its own, whose label names the call. So the
 * cluster itself shows calls that were delivered twice, and calls that were lost after an answer.
 */
export class Ledger {
  readonly #scene: string
  readonly #entries: Entry[] = []
  #count = 0

  /** @param scene - a word that only this ledger has */
  constructor(scene: string) {
    this.#scene = scene
  }

  /** Makes one unsafe call. */
  async create(caller: Asked): Promise<Answer> {
    const call = `call-${++this.#count}`
    const metadata = { generateName: 'demo-', labels: { 'demo-scene': this.#scene, 'demo-call': call } }
    const answer = await caller.ask(configMaps, {
      method: 'POST',
      body: { kind: 'ConfigMap', apiVersion: 'v1', metadata },
    })
    this.#entries.push({ call, answer })
    return answer
  }

  /** @returns differences between the cluster and the answers to the callers, a line each */
  async audit(caller: Asked): Promise<string[]> {
    const selector = `labelSelector=${encodeURIComponent(`demo-scene=${this.#scene}`)}`
    const answer = await caller.ask(`${configMaps}?${selector}`)
    if (answer.status !== 200) return [`what was delivered cannot be listed: ${answer.status} ${answer.body}`]
    const { items } = JSON.parse(answer.body) as {
      items: { metadata: { name: string; labels: Record<string, string> } }[]
    }
    const found = Object.groupBy(items, ({ metadata }) => metadata.labels['demo-call'] ?? '')
    await Promise.all(items.map(({ metadata }) => caller.ask(`${configMaps}/${metadata.name}`, { method: 'DELETE' })))
    return this.#entries.flatMap(({ call, answer: { status, delivery } }) => {
      const count = found[call]?.length ?? 0
      if (count > 1) return [`${call} was delivered ${count} times`]
      if (status === 201 && count === 0) return [`${call} was answered with 201, and is lost`]
      if (delivery === 'none' && count > 0) return [`${call} was said not to be delivered, and was`]
      return []
    })
  }
}
